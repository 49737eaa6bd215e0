// Faults while rows are put into the engine, and blocks that do not verify: no request fails, no wrong row remains.
#include <gtest/gtest.h>

#include "engine/llama/linked_api.h"
#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

constexpr float kOrderNoise = 0.1F;  // see connector_restore_test.cc

// Stands in front of llama_state_seq_set_data_ext and lets one call fail.
struct RefusingImport {
  enum class How : uint8_t { kRefuse, kWriteHalf };

  static inline int calls_until_failure = -1;  // -1: never
  static inline How how = How::kRefuse;
  static inline int failures = 0;

  static size_t set_data(llama_context* context, const uint8_t* data, size_t size, llama_seq_id seq, uint32_t flags) {
    const bool fails = calls_until_failure == 0;
    if (calls_until_failure >= 0) --calls_until_failure;
    if (fails) {
      ++failures;
      // A cut blob is refused by the engine itself, after it has queued the rows before the cut.
      if (how == How::kWriteHalf) return llama_state_seq_set_data_ext(context, data, size * 2 / 3, seq, flags);
      return 0;
    }
    return llama_state_seq_set_data_ext(context, data, size, seq, flags);
  }

  static void reset() {
    calls_until_failure = -1;
    failures = 0;
  }
};

struct Kind {
  const char* name;
  bool windowed;
  bool unified;
  bool exact;
  bool flash_attention;
  RefusingImport::How how;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class ConnectorFault : public testing::TestWithParam<Kind> {
 protected:
  ConnectorFault() : model_(GetParam().windowed ? window_model(96) : dense_model()) {
    RefusingImport::reset();
    RefusingImport::how = GetParam().how;
    TestEngine(model_, cache_, options()).ask(0, prompt_);
  }
  ~ConnectorFault() override { RefusingImport::reset(); }

  static TestEngineOptions options() {
    TestEngineOptions options;
    options.params = one_thread_params(2048, 4, GetParam().unified);
    options.params.n_ubatch = 64;
    options.params.flash_attn_type =
        GetParam().flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    options.exact = GetParam().exact;
    return options;
  }

  // In exact mode the answer is the undisturbed one bit for bit; otherwise rows may be batched in another way.
  static void expect_same_answer(const Answer& found, const Answer& wanted) {
    if (GetParam().exact) {
      expect_bit_equal(found, wanted);
      return;
    }
    EXPECT_EQ(found.tokens, wanted.tokens);
    for (size_t i = 0; i < found.logits.size(); ++i) {
      EXPECT_LE(greatest_difference(found.logits[i], wanted.logits[i]), kOrderNoise) << "token " << i;
    }
  }

  const TestModel model_;
  TestCache cache_;
  const std::vector<Token> prompt_ = random_tokens(1, 200);
};

// Other sequences live while a restore fails half-way. All of them go on as in a run in which nothing happened.
TEST_P(ConnectorFault, AFailedRestoreIsComputedAgainWithAllThatLive) {
  const std::vector<Token> texts[] = {random_tokens(2, 150), random_tokens(3, 70)};
  const auto run = [&](bool fault, bool hook) {
    TestEngine engine(model_, cache_, options());
    engine.api.state_seq_set_data_ext = RefusingImport::set_data;
    TestEngine::Request request;
    request.hook = hook;
    std::vector<Answer> answers(3);
    // The lengths differ from what is stored, so that these two are computed here and hold rows of all kinds.
    for (int32_t seq = 0; seq < 2; ++seq) {
      TestEngine::Request bypass;
      bypass.flags = Connector::kBypass;
      answers[seq] = engine.converse(seq, texts[seq], 5, bypass);
    }
    RefusingImport::calls_until_failure = fault ? 0 : -1;
    answers[2] = engine.converse(2, prompt_, 5, request);
    EXPECT_EQ(RefusingImport::failures, fault ? 1 : 0);
    RefusingImport::reset();
    for (int32_t seq = 2; seq >= 0; --seq) {
      Answer& answer = answers[seq];
      for (int i = 0; i < 8; ++i) {
        answer.logits.push_back(engine.step(seq, answer.tokens.back()));
        answer.tokens.push_back(best_token(answer.logits.back()));
      }
    }
    return answers;
  };
  for (const bool hook : {true, false}) {
    SCOPED_TRACE(hook ? "hook" : "decode");
    const uint64_t failed = cache_.count(Counter::kImportsFailed);
    const uint64_t rebuilt = cache_.count(Counter::kTokensComputedRebuilt);
    const auto undisturbed = run(false, hook);
    EXPECT_EQ(cache_.count(Counter::kImportsFailed), failed);
    EXPECT_EQ(cache_.count(Counter::kTokensComputedRebuilt), rebuilt);
    const auto disturbed = run(true, hook);
    EXPECT_EQ(cache_.count(Counter::kImportsFailed), failed + 1);
    EXPECT_EQ(cache_.count(Counter::kTokensComputedRebuilt), rebuilt + 154 + 74) << "every live row, once";
    for (size_t i = 0; i < 3; ++i) {
      SCOPED_TRACE(i);
      expect_same_answer(disturbed[i], undisturbed[i]);
    }
  }
}

// What was lost is not lost for the cache: stored blocks are found by the next request, and what is computed again
// is stored if it was not.
TEST_P(ConnectorFault, TheCacheWorksOnAfterwards) {
  TestEngine engine(model_, cache_, options());
  engine.api.state_seq_set_data_ext = RefusingImport::set_data;
  RefusingImport::calls_until_failure = 0;
  const Logits first = engine.ask(0, prompt_);
  EXPECT_EQ(engine.last_restored(), 0) << "the request starts anew";
  EXPECT_EQ(cache_.count(Counter::kStoppedLoadFailed), 1U);
  const Logits second = engine.ask(1, prompt_);
  EXPECT_GE(engine.last_restored(), 192);
  EXPECT_EQ(best_token(first), best_token(second));
}

// A sequence whose rows were lost while it waits for its next request.
TEST_P(ConnectorFault, ALostSequenceServesItsNextRequest) {
  TestEngine engine(model_, cache_, options());
  engine.api.state_seq_set_data_ext = RefusingImport::set_data;
  const auto text = random_tokens(4, 120);
  engine.ask(1, text);
  RefusingImport::calls_until_failure = 0;
  engine.ask(0, prompt_);
  EXPECT_EQ(cache_.count(Counter::kImportsFailed), 1U);
  // The server still believes in all of its rows; they come back from the store.
  const auto next = join(text, random_tokens(5, 30));
  EXPECT_EQ(engine.connector->position_max(1), 119);
  const Logits found = engine.ask(1, next);
  TestCache empty;
  const Logits wanted = TestEngine(model_, empty, options()).ask(1, next);
  EXPECT_EQ(best_token(found), best_token(wanted));
  EXPECT_LE(greatest_difference(found, wanted), kOrderNoise);
}

// What a program does with a sequence whose rows were lost, before it computes anything with it.
TEST_P(ConnectorFault, ALostSequenceIsThereForWhateverIsDoneWithIt) {
  const auto text = random_tokens(4, 70);
  const auto lose = [&](TestEngine& engine) {
    engine.api.state_seq_set_data_ext = RefusingImport::set_data;
    engine.ask(1, text);
    RefusingImport::calls_until_failure = 0;
    engine.ask(0, prompt_);
    engine.empty(0);
  };
  const auto next_of = [](TestEngine& engine, int32_t seq, int32_t position) {
    const Token token = 5;
    EXPECT_EQ(engine.decode(rows_at(seq, position, std::span(&token, 1), true)), 0);
    return engine.logits();
  };
  TestCache twin_cache;
  TestEngine twin(model_, twin_cache, options());
  twin.ask(1, text);
  const Logits wanted = next_of(twin, 1, 70);
  TestEngine copied(model_, cache_, options());
  lose(copied);
  copied.connector->copy(1, 2, -1, -1);
  EXPECT_LE(greatest_difference(next_of(copied, 2, 70), wanted), kOrderNoise);
  EXPECT_LE(greatest_difference(next_of(copied, 1, 70), wanted), kOrderNoise);
  TestEngine cut(model_, cache_, options());
  lose(cut);
  EXPECT_TRUE(cut.connector->remove(1, 60, -1));
  EXPECT_EQ(cut.connector->position_max(1), 59);
  EXPECT_EQ(cut.compute(1, text, 60, true), 0);
  EXPECT_LE(greatest_difference(next_of(cut, 1, 70), wanted), kOrderNoise);
  TestEngine shifted(model_, cache_, options());
  lose(shifted);
  EXPECT_TRUE(shifted.connector->remove(1, 10, 20));
  shifted.connector->shift(1, 20, -1, -10);
  EXPECT_TRUE(shifted.has_rows(1, 60));
  next_of(shifted, 1, 60);
  // A picture behind the text: embeddings that are not followed, on rows that are.
  TestEngine embedded(model_, cache_, options());
  lose(embedded);
  std::vector<float> values(model_.shape.width, 0.5F);
  llama_batch batch = llama_batch_init(1, static_cast<int32_t>(model_.shape.width), 1);
  std::copy(values.begin(), values.end(), batch.embd);
  batch.n_tokens = 1;
  batch.pos[0] = 70;
  batch.n_seq_id[0] = 1;
  batch.seq_id[0][0] = 1;
  batch.logits[0] = 1;
  EXPECT_EQ(embedded.connector->decode(batch), 0);
  llama_batch_free(batch);
  EXPECT_TRUE(embedded.has_rows(1, 71));
}

// A block that was damaged in memory is a miss; nobody notices but the counters.
TEST_P(ConnectorFault, ADamagedBlockIsAMiss) {
  TestEngine engine(model_, cache_, options());
  const auto other = random_tokens(6, 90);
  TestEngine::Request bypass;
  bypass.flags = Connector::kBypass;
  engine.ask(3, other, bypass);
  TestCache twin_cache;
  TestEngine twin(model_, twin_cache, options());
  twin.ask(3, other, bypass);

  damage_block(*cache_.client, kOnlyKeyspace, prompt_, 9);
  const Logits found = engine.ask(0, prompt_);
  EXPECT_EQ(engine.last_restored(), GetParam().exact ? 128 : 144) << "up to the damaged block";
  EXPECT_EQ(cache_.count(Counter::kChecksumFailures), 1U);
  EXPECT_EQ(cache_.count(Counter::kQuarantines) > 0, true);
  EXPECT_EQ(cache_.count(Counter::kStoppedCorrupt), 1U);
  EXPECT_EQ(cache_.count(Counter::kImportsFailed), 0U) << "nothing of it reached the engine";
  TestCache empty;
  const Logits wanted = TestEngine(model_, empty, options()).ask(0, prompt_);
  EXPECT_LE(greatest_difference(found, wanted), kOrderNoise);
  EXPECT_EQ(best_token(found), best_token(wanted));
  // The other sequence's next logits are those of an engine in which nothing of this happened.
  twin.ask(0, prompt_);
  EXPECT_LE(greatest_difference(engine.step(3, 5), twin.step(3, 5)), GetParam().unified ? kOrderNoise : 0);
  // And what was computed in its place is stored: the next one gets all of it.
  TestEngine next(model_, cache_, options());
  next.ask(0, prompt_);
  EXPECT_EQ(next.last_restored(), 192);
}

INSTANTIATE_TEST_SUITE_P(
    All, ConnectorFault,
    testing::Values(Kind{"dense", false, true, false, true, RefusingImport::How::kRefuse},
                    Kind{"dense_half_written", false, true, false, true, RefusingImport::How::kWriteHalf},
                    Kind{"no_fa_half_written", false, true, false, false, RefusingImport::How::kWriteHalf},
                    Kind{"streams", false, false, false, true, RefusingImport::How::kRefuse},
                    Kind{"streams_half_written", false, false, false, true, RefusingImport::How::kWriteHalf},
                    Kind{"window", true, true, false, true, RefusingImport::How::kRefuse},
                    Kind{"window_half_written", true, true, false, true, RefusingImport::How::kWriteHalf},
                    Kind{"exact", false, false, true, true, RefusingImport::How::kRefuse},
                    Kind{"exact_half_written", false, false, true, true, RefusingImport::How::kWriteHalf},
                    Kind{"exact_window", true, false, true, true, RefusingImport::How::kWriteHalf}),
    [](const testing::TestParamInfo<Kind>& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace rhizome
