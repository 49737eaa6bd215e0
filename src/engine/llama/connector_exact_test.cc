// Exact mode: 64 greedy tokens and all logits that they were chosen by are, bit for bit, those of a run with nothing
// cached, whatever is cached and whoever else is served.
#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

constexpr size_t kGenerated = 64;
constexpr uint32_t kSequences = 3;

struct Kind {
  const char* name;
  uint32_t window;
  bool flash_attention;
  ggml_type type;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class ConnectorExact : public testing::TestWithParam<Kind> {
 protected:
  ConnectorExact() : model_(GetParam().window > 0 ? window_model(GetParam().window) : dense_model()) {}

  static TestEngineOptions options(bool restore = true) {
    TestEngineOptions options;
    options.params = one_thread_params(512 * kSequences, kSequences, false);
    options.params.type_k = GetParam().type;
    options.params.type_v = GetParam().type;
    options.params.flash_attn_type =
        GetParam().flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    options.exact = true;
    options.restore = restore;
    return options;
  }

  // With nothing cached, alone.
  Answer cold(std::span<const Token> prompt, size_t count = kGenerated) {
    TestCache cache;
    TestEngine engine(model_, cache, options(false));
    const Answer answer = engine.converse(1, prompt, count);
    EXPECT_EQ(engine.last_restored(), 0);
    return answer;
  }

  // A window narrower than a unit has passed rows before they can be stored: right, but never restored.
  static int32_t restored(size_t tokens) {
    const bool storable = GetParam().window == 0 || GetParam().window >= 64;
    return storable ? static_cast<int32_t>(tokens / 64 * 64) : 0;
  }

  // Other conversations in every slot.
  void converse_about_something_else(TestEngine& engine) {
    for (int32_t i = 0; i < 6; ++i) {
      engine.converse(i % kSequences, random_tokens(900 + static_cast<uint32_t>(i), 70 + 31 * static_cast<size_t>(i)),
                      5);
    }
  }

  const TestModel model_;
};

// llama-server copies a prompt's rows to the slots of further answers, and may give such a slot to somebody else before
// it computes anything again.
TEST_P(ConnectorExact, ACopyThatWasGivenUpOverwritesNothing) {
  TestCache cache;
  TestEngine engine(model_, cache, options());
  const auto prompt = random_tokens(1, 300);
  const Answer wanted = cold(prompt, 8);
  engine.converse(1, prompt, 8);
  engine.ask(0, random_tokens(2, 320));
  engine.ask(1, random_tokens(3, 70));
  engine.empty(1);
  engine.connector->copy(0, 1, -1, -1);
  engine.empty(1);
  expect_bit_equal(engine.converse(1, prompt, 8), wanted);
  EXPECT_EQ(engine.last_restored(), restored(300));
}

TEST_P(ConnectorExact, WarmIsColdAtEveryLength) {
  TestCache cache;
  for (const uint32_t length :
       {1U, 2U, 63U, 64U, 65U, 66U, 127U, 128U, 129U, 191U, 192U, 193U, 255U, 256U, 257U, 300U}) {
    SCOPED_TRACE(length);
    const auto prompt = random_tokens(length, length);
    const size_t count = length % 64 == 1 ? kGenerated : 8;
    const Answer expected = cold(prompt, count);
    TestEngine first(model_, cache, options());
    expect_bit_equal(expected, first.converse(2, prompt, count));
    TestEngineOptions larger = options();
    larger.params.n_ctx = 5 * 1024;
    larger.params.n_seq_max = 5;
    TestEngine second(model_, cache, larger);
    expect_bit_equal(expected, second.converse(4, prompt, count));
    EXPECT_EQ(second.last_restored(), restored(length - 1));
    expect_bit_equal(expected, second.converse(1, prompt, count));
    expect_bit_equal(expected, second.converse(1, prompt, count));
    EXPECT_EQ(second.last_restored(), static_cast<int32_t>((length - 1) / 64 * 64)) << "its own rows, kept";
  }
}

TEST_P(ConnectorExact, AfterOtherConversations) {
  const auto prompt = random_tokens(1, 150);
  const Answer expected = cold(prompt);
  TestCache cache;
  TestEngine engine(model_, cache, options());
  converse_about_something_else(engine);
  expect_bit_equal(expected, engine.converse(0, prompt, kGenerated));
  converse_about_something_else(engine);
  expect_bit_equal(expected, engine.converse(1, prompt, kGenerated));
  EXPECT_EQ(engine.last_restored(), restored(128));
}

// Prompts in any pieces, however the server cuts them; the hook is asked before each.
TEST_P(ConnectorExact, InAnyPieces) {
  const auto prompt = random_tokens(2, 210);
  const Answer expected = cold(prompt, 8);
  for (const uint32_t chunk : {1U, 7U, 50U, 63U, 64U, 65U, 100U, 128U, 209U}) {
    SCOPED_TRACE(chunk);
    TestCache cache;
    TestEngine::Request request;
    request.chunk = chunk;
    TestEngine engine(model_, cache, options());
    expect_bit_equal(expected, engine.converse(0, prompt, 8, request));
    EXPECT_EQ(cache.count(Counter::kTokensComputedPrompt), 210U) << "nothing is computed twice";
    expect_bit_equal(expected, engine.converse(1, prompt, 8, request));
    EXPECT_EQ(engine.last_restored(), restored(192));
  }
}

// While tokens are held back, the caller's view is that they are there.
TEST_P(ConnectorExact, HeldTokensCountAsThere) {
  TestCache cache;
  TestEngine engine(model_, cache, options());
  const auto prompt = random_tokens(3, 120);
  EXPECT_EQ(engine.restore(0, prompt, 0), 0);
  EXPECT_EQ(engine.compute(0, head(prompt, 100), 0, false), 0);
  EXPECT_EQ(engine.connector->position_max(0), 99);
  EXPECT_TRUE(engine.has_rows(0, 64)) << "the engine has got the whole units";
  EXPECT_EQ(engine.restore(0, prompt, 100), 100);
  EXPECT_TRUE(engine.connector->remove(0, 90, -1)) << "what is held can be dropped";
  EXPECT_EQ(engine.connector->position_max(0), 89);
  EXPECT_EQ(engine.compute(0, prompt, 90, true), 0);
  EXPECT_TRUE(bit_equal(engine.logits(), cold(prompt, 1).logits[0]));
}

// Three sequences in the same batches: two generate while the third one's prompt is computed, and after.
TEST_P(ConnectorExact, WhileOthersAreServedInTheSameBatches) {
  const auto prompt = random_tokens(4, 150);
  const Answer expected = cold(prompt);
  for (const bool warm : {false, true}) {
    TestCache cache;
    TestEngine engine(model_, cache, options());
    if (warm) {
      engine.converse(0, prompt, kGenerated);
      engine.empty(0);
    }
    std::vector<std::vector<Token>> others{random_tokens(5, 90), random_tokens(6, 170)};
    for (int32_t seq = 0; seq < 2; ++seq)
      engine.ask(seq, others[static_cast<size_t>(seq)]);
    const int32_t have = engine.restore(2, prompt, 0);
    EXPECT_EQ(have, warm ? restored(128) : 0);
    auto rest = rows_at(2, have, std::span(prompt).subspan(static_cast<size_t>(have)), true);
    Answer answer;
    while (answer.tokens.size() < kGenerated) {
      // The others stand in front of it and behind it.
      std::vector<Row> rows;
      for (int32_t seq = 0; seq < 2; ++seq) {
        auto& text = others[static_cast<size_t>(seq)];
        text.push_back(static_cast<Token>(answer.tokens.size()) % 251);
        const Row row{text.back(), static_cast<int32_t>(text.size()) - 1, seq, true, 0};
        if (seq == 1) rows.insert(rows.end(), rest.begin(), rest.end());
        rows.push_back(row);
      }
      EXPECT_EQ(engine.decode(rows), 0);
      answer.logits.push_back(engine.logits(static_cast<int32_t>(rows.size()) - 2));
      answer.tokens.push_back(best_token(answer.logits.back()));
      EXPECT_TRUE(bit_equal(answer.logits.back(), engine.logits(-2)));
      rest = rows_at(2, static_cast<int32_t>(prompt.size() + answer.tokens.size()) - 1,
                     std::span(&answer.tokens.back(), 1), true);
    }
    expect_bit_equal(expected, answer);
  }
}

TEST_P(ConnectorExact, OverSeveralTurns) {
  TestCache cache;
  TestEngine engine(model_, cache, options());
  std::vector<Token> text = random_tokens(7, 80);
  for (size_t turn = 0; turn < 4; ++turn) {
    SCOPED_TRACE(turn);
    const Answer answer = engine.converse(0, text, 20);
    expect_bit_equal(cold(text, 20), answer);
    // Whole units of what was computed as a prompt before: an answer's rows are computed again as a prompt's.
    EXPECT_EQ(engine.last_restored(), std::vector<int32_t>({0, 64, 128, 128})[turn]);
    text = join(join(text, answer.tokens), random_tokens(8 + static_cast<uint32_t>(turn), 30));
  }
}

// A program that gives fewer than 64 tokens at once, and an engine that cuts batches smaller than that.
TEST_P(ConnectorExact, WithSmallBatches) {
  const auto prompt = random_tokens(12, 150);
  TestEngineOptions small = options();
  small.params.n_batch = 32;
  small.params.n_ubatch = 32;
  TestEngine::Request request;
  request.chunk = 32;
  TestCache cache;
  TestEngine engine(model_, cache, small);
  const Answer cold = engine.converse(0, prompt, 8, request);
  EXPECT_EQ(engine.last_restored(), 0);
  expect_bit_equal(cold, engine.converse(1, prompt, 8, request));
  EXPECT_EQ(engine.last_restored(), restored(128));
}

// The history was edited: the prompt parts from what the slot has in the middle.
TEST_P(ConnectorExact, AfterAnEditInTheMiddle) {
  TestCache cache;
  TestEngine engine(model_, cache, options());
  const auto before = random_tokens(9, 200);
  engine.converse(0, before, 30);
  for (const uint32_t at : {199U, 150U, 128U, 127U, 64U, 10U}) {
    SCOPED_TRACE(at);
    const auto edited = join(head(before, at), random_tokens(10 + at, 230 - at));
    expect_bit_equal(cold(edited, 8), engine.converse(0, edited, 8));
    EXPECT_EQ(engine.last_restored(), static_cast<int32_t>(at / 64 * 64));
  }
}

// A program without the hook: decode itself restores.
TEST_P(ConnectorExact, WithoutTheHook) {
  TestEngine::Request bare;
  bare.hook = false;
  for (const uint32_t chunk : {2048U, 64U, 50U}) {
    SCOPED_TRACE(chunk);
    bare.chunk = chunk;
    const auto prompt = random_tokens(11, 215);
    const Answer expected = cold(prompt, 24);
    TestCache cache;
    TestEngine engine(model_, cache, options());
    expect_bit_equal(expected, engine.converse(0, prompt, 24, bare));
    const uint64_t computed = cache.computed();
    expect_bit_equal(expected, engine.converse(1, prompt, 24, bare));
    EXPECT_EQ(cache.computed() - computed, 215U - static_cast<uint32_t>(restored(192)) + 23U);
    TestEngine other(model_, cache, options());
    converse_about_something_else(other);
    expect_bit_equal(expected, other.converse(2, prompt, 24, bare));
  }
}

// All but one token of the prompt is there already: it is still a prompt's token, not one that was generated.
TEST_P(ConnectorExact, WithoutTheHookAndOneTokenLeft) {
  TestEngine::Request bare;
  bare.hook = false;
  TestCache cache;
  TestEngine engine(model_, cache, options());
  const auto prompt = random_tokens(13, 130);
  for (const size_t length : {130U, 130U, 129U, 128U, 128U, 100U, 64U, 2U}) {
    SCOPED_TRACE(length);
    const auto part = head(prompt, length);
    expect_bit_equal(cold(part, 4), engine.converse(0, part, 4, bare));
    EXPECT_LE(engine.last_restored(), static_cast<int32_t>(length) - 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ConnectorExact,
    testing::Values(Kind{"dense", 0, true, GGML_TYPE_F16}, Kind{"dense_no_fa", 0, false, GGML_TYPE_F16},
                    Kind{"dense_q8_0", 0, true, GGML_TYPE_Q8_0}, Kind{"window", 96, true, GGML_TYPE_F16},
                    Kind{"narrow_window", 40, true, GGML_TYPE_F16}, Kind{"window_no_fa", 96, false, GGML_TYPE_F16}),
    [](const testing::TestParamInfo<Kind>& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace rhizome
