// What is restored is what would have been computed: dense and windowed models, both ways of attention, every type of
// cache, other contexts, any number of blocks.
//
// How equal? Two runs are batched alike here, so rows differ only where the engine adds up in another order. When the
// rows lie in the same order in the cache it does not: logits must be equal bit for bit. A sliding window's cache is a
// ring, though, and what was restored into an empty one lies in order; flash attention adds values up in 16 bits. Then
// the same token must be chosen, and no logit (they are about 10 wide) may be off by more than 0.1.
#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlock = 16;
constexpr uint32_t kWindow = 48;
constexpr float kOrderNoise = 0.1F;

struct Shape {
  const char* name;
  bool windowed;
  bool flash_attention;
  ggml_type type;
  bool unified;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.name;
}

std::vector<Shape> context_shapes() {
  return {{"dense", false, true, GGML_TYPE_F16, true},
          {"dense_no_fa", false, false, GGML_TYPE_F16, true},
          {"dense_q8_0", false, true, GGML_TYPE_Q8_0, true},
          {"dense_streams", false, true, GGML_TYPE_F16, false},
          {"dense_streams_no_fa", false, false, GGML_TYPE_F16, false},
          {"dense_streams_q8_0", false, true, GGML_TYPE_Q8_0, false},
          {"window", true, true, GGML_TYPE_F16, true},
          {"window_no_fa", true, false, GGML_TYPE_F16, true},
          {"window_q8_0", true, true, GGML_TYPE_Q8_0, true},
          {"window_streams", true, true, GGML_TYPE_F16, false},
          {"window_streams_no_fa", true, false, GGML_TYPE_F16, false},
          {"window_streams_q8_0", true, true, GGML_TYPE_Q8_0, false}};
}

class ConnectorRestore : public testing::TestWithParam<Shape> {
 protected:
  ConnectorRestore() : model_(GetParam().windowed ? window_model(kWindow) : dense_model()) {}

  TestEngineOptions options(uint32_t cells, uint32_t sequences) const {
    TestEngineOptions options;
    options.params = one_thread_params(cells, sequences, GetParam().unified);
    options.params.n_ubatch = 64;  // the window's cache is then far shorter than the prompts
    options.params.type_k = GetParam().type;
    options.params.type_v = GetParam().type;
    options.params.flash_attn_type =
        GetParam().flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    return options;
  }

  static void expect_equal(const Logits& a, const Logits& b, bool same_order) {
    const float difference = greatest_difference(a, b);
    if (same_order) {
      EXPECT_TRUE(bit_equal(a, b)) << "off by " << difference;
    }
    EXPECT_LE(difference, kOrderNoise);
    EXPECT_EQ(best_token(a), best_token(b));
  }

  const TestModel model_;
};

TEST_P(ConnectorRestore, GivesTheSameLogitsInAnotherContext) {
  TestCache cache;
  const auto prompt = random_tokens(1, 600);
  TestEngine::Request cut;
  cut.chunk = 592;  // at a block's end: what is behind it is batched alike in both runs
  TestEngine first(model_, cache, options(2048, 2));
  const Logits cold = first.ask(0, prompt, cut);
  EXPECT_EQ(first.last_restored(), 0);
  // Attaching and storing changes nothing; for a window the prompt is computed in smaller steps.
  expect_equal(cold, bare_logits(model_, options(2048, 2).params, prompt, {592}), !GetParam().windowed);

  TestEngine second(model_, cache, options(4096, 3));
  const Logits warm = second.ask(2, prompt);
  EXPECT_EQ(second.last_restored(), 592);
  // Here the window's last rows do not wrap around in the ring.
  expect_equal(cold, warm, true);
  EXPECT_EQ(cache.count(Counter::kTokensRestoredSlab), 592U);

  // The same slot is given the prompt again: nothing is computed but the last token.
  const Logits again = second.ask(2, prompt);
  EXPECT_EQ(second.last_restored(), GetParam().unified || GetParam().windowed ? 599 : 592);
  EXPECT_EQ(best_token(again), best_token(warm));
}

TEST_P(ConnectorRestore, AnyNumberOfBlocksAndTheRestComputed) {
  const auto prompt = random_tokens(2, 300);
  const uint32_t step = GetParam().type == GGML_TYPE_F16 && GetParam().unified ? 1 : 6;
  for (uint32_t blocks = 0; blocks <= 18; blocks += step) {
    SCOPED_TRACE(blocks);
    TestEngine::Request cut;
    cut.chunk = blocks == 0 ? 2048 : blocks * kBlock;
    TestCache cache;
    TestEngine first(model_, cache, options(1024, 2));
    first.ask(0, head(prompt, blocks * kBlock + 1), cut);
    const Logits warm = TestEngine(model_, cache, options(1024, 2)).ask(0, prompt);
    EXPECT_EQ(cache.count(Counter::kTokensRestoredSlab), blocks * kBlock);

    EXPECT_TRUE(first.connector->remove(0, static_cast<int32_t>(blocks * kBlock), -1));
    EXPECT_EQ(first.compute(0, prompt, static_cast<int32_t>(blocks * kBlock), true), 0);
    expect_equal(first.logits(), warm, !GetParam().windowed);
  }
}

TEST_P(ConnectorRestore, GoesOnGeneratingAsIfComputed) {
  TestCache cache;
  const auto prompt = random_tokens(3, 200);
  TestEngine::Request cut;
  cut.chunk = 192;
  const Answer cold = TestEngine(model_, cache, options(1024, 2)).converse(0, prompt, 24, cut);
  TestEngine other(model_, cache, options(2048, 3));
  const Answer warm = other.converse(1, prompt, 24);
  EXPECT_EQ(other.last_restored(), 192);
  if (GetParam().windowed) {
    EXPECT_EQ(cold.tokens, warm.tokens);
  } else {
    expect_bit_equal(cold, warm);
  }
}

// The store does not know whether a cache has one stream or several.
TEST_P(ConnectorRestore, TakesBlocksFromTheOtherKindOfCache) {
  TestCache cache;
  const auto prompt = random_tokens(4, 200);
  TestEngine::Request cut;
  cut.chunk = 192;
  TestEngineOptions other = options(2048, 2);
  other.params.kv_unified = !GetParam().unified;
  const Logits cold = TestEngine(model_, cache, options(1024, 2)).ask(0, prompt, cut);
  TestEngine engine(model_, cache, other);
  const Logits warm = engine.ask(1, prompt);
  EXPECT_EQ(engine.last_restored(), 192);
  expect_equal(cold, warm, !GetParam().windowed);
}

TEST_P(ConnectorRestore, StoresWhatWasGenerated) {
  TestCache cache;
  const auto prompt = random_tokens(5, 100);
  const Answer answer = TestEngine(model_, cache, options(1024, 2)).converse(0, prompt, 50);
  const auto next = join(join(prompt, answer.tokens), random_tokens(6, 40));
  TestEngine other(model_, cache, options(1024, 2));
  const Logits warm = other.ask(0, next);
  EXPECT_EQ(other.last_restored(), 144) << "100 and 49 fed back: nine blocks";
  TestCache empty;
  const Logits cold = TestEngine(model_, empty, options(1024, 2)).ask(0, next);
  EXPECT_EQ(best_token(cold), best_token(warm));
  EXPECT_LE(greatest_difference(cold, warm), GetParam().type == GGML_TYPE_F16 ? kOrderNoise : 0.3F);
}

INSTANTIATE_TEST_SUITE_P(All, ConnectorRestore, testing::ValuesIn(context_shapes()),
                         [](const testing::TestParamInfo<Shape>& each) { return std::string(each.param.name); });

TEST(ConnectorRestoreLengths, OneTokenIsAlwaysLeftToCompute) {
  const TestModel model(dense_model());
  for (const uint32_t length : {1U, 2U, 15U, 16U, 17U, 31U, 32U, 33U, 48U, 49U}) {
    SCOPED_TRACE(length);
    TestCache cache;
    const auto prompt = random_tokens(7, length);
    TestEngine(model, cache).ask(0, prompt);
    TestEngine stored(model, cache);
    stored.ask(0, prompt);
    EXPECT_EQ(stored.last_restored(), static_cast<int32_t>((length - 1) / kBlock * kBlock));
    // In the same context the other sequence's rows are shared down to the token.
    stored.ask(1, prompt);
    EXPECT_EQ(stored.last_restored(), static_cast<int32_t>(length - 1));
  }
}

// More than what is moved in one piece.
TEST(ConnectorRestoreLengths, ManyPieces) {
  for (const bool windowed : {false, true}) {
    SCOPED_TRACE(windowed);
    const TestModel model(windowed ? window_model(kWindow) : dense_model());
    TestCache cache;
    TestEngineOptions options;
    options.params = one_thread_params(5120, 1, true);
    const auto prompt = random_tokens(1, 5000);
    const Logits cold = TestEngine(model, cache, options).ask(0, prompt);
    ASSERT_GT(cache.count(Counter::kBytesExported), uint64_t{2} << 20);
    TestEngine engine(model, cache, options);
    const Logits warm = engine.ask(0, prompt);
    EXPECT_EQ(engine.last_restored(), 4992);
    EXPECT_EQ(cache.count(Counter::kImportsFailed), 0U);
    EXPECT_LE(greatest_difference(warm, cold), kOrderNoise);
    EXPECT_EQ(best_token(warm), best_token(cold));
  }
}

TEST(ConnectorRestoreLengths, BlocksMayBeLarger) {
  const TestModel model(dense_model());
  for (const uint32_t block : {32U, 64U, 128U, 256U}) {
    TestCache cache(uint64_t{64} << 20, block);
    const auto prompt = random_tokens(8, 600);
    TestEngine first(model, cache);
    const Logits cold = first.ask(0, prompt);
    TestEngine second(model, cache);
    const Logits warm = second.ask(0, prompt);
    EXPECT_EQ(second.last_restored(), static_cast<int32_t>(599 / block * block));
    EXPECT_EQ(best_token(cold), best_token(warm));
    EXPECT_LE(greatest_difference(cold, warm), kOrderNoise);
  }
}

}  // namespace
}  // namespace rhizome
