// Single flight: what several prompts of one iteration want is computed by one of them, and nobody waits for ever.
// The server asks all slots before it computes anything, and again after the batch those that were told to wait.
#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

constexpr uint32_t kWindow = 48;

struct Kind {
  const char* name;
  bool windowed;
  bool unified;
  bool exact;
  int32_t shared;  // of the 200 shared tokens: what the second one gets
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class ConnectorFlight : public testing::TestWithParam<Kind> {
 protected:
  ConnectorFlight()
      : model_(GetParam().windowed ? window_model(kWindow * 2) : dense_model()), engine_(model_, cache_, options()) {}

  static TestEngineOptions options() {
    TestEngineOptions options;
    options.params = one_thread_params(4096, 4, GetParam().unified);
    options.exact = GetParam().exact;
    return options;
  }

  // The rows that are left of the prompt, for a batch that several sequences share.
  static void add_rest(std::vector<Row>& rows, int32_t seq, std::span<const Token> prompt, int32_t have) {
    for (Row row : rows_at(seq, have, prompt.subspan(static_cast<size_t>(have)), true)) {
      row.index = static_cast<int32_t>(rows.size());
      rows.push_back(row);
    }
  }

  uint64_t computed() const { return cache_.count(Counter::kTokensComputedPrompt); }

  const TestModel model_;
  TestCache cache_;
  TestEngine engine_;
  const std::vector<Token> shared_ = random_tokens(1, 200);
  const std::vector<Token> first_ = join(shared_, random_tokens(2, 40));
  const std::vector<Token> second_ = join(shared_, random_tokens(3, 40));
  const std::vector<Token> third_ = join(shared_, random_tokens(4, 40));
};

TEST_P(ConnectorFlight, TheSecondWaitsAndIsServed) {
  EXPECT_EQ(engine_.restore(0, first_, 0), 0);
  EXPECT_EQ(engine_.restore(1, second_, 0), Connector::kAskAgain);
  EXPECT_EQ(engine_.restore(2, third_, 0), Connector::kAskAgain);
  EXPECT_EQ(cache_.count(Counter::kWaits), 2U);
  EXPECT_EQ(engine_.compute(0, first_, 0, true), 0);
  EXPECT_EQ(engine_.restore(1, second_, 0), GetParam().shared);
  EXPECT_EQ(engine_.restore(2, third_, 0), GetParam().shared);
  std::vector<Row> rows;
  add_rest(rows, 1, second_, GetParam().shared);
  add_rest(rows, 2, third_, GetParam().shared);
  EXPECT_EQ(engine_.decode(rows), 0);
  EXPECT_EQ(computed(), 240 + 2 * (240 - static_cast<uint64_t>(GetParam().shared)));

  // And the answers are their own.
  const Logits second = engine_.logits(240 - GetParam().shared - 1);
  const Logits third = engine_.logits(-1);
  TestCache empty;
  TestEngine alone(model_, empty, options());
  EXPECT_EQ(best_token(second), best_token(alone.ask(0, second_)));
  EXPECT_EQ(best_token(third), best_token(alone.ask(0, third_)));
}

TEST_P(ConnectorFlight, PromptsWithNothingInCommonDoNotWait) {
  EXPECT_EQ(engine_.restore(0, first_, 0), 0);
  EXPECT_EQ(engine_.restore(1, random_tokens(5, 240), 0), 0);
  EXPECT_EQ(cache_.count(Counter::kWaits), 0U);
  TestEngine::Request salted;
  salted.salt = "s";
  EXPECT_EQ(engine_.restore(2, second_, 0, salted), 0) << "what another salt computes is nothing to wait for";
  TestEngine::Request bypass;
  bypass.flags = Connector::kBypass;
  EXPECT_EQ(engine_.restore(3, third_, 0, bypass), 0);
}

TEST_P(ConnectorFlight, TheOwnerIsRemovedAndTheOtherTakesOver) {
  EXPECT_EQ(engine_.restore(0, first_, 0), 0);
  EXPECT_EQ(engine_.restore(1, second_, 0), Connector::kAskAgain);
  engine_.empty(0);  // its client went away before the batch was computed
  // At most one empty round: four of them and the server gives up.
  int rounds = 0;
  int32_t have = Connector::kAskAgain;
  while (have == Connector::kAskAgain && rounds < 4) {
    have = engine_.restore(1, second_, 0);
    ++rounds;
  }
  EXPECT_EQ(have, 0);
  EXPECT_LE(rounds, 2);
  EXPECT_EQ(engine_.compute(1, second_, 0, true), 0);
}

TEST_P(ConnectorFlight, TheOwnerIsRemovedAfterSomeOfItsBatches) {
  EXPECT_EQ(engine_.restore(0, first_, 0), 0);
  EXPECT_EQ(engine_.restore(1, second_, 0), Connector::kAskAgain);
  EXPECT_EQ(engine_.compute(0, head(first_, 128), 0, false), 0);
  engine_.empty(0);
  int rounds = 0;
  int32_t have = Connector::kAskAgain;
  while (have == Connector::kAskAgain && rounds < 4) {
    have = engine_.restore(1, second_, 0);
    ++rounds;
  }
  EXPECT_EQ(have, 128) << "what it had computed was stored when its rows went";
  EXPECT_LE(rounds, 2);
}

// The owner's prompt takes several batches, and the waiting one is asked first in every round, as slots are when the
// owner has a higher number.
TEST_P(ConnectorFlight, AnOwnerThatTakesSeveralBatchesIsWaitedFor) {
  EXPECT_EQ(engine_.restore(3, first_, 0), 0);
  EXPECT_EQ(engine_.restore(0, second_, 0), Connector::kAskAgain);
  int32_t have = 0;
  for (int32_t end = 50; end < 240; end += 50) {
    EXPECT_EQ(engine_.compute(3, head(first_, static_cast<size_t>(end)), have, false), 0);
    const int32_t asked = engine_.restore(0, second_, 0);
    if (end < 200) {
      EXPECT_EQ(asked, Connector::kAskAgain) << end;
    }
    have = engine_.restore(3, first_, end);
    EXPECT_EQ(have, end);
  }
  EXPECT_EQ(engine_.compute(3, first_, have, true), 0);
  EXPECT_EQ(engine_.restore(0, second_, 0), GetParam().shared);
  EXPECT_EQ(engine_.compute(0, second_, GetParam().shared, true), 0);
  EXPECT_EQ(computed(), 480U - static_cast<uint64_t>(GetParam().shared));
}

// A slot that is waiting has rows of an older prompt: they stay until it gets another answer.
TEST_P(ConnectorFlight, WaitingChangesNothing) {
  const auto older = join(head(shared_, 64), random_tokens(6, 90));
  engine_.ask(1, older);
  const uint64_t tainted = cache_.count(Counter::kSequencesTainted);
  EXPECT_EQ(engine_.restore(0, first_, 0), 64);
  const int32_t have = engine_.keep(1, second_);
  EXPECT_EQ(have, 64);
  EXPECT_EQ(engine_.restore(1, second_, have), Connector::kAskAgain);
  EXPECT_EQ(cache_.count(Counter::kSequencesTainted), tainted);
  EXPECT_EQ(engine_.connector->position_max(1), have - 1);
  EXPECT_EQ(engine_.compute(0, first_, 64, true), 0);
  EXPECT_EQ(engine_.restore(1, second_, have), GetParam().shared);
}

// Eight at once on four slots: the shared tokens are computed once.
TEST_P(ConnectorFlight, ManyRequestsComputeWhatTheyShareOnce) {
  uint64_t own = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<Token>> prompts;
    for (uint32_t i = 0; i < 4; ++i)
      prompts.push_back(join(shared_, random_tokens(100 + 4 * round + i, 30)));
    std::vector<bool> done(4);
    int batches = 0;
    for (int32_t seq = 0; seq < 4; ++seq)
      engine_.empty(seq);
    while (std::count(done.begin(), done.end(), false) > 0 && batches < 4) {
      std::vector<Row> rows;
      for (int32_t seq = 0; seq < 4; ++seq) {
        const auto at = static_cast<size_t>(seq);
        if (done[at]) continue;
        const int32_t have = engine_.restore(seq, prompts[at], 0);
        if (have == Connector::kAskAgain) continue;
        own += static_cast<uint64_t>(230 - have);
        add_rest(rows, seq, prompts[at], have);
        done[at] = true;
      }
      ASSERT_FALSE(rows.empty()) << "an empty round";
      EXPECT_EQ(engine_.decode(rows), 0);
      ++batches;
    }
    EXPECT_EQ(batches, round == 0 ? 2 : 1);
  }
  EXPECT_EQ(computed(), own);
  const auto shared = static_cast<uint64_t>(GetParam().shared);
  EXPECT_LE(computed(), 230 + 3 * (230 - shared) + 4 * (230 - 192)) << "in the second round all comes in blocks";
}

INSTANTIATE_TEST_SUITE_P(
    All, ConnectorFlight,
    testing::Values(Kind{"dense", false, true, false, 200}, Kind{"streams", false, false, false, 192},
                    Kind{"window", true, true, false, 192}, Kind{"window_streams", true, false, false, 192},
                    Kind{"exact", false, false, true, 192}, Kind{"exact_window", true, false, true, 192}),
    [](const testing::TestParamInfo<Kind>& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace rhizome
