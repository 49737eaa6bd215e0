// The cache behind the connector: too small, known late, moved in several pieces.
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"
#include "machine/files.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

constexpr float kOrderNoise = 0.1F;  // see connector_restore_test.cc

void expect_close(const Logits& found, const Logits& wanted) {
  EXPECT_LE(greatest_difference(found, wanted), kOrderNoise);
  EXPECT_EQ(best_token(found), best_token(wanted));
}

struct Kind {
  const char* name;
  bool windowed;
  bool exact;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class ConnectorStore : public testing::TestWithParam<Kind> {
 protected:
  ConnectorStore() : model_(GetParam().windowed ? window_model(96) : dense_model()) {}

  static TestEngineOptions options() {
    TestEngineOptions options;
    options.params = one_thread_params(4096, 3, !GetParam().exact);
    options.params.n_ubatch = 64;
    options.exact = GetParam().exact;
    return options;
  }

  const TestModel model_;
};

// Five agents take turns on three slots. The cache holds some twenty blocks of 16 or 8 KiB: what one of them stored is
// gone, or half gone, when it comes back.
TEST_P(ConnectorStore, ResultsStayRightWhenBlocksVanish) {
  TestCache cache(GetParam().windowed ? 400 << 10 : 200 << 10);
  TestEngine engine(model_, cache, options());
  TestCache twin_cache;
  const auto shared = random_tokens(1, 100);
  std::vector<std::vector<Token>> texts;
  for (uint32_t agent = 0; agent < 5; ++agent)
    texts.push_back(join(shared, random_tokens(10 + agent, 90)));
  for (uint32_t round = 0; round < 4; ++round) {
    for (uint32_t agent = 0; agent < 5; ++agent) {
      SCOPED_TRACE("round " + std::to_string(round) + " agent " + std::to_string(agent));
      const Answer answer = engine.converse(static_cast<int32_t>(agent % 3), texts[agent], 4);
      TestEngineOptions alone = options();
      alone.restore = false;
      const Answer wanted = TestEngine(model_, twin_cache, alone).converse(0, texts[agent], 4);
      if (GetParam().exact) {
        expect_bit_equal(answer, wanted);
      } else {
        expect_close(answer.logits[0], wanted.logits[0]);
      }
      texts[agent] = join(join(texts[agent], wanted.tokens), random_tokens(100 + 5 * round + agent, 20));
    }
  }
  EXPECT_GT(cache.count(Counter::kEvictions), 0U);
  EXPECT_LE(cache.count(Counter::kMemoryUsed), cache.count(Counter::kMemoryCapacity));
  EXPECT_EQ(cache.count(Counter::kMemoryPinned), 0U) << "nothing is held between the calls";
  EXPECT_EQ(cache.count(Counter::kImportsFailed), 0U);
}

// A cache with room for two blocks, and none at all for the second keyspace.
TEST_P(ConnectorStore, NoRoomForAWholePrompt) {
  TestCache cache(GetParam().windowed ? 96 << 10 : 48 << 10);
  TestEngine engine(model_, cache, options());
  const auto prompt = random_tokens(1, 200);
  for (int32_t seq = 0; seq < 3; ++seq) {
    expect_close(engine.ask(seq, prompt), bare_logits(model_, options().params, prompt));
    for (Token token = 0; token < 8; ++token)
      engine.step(seq, token);
    engine.empty(seq);
  }
  EXPECT_GT(cache.count(Counter::kBlocksRefused), 0U);
  EXPECT_LE(cache.count(Counter::kBlocksRefused), 3U * (200 / 16)) << "each once, however often it is tried";
  EXPECT_LE(cache.count(Counter::kMemoryUsed), cache.count(Counter::kMemoryCapacity));
}

INSTANTIATE_TEST_SUITE_P(All, ConnectorStore,
                         testing::Values(Kind{"dense", false, false}, Kind{"window", true, false},
                                         Kind{"exact", false, true}, Kind{"exact_window", true, true}),
                         [](const testing::TestParamInfo<Kind>& each) { return std::string(each.param.name); });

// Several MiB at once: blocks are moved in pieces.
class ConnectorPieces : public testing::Test {
 protected:
  static RandomModel wide_rows() {
    RandomModel shape = dense_model();
    shape.layers = 16;
    shape.heads_kv = 2;  // 8 KiB a token: a piece of 1.5 MiB holds 192 tokens
    return shape;
  }

  static TestEngineOptions options() {
    TestEngineOptions options;
    options.params = one_thread_params(2048, 2, true);
    return options;
  }

  const TestModel model_{wide_rows()};
  TestCache cache_;
  const std::vector<Token> prompt_ = random_tokens(1, 820);
};

size_t fail_second_call(llama_context* context, const uint8_t* data, size_t size, llama_seq_id seq, uint32_t flags) {
  static int calls = 0;
  return ++calls == 2 ? 0 : llama_state_seq_set_data_ext(context, data, size, seq, flags);
}

TEST_F(ConnectorPieces, AreAsGoodAsOne) {
  TestEngine::Request cut;
  cut.chunk = 816;
  const Logits cold = TestEngine(model_, cache_, options()).ask(0, prompt_, cut);
  EXPECT_EQ(cache_.count(Counter::kBlocksExported), 51U);
  TestEngine other(model_, cache_, options());
  const Logits warm = other.ask(0, prompt_);
  EXPECT_EQ(other.last_restored(), 816);
  EXPECT_TRUE(bit_equal(cold, warm));

  TestEngine failing(model_, cache_, options());
  failing.api.state_seq_set_data_ext = fail_second_call;
  const Logits computed = failing.ask(0, prompt_, cut);
  EXPECT_EQ(failing.last_restored(), 0) << "a piece had been put there before the second was refused";
  EXPECT_EQ(cache_.count(Counter::kImportsFailed), 1U);
  EXPECT_TRUE(bit_equal(cold, computed));
}

// A block that is damaged in the middle of a later piece.
TEST_F(ConnectorPieces, EndBeforeADamagedBlock) {
  TestEngine(model_, cache_, options()).ask(0, prompt_);
  damage_block(*cache_.client, kOnlyKeyspace, prompt_, 40);
  TestEngine other(model_, cache_, options());
  const Logits found = other.ask(0, prompt_);
  EXPECT_EQ(other.last_restored(), 640);
  expect_close(found, bare_logits(model_, options().params, prompt_));
}

// Weights whose file takes a while to hash: a hole, as large as it takes.
class LateIdentity {
 public:
  explicit LateIdentity(uint64_t bytes) {
    const std::string path = folder_.path("weights");
    EXPECT_TRUE(write_file_atomically(path, std::string_view("x")));
    std::filesystem::resize_file(path, bytes);
    identity_ = std::make_unique<ModelIdentity>(std::vector<std::string>{path}, "", "");
  }
  const ModelIdentity& get() const { return *identity_; }
  bool known() const { return identity_->state() == ModelIdentity::State::kKnown; }

 private:
  const TemporaryFolder folder_;
  std::unique_ptr<ModelIdentity> identity_;
};

// Rows that were computed before the weights were known are stored afterwards, as far as the engine still gives them.
// By the next forward pass or, if `removed`, when they go.
void expect_stored_late(const TestModel& model, const TestEngineOptions& options, uint64_t bytes,
                        bool removed = false) {
  const auto prompt = random_tokens(1, 150);
  TestCache cache;
  const LateIdentity identity(bytes);
  TestEngine engine(model, identity.get(), cache, options);
  engine.ask(0, prompt);
  if (identity.known()) {  // this machine is busy: the hashing was quicker than the prompt
    ASSERT_LT(bytes, uint64_t{1} << 33);
    expect_stored_late(model, options, bytes * 4, removed);
    return;
  }
  EXPECT_EQ(cache.count(Counter::kBlocksExported), 0U);
  EXPECT_EQ(cache.count(Counter::kStoppedNotCacheable), 1U);
  while (!identity.known())
    std::this_thread::yield();
  removed ? engine.empty(0) : static_cast<void>(engine.step(0, 7));
  const bool windowed = model.shape.window > 0;
  EXPECT_EQ(cache.count(Counter::kBlocksExported), windowed ? 0U : options.exact ? 8U : 9U);
  // The next request for it: a window's rows that were passed are computed once more, and stored.
  const auto next = join(prompt, random_tokens(2, 50));
  engine.ask(0, next);
  TestEngine other(model, identity.get(), cache, options);
  other.ask(0, next);
  EXPECT_EQ(other.last_restored(), 192);
}

TEST(ConnectorLate, RowsAreStoredWhenTheWeightsBecomeKnown) {
  TestEngineOptions options;
  options.params = one_thread_params(2048, 2, true);
  options.params.n_ubatch = 64;
  expect_stored_late(TestModel(dense_model()), options, uint64_t{64} << 20);
  expect_stored_late(TestModel(dense_model()), options, uint64_t{64} << 20, true);
  expect_stored_late(TestModel(window_model(48)), options, uint64_t{64} << 20);
  options.exact = true;
  expect_stored_late(TestModel(dense_model()), options, uint64_t{64} << 20);
}

TEST(ConnectorLate, UnknownWeightsAreNeverStored) {
  const TestModel model(dense_model());
  const ModelIdentity unknown({}, "", "");
  TestCache cache;
  const auto prompt = random_tokens(1, 100);
  TestEngine first(model, unknown, cache, {});
  first.ask(0, prompt);
  EXPECT_EQ(cache.count(Counter::kBlocksExported), 0U);
  EXPECT_EQ(cache.count(Counter::kStoppedNotCacheable), 1U);
  first.ask(1, prompt);
  EXPECT_EQ(first.last_restored(), 99) << "rows of the same context are the same model's";
  TestEngine second(model, unknown, cache, {});
  second.ask(0, prompt);
  EXPECT_EQ(second.last_restored(), 0);
}

}  // namespace
}  // namespace rhizome
