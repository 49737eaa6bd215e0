// The hook: whose rows a request may use, what is counted, and what happens when the caller and the shadow disagree.
#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

constexpr uint32_t kTokens = 100;
constexpr int32_t kStored = 96;

class ConnectorHook : public testing::Test {
 protected:
  static TestEngine::Request salted(const char* salt) {
    TestEngine::Request request;
    request.salt = salt;
    return request;
  }
  static TestEngine::Request bypassing(const char* salt = "") {
    TestEngine::Request request = salted(salt);
    request.flags = Connector::kBypass;
    return request;
  }

  uint64_t exported() const { return cache_.count(Counter::kBlocksExported); }
  uint64_t tainted() const { return cache_.count(Counter::kSequencesTainted); }

  const TestModel model_{dense_model()};
  TestCache cache_;
  TestEngine engine_{model_, cache_};
  const std::vector<Token> prompt_ = random_tokens(1, kTokens);
};

TEST_F(ConnectorHook, SaltsNeverShareLiveRowsStoredBlocksOrTheirOwnOldRows) {
  engine_.ask(0, prompt_, salted("a"));
  EXPECT_EQ(exported(), 6U);
  engine_.ask(1, prompt_, salted("b"));
  EXPECT_EQ(engine_.last_restored(), 0) << "rows of a live sequence, and stored blocks";
  engine_.ask(2, prompt_, salted("a"));
  EXPECT_EQ(engine_.last_restored(), 99) << "the twin";
  engine_.ask(0, prompt_, salted("b"));
  EXPECT_EQ(engine_.last_restored(), 99) << "from sequence 1; its own were salted otherwise";
  engine_.ask(1, prompt_, salted("c"));
  EXPECT_EQ(engine_.last_restored(), 0) << "the sequence's own rows";
  engine_.ask(1, prompt_, salted("c"));
  EXPECT_EQ(engine_.last_restored(), 99) << "the twin";
  engine_.ask(3, prompt_);
  EXPECT_EQ(engine_.last_restored(), 0) << "no salt is not any salt";
}

TEST_F(ConnectorHook, TheFirstAnswerToAnotherSaltRemovesTheRows) {
  engine_.ask(0, prompt_, salted("a"));
  const int32_t have = engine_.keep(0, prompt_);
  EXPECT_EQ(have, 99);
  EXPECT_EQ(engine_.restore(0, prompt_, have, salted("b")), 0) << "less than it had: rows were not the request's own";
  EXPECT_TRUE(engine_.has_rows(0, 0));
}

TEST_F(ConnectorHook, BypassNeitherRestoresNorStores) {
  engine_.ask(0, prompt_, bypassing());
  EXPECT_EQ(exported(), 0U);
  engine_.ask(1, prompt_);
  EXPECT_EQ(engine_.last_restored(), 0) << "nor are its live rows given to others";
  EXPECT_EQ(exported(), 6U) << "the twin stores";
  engine_.ask(2, prompt_, bypassing());
  EXPECT_EQ(engine_.last_restored(), 0);
  engine_.ask(3, prompt_);
  EXPECT_EQ(engine_.last_restored(), 99) << "the twin restores";
  EXPECT_EQ(cache_.count(Counter::kBypassed), 2U);
  // What it generates is not stored either, also when the rows go.
  const uint64_t before = exported();
  engine_.converse(2, prompt_, 40, bypassing());
  engine_.empty(2);
  EXPECT_EQ(exported(), before);
  engine_.converse(3, prompt_, 40);
  EXPECT_GT(exported(), before);
}

TEST_F(ConnectorHook, BypassKeepsWhatTheServerItselfKeeps) {
  engine_.ask(0, prompt_, bypassing());
  const auto longer = join(prompt_, random_tokens(2, 20));
  engine_.ask(0, longer, bypassing());
  EXPECT_EQ(engine_.last_restored(), 100);
  engine_.ask(0, longer);
  EXPECT_EQ(engine_.last_restored(), 0) << "rows of a request that asked not to be cached are not reused by others";
}

TEST_F(ConnectorHook, BypassDoesNotKeepWhatOthersComputed) {
  engine_.ask(0, prompt_);
  engine_.ask(0, prompt_, bypassing());
  EXPECT_EQ(engine_.last_restored(), 0);
  engine_.ask(0, prompt_, bypassing());
  EXPECT_EQ(engine_.last_restored(), 99) << "the twin: its own";
}

// Nobody knows what the rows are, but everybody knows whose they are not.
TEST_F(ConnectorHook, UnknownRowsOfAnotherSaltAreNotKeptEither) {
  for (const char* salt : {"a", "b"}) {
    engine_.ask(0, prompt_, salted("a"));
    engine_.connector->replaced(0);
    const bool own = salt == std::string_view("a");
    const int32_t answer = engine_.connector->restore(0, join(prompt_, prompt_), 100, salt, 0);
    EXPECT_EQ(answer, own ? 96 : 0) << "what is stored under the salt, never what came from outside";
    EXPECT_TRUE(engine_.has_rows(0, answer));
    engine_.empty(0);
  }
}

TEST_F(ConnectorHook, BypassOfAPromptThatIsAllThere) {
  engine_.ask(0, prompt_, bypassing());
  EXPECT_EQ(engine_.restore(0, prompt_, 99, bypassing()), 99);
  EXPECT_EQ(tainted(), 0U);
}

TEST_F(ConnectorHook, CountsWhatItSays) {
  engine_.ask(0, prompt_);
  EXPECT_EQ(cache_.count(Counter::kLookups), 1U);
  EXPECT_EQ(cache_.count(Counter::kLookupsHit), 0U);
  EXPECT_EQ(cache_.count(Counter::kTokensLookedUp), kTokens);
  EXPECT_EQ(cache_.count(Counter::kStoppedNeverStored), 1U);
  EXPECT_EQ(cache_.count(Counter::kTokensComputedPrompt), kTokens);
  EXPECT_EQ(cache_.count(Counter::kTokensComputedProbe), kProbeTokens);

  const auto longer = join(prompt_, random_tokens(2, 30));
  engine_.ask(0, longer);  // kept: what the slot has
  EXPECT_EQ(cache_.count(Counter::kTokensKept), kTokens);
  engine_.ask(1, longer);  // live: shared with slot 0
  EXPECT_EQ(cache_.count(Counter::kTokensRestoredLive), 129U);
  EXPECT_EQ(cache_.count(Counter::kStoppedLastToken), 1U);
  TestEngine other(model_, cache_);
  other.ask(0, longer);  // slab: 8 blocks of 130 tokens
  EXPECT_EQ(cache_.count(Counter::kTokensRestoredSlab), 128U);
  EXPECT_EQ(cache_.count(Counter::kLookups), 4U);
  EXPECT_EQ(cache_.count(Counter::kLookupsHit), 3U);
  EXPECT_EQ(cache_.count(Counter::kTokensComputedPrompt), kTokens + 30 + 1 + 2);
  other.step(0, 5);
  EXPECT_EQ(cache_.count(Counter::kTokensComputedGenerated), 1U);
}

TEST_F(ConnectorHook, AsksOfALongPromptAreCountedOnce) {
  TestEngine::Request request;
  request.chunk = 20;
  engine_.ask(0, prompt_, request);
  EXPECT_EQ(cache_.count(Counter::kLookups), 1U);
  EXPECT_EQ(cache_.count(Counter::kTokensComputedPrompt), kTokens);
}

TEST_F(ConnectorHook, MoreTokensThanTheSequenceHasTaints) {
  engine_.ask(0, prompt_);
  EXPECT_EQ(engine_.restore(0, join(prompt_, random_tokens(2, 30)), 101), 101) << "left alone";
  EXPECT_EQ(tainted(), 1U);
  // From here on it is the caller's: computed as it says, stored never.
  const uint64_t before = exported();
  EXPECT_EQ(engine_.compute(0, join(prompt_, random_tokens(2, 60)), 100, true), 0);
  EXPECT_EQ(exported(), before);
  engine_.empty(0);
  engine_.ask(0, random_tokens(9, kTokens));
  EXPECT_EQ(exported(), before + 6) << "until it is emptied";
}

TEST_F(ConnectorHook, OtherTokensThanTheSequenceHasTaint) {
  engine_.ask(0, prompt_);
  auto other = prompt_;
  other[50] ^= 1;
  const auto longer = join(other, random_tokens(2, 30));
  EXPECT_EQ(engine_.restore(0, longer, 50), 50) << "the twin: the caller knows where they part";
  EXPECT_EQ(tainted(), 0U);
  engine_.empty(0);
  engine_.ask(0, prompt_);
  EXPECT_EQ(engine_.restore(0, longer, 60), 60);
  EXPECT_EQ(tainted(), 1U);
}

TEST_F(ConnectorHook, ATaintedSequenceIsAnewWhenTheServerKeepsNothingOfIt) {
  engine_.ask(0, prompt_);
  engine_.connector->replaced(0);
  EXPECT_EQ(tainted(), 1U);
  EXPECT_EQ(engine_.restore(0, prompt_, 40), 40) << "the caller says it knows what was put there";
  EXPECT_EQ(engine_.restore(0, prompt_, 0), kStored) << "what was there is removed, and stored blocks come instead";
  EXPECT_TRUE(engine_.has_rows(0, kStored));
}

TEST_F(ConnectorHook, SequencesItDoesNotKnowAreLeftAlone) {
  EXPECT_EQ(engine_.connector->restore(-1, prompt_, 7, "", 0), 7);
  EXPECT_EQ(engine_.connector->restore(4, prompt_, 7, "", 0), 7) << "that is the connector's own";
  EXPECT_EQ(engine_.connector->restore(0, prompt_, -5, "", 0), -5);
  EXPECT_EQ(engine_.connector->restore(0, {}, 0, "", 0), 0);
  EXPECT_EQ(engine_.connector->restore(0, prompt_, 100, "", 0), 100) << "nothing is left to restore";
}

TEST_F(ConnectorHook, RestoresWhatTheServerDroppedButIsStillThere) {
  // The server believes in 40 tokens; the rows behind them are the prompt's, too.
  engine_.ask(0, prompt_);
  EXPECT_EQ(engine_.restore(0, prompt_, 40), 99);
  EXPECT_TRUE(engine_.has_rows(0, 99));
  EXPECT_EQ(cache_.count(Counter::kTokensRestoredSlab), 0U) << "nothing was moved";
}

TEST_F(ConnectorHook, WithRestoreOffEverythingIsComputedAndStored) {
  TestEngineOptions off;
  off.restore = false;
  TestEngine cold(model_, cache_, off);
  for (int i = 0; i < 2; ++i) {
    cold.ask(0, prompt_);
    EXPECT_EQ(cold.last_restored(), 0);
    cold.ask(1, prompt_);
    EXPECT_EQ(cold.last_restored(), 0);
  }
  EXPECT_EQ(cache_.count(Counter::kTokensComputedPrompt), 4 * kTokens);
  EXPECT_EQ(cache_.count(Counter::kStoppedOff), 4U);
  EXPECT_EQ(exported(), 6U) << "still stores, once";
  engine_.ask(0, prompt_);
  EXPECT_EQ(engine_.last_restored(), kStored);
}

TEST_F(ConnectorHook, AdaptersThatAreChosenLaterLeaveTheRestoringToDecode) {
  engine_.ask(0, prompt_);
  engine_.empty(0);
  TestEngine::Request pending;
  pending.flags = Connector::kAdaptersPending;
  engine_.ask(0, prompt_, pending);
  EXPECT_EQ(engine_.last_restored(), 0);
  EXPECT_EQ(cache_.count(Counter::kTokensRestoredSlab), static_cast<uint64_t>(kStored));
  EXPECT_EQ(cache_.count(Counter::kTokensComputedPrompt), kTokens + 4);
}

// What the positions say must agree with what the hook said, also while nothing was computed yet.
TEST_F(ConnectorHook, PositionsAgreeWithTheAnswer) {
  EXPECT_EQ(engine_.connector->position_max(0), -1);
  EXPECT_EQ(engine_.connector->position_min(0), -1);
  engine_.ask(0, prompt_);
  EXPECT_EQ(engine_.connector->position_max(0), 99);
  EXPECT_EQ(engine_.connector->position_min(0), 0);
  TestEngine other(model_, cache_);
  other.restore(2, prompt_, 0);
  EXPECT_EQ(other.connector->position_max(2), kStored - 1);
  EXPECT_EQ(other.connector->position_min(2), 0);
}

}  // namespace
}  // namespace rhizome
