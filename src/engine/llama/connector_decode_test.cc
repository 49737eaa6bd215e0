// The forward pass for programs without the hook: prompts are restored inside decode, batches are cut, and outputs are
// found under the indices of the caller's batch. And what is left when a batch does not fit.
#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

constexpr float kOrderNoise = 0.1F;  // see connector_restore_test.cc

struct Kind {
  const char* name;
  bool windowed;
  bool unified;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class ConnectorDecode : public testing::TestWithParam<Kind> {
 protected:
  ConnectorDecode()
      : model_(GetParam().windowed ? window_model(48) : dense_model()), engine_(model_, cache_, options()) {}

  static TestEngineOptions options(uint32_t cells = 4096) {
    TestEngineOptions options;
    options.params = one_thread_params(cells, 4, GetParam().unified);
    options.params.n_ubatch = 64;
    return options;
  }

  static TestEngine::Request without_hook() {
    TestEngine::Request request;
    request.hook = false;
    return request;
  }

  // Appends rows of a sequence at positions from `first` on, with outputs at the given positions.
  static void add(std::vector<Row>& rows, int32_t seq, int32_t first, std::span<const Token> tokens,
                  const std::vector<int32_t>& outputs) {
    for (Row row : rows_at(seq, first, tokens, false)) {
      row.index = static_cast<int32_t>(rows.size());
      row.output = std::find(outputs.begin(), outputs.end(), row.position) != outputs.end();
      rows.push_back(row);
    }
  }

  Logits expected(std::span<const Token> prompt) { return bare_logits(model_, options().params, prompt); }

  static void expect_close(const Logits& found, const Logits& wanted) {
    EXPECT_LE(greatest_difference(found, wanted), kOrderNoise);
    EXPECT_EQ(best_token(found), best_token(wanted));
  }

  uint64_t computed() const { return cache_.count(Counter::kTokensComputedPrompt); }

  const TestModel model_;
  TestCache cache_;
  TestEngine engine_;
  const std::vector<Token> prompt_ = random_tokens(1, 210);
};

TEST_P(ConnectorDecode, RestoresInsideTheBatch) {
  expect_close(engine_.ask(0, prompt_, without_hook()), expected(prompt_));
  EXPECT_EQ(computed(), 210U);
  TestEngine other(model_, cache_, options());
  expect_close(other.ask(0, prompt_, without_hook()), expected(prompt_));
  EXPECT_EQ(computed(), 210 + 210 - 208U);
  EXPECT_EQ(cache_.count(Counter::kLookups), 2U);
  EXPECT_EQ(cache_.count(Counter::kLookupsHit), 1U);
  // Generation goes on as without a cache.
  const Answer answer = other.converse(1, prompt_, 12, without_hook());
  TestCache empty;
  EXPECT_EQ(answer.tokens, TestEngine(model_, empty, options()).converse(1, prompt_, 12).tokens);
}

TEST_P(ConnectorDecode, FindsOutputsUnderTheCallersIndices) {
  engine_.ask(0, prompt_, without_hook());
  engine_.empty(0);
  const auto other_prompt = random_tokens(2, 90);
  // Four outputs of two sequences; most rows before them are restored or computed in batches of their own.
  std::vector<Row> rows;
  add(rows, 1, 0, other_prompt, {50, 89});
  add(rows, 0, 0, prompt_, {100, 209});
  ASSERT_EQ(engine_.decode(rows), 0);
  const Logits wanted[] = {expected(head(other_prompt, 51)), expected(other_prompt), expected(head(prompt_, 101)),
                           expected(prompt_)};
  const int32_t indices[] = {50, 89, 190, 299};
  for (int32_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    expect_close(engine_.logits(indices[i]), wanted[i]);
    EXPECT_TRUE(bit_equal(engine_.logits(indices[i]), engine_.logits(i - 4)));
    const float* all = engine_.connector->logits();
    ASSERT_NE(all, nullptr);
    const Logits in_order(all + i * 256, all + (i + 1) * 256);
    EXPECT_TRUE(bit_equal(in_order, engine_.logits(indices[i]))) << "and llama_get_logits has them one by one";
  }
  EXPECT_GT(cache_.count(Counter::kTokensRestoredSlab) + cache_.count(Counter::kTokensRestoredLive), 0U);
}

// Behind an output the prompt goes on with that row; a stored prompt that lacks it is another one.
TEST_P(ConnectorDecode, RowsBehindAnOutputContinueIt) {
  const auto shorter = join(head(prompt_, 50), std::span(prompt_).subspan(51));
  engine_.ask(0, shorter, without_hook());
  engine_.empty(0);
  std::vector<Row> rows;
  add(rows, 0, 0, prompt_, {50, 209});
  ASSERT_EQ(engine_.decode(rows), 0);
  expect_close(engine_.logits(50), expected(head(prompt_, 51)));
  expect_close(engine_.logits(209), expected(prompt_));
  EXPECT_TRUE(engine_.has_rows(0, 210));
}

TEST_P(ConnectorDecode, TwoPromptsOfOneBatchComputeWhatTheyShareOnce) {
  const auto first = join(prompt_, random_tokens(3, 40));
  const auto second = join(prompt_, random_tokens(4, 40));
  std::vector<Row> rows;
  add(rows, 0, 0, first, {249});
  add(rows, 1, 0, second, {249});
  ASSERT_EQ(engine_.decode(rows), 0);
  const uint64_t shared = GetParam().unified && !GetParam().windowed ? 210 : 208;
  EXPECT_EQ(computed(), 500 - shared);
  expect_close(engine_.logits(249), expected(first));
  expect_close(engine_.logits(499), expected(second));
}

// As llama-simple does it: llama_batch_get_one, nothing but tokens.
TEST_P(ConnectorDecode, UnderstandsBatchesOfTokensAlone) {
  std::vector<llama_token> tokens(prompt_.begin(), prompt_.end());
  Answer answers[2];
  for (Answer& answer : answers) {
    TestEngine engine(model_, cache_, options());
    ASSERT_EQ(engine.connector->decode(llama_batch_get_one(tokens.data(), static_cast<int32_t>(tokens.size()))), 0);
    for (int i = 0; i < 8; ++i) {
      answer.logits.push_back(engine.logits());
      answer.tokens.push_back(best_token(answer.logits.back()));
      auto token = static_cast<llama_token>(answer.tokens.back());
      ASSERT_EQ(engine.connector->decode(llama_batch_get_one(&token, 1)), 0);
    }
    EXPECT_TRUE(engine.has_rows(0, 218));
  }
  EXPECT_EQ(answers[0].tokens, answers[1].tokens);
  expect_close(answers[1].logits[0], expected(prompt_));
  EXPECT_EQ(cache_.count(Counter::kTokensRestoredSlab), 208U);
}

TEST_P(ConnectorDecode, GeneratingIsNotTouched) {
  engine_.ask(0, prompt_, without_hook());
  engine_.ask(1, prompt_, without_hook());
  const uint64_t lookups = cache_.count(Counter::kLookups);
  for (int i = 0; i < 3; ++i) {
    std::vector<Row> rows;
    for (int32_t seq = 0; seq < 2; ++seq)
      add(rows, seq, 210 + i, std::vector<Token>{7}, {210 + i});
    ASSERT_EQ(engine_.decode(rows), 0);
  }
  EXPECT_EQ(cache_.count(Counter::kLookups), lookups);
  EXPECT_EQ(cache_.count(Counter::kTokensComputedGenerated), 6U);
}

// The caches are full after 256 rows. The caller removes what it can and sends the rows again, in smaller batches.
TEST_P(ConnectorDecode, ABatchThatDoesNotFitIsSentAgain) {
  const auto prompt = random_tokens(5, 150);
  for (const bool hook : {true, false}) {
    TestCache cache;
    TestEngineOptions small = options(GetParam().unified ? 256 : 256 * 4);
    TestEngine engine(model_, cache, small);
    TestEngine::Request request;
    request.hook = hook;
    const int32_t full = GetParam().unified ? 1 : 0;  // a stream of its own is filled by the sequence itself
    const auto filler = random_tokens(6, 200);
    engine.ask(full, filler, request);
    const auto text = full == 0 ? join(filler, prompt) : prompt;
    const int32_t have = full == 0 ? 200 : 0;
    if (hook) {
      EXPECT_EQ(engine.restore(0, text, have), have);
    }
    const uint64_t before = cache.computed();
    EXPECT_EQ(engine.compute(0, text, have, true), 1);
    if (full == 0) {
      EXPECT_EQ(engine.compute(0, head(text, 220), have, false), 0) << "a smaller piece of it fits";
      // For a window the first rows of the large piece were computed already, and count as the small one's.
      EXPECT_EQ(cache.computed() - before, GetParam().windowed ? 56U : 20U);
      continue;
    }
    engine.empty(1);
    // The halves of the same rows, whatever of them is there already.
    EXPECT_EQ(engine.compute(0, head(text, 75), 0, false), 0);
    EXPECT_EQ(engine.compute(0, text, 75, true), 0);
    expect_close(engine.logits(), expected(text));
    EXPECT_TRUE(engine.has_rows(0, 150));
    EXPECT_EQ(cache.computed() - before, 150U) << "no row is computed twice";
    TestEngine other(model_, cache, options());
    expect_close(other.ask(2, text), expected(text));
    EXPECT_EQ(other.last_restored(), 144);
  }
}

// The rows are sent again with another token in the middle: what was computed of the old ones goes.
TEST_P(ConnectorDecode, ABatchThatDidNotFitIsReplacedByAnotherOne) {
  if (!GetParam().unified) return;
  TestCache cache;
  TestEngine engine(model_, cache, options(256));
  engine.ask(1, random_tokens(6, 200), without_hook());
  const auto prompt = random_tokens(7, 150);
  EXPECT_EQ(engine.compute(0, prompt, 0, true), 1);
  engine.empty(1);
  auto other = prompt;
  other[20] ^= 1;
  EXPECT_EQ(engine.compute(0, other, 0, true), 0);
  expect_close(engine.logits(), expected(other));
}

INSTANTIATE_TEST_SUITE_P(All, ConnectorDecode,
                         testing::Values(Kind{"dense", false, true}, Kind{"streams", false, false},
                                         Kind{"window", true, true}, Kind{"window_streams", true, false}),
                         [](const testing::TestParamInfo<Kind>& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace rhizome
