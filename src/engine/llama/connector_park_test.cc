// Idle sequences leave the engine's cache where the store has their rows, and come back as if they had been there.
#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

constexpr float kOrderNoise = 0.1F;  // see connector_restore_test.cc

class ConnectorPark : public testing::Test {
 protected:
  static TestEngineOptions options() {
    TestEngineOptions options;
    options.params = one_thread_params(1024, 4, true);
    return options;
  }

  static void expect_close(const Logits& found, const Logits& wanted) {
    EXPECT_LE(greatest_difference(found, wanted), kOrderNoise);
    EXPECT_EQ(best_token(found), best_token(wanted));
  }

  Logits bare(std::span<const Token> prompt) const { return bare_logits(model_, options().params, prompt); }

  // Rows [from, end) are in the engine's cache, and no others.
  bool engine_holds(int32_t seq, int32_t from, int32_t end) const {
    llama_memory_t memory = llama_get_memory(engine_.context.get());
    return llama_memory_seq_pos_min(memory, seq) == from && llama_memory_seq_pos_max(memory, seq) == end - 1;
  }

  // Another request begins, in sequence 3.
  void park(int32_t seq, int32_t have) {
    EXPECT_EQ(engine_.connector->set_idle(seq, have), have);
    EXPECT_EQ(engine_.connector->restore(3, random_tokens(77, 9), 0, "", 0), 0);
    engine_.empty(3);
  }

  // Sequence 0 has 200 rows of `prompt_`, none of which is in the engine.
  void park() {
    engine_.ask(0, prompt_);
    park(0, 200);
    ASSERT_TRUE(engine_.has_rows(0, 0));
    ASSERT_EQ(cache_.count(Counter::kSequencesParked), 1U);
  }

  // The store forgets everything: other prompts take its room.
  void evict() {
    TestEngine other(model_, cache_, options());
    for (uint32_t seed = 50; cache_.client->peek(kOnlyKeyspace, prompt_) > 0; ++seed) {
      ASSERT_LT(seed, 500U);
      other.ask(0, random_tokens(seed, 900));
    }
  }

  const TestModel model_{dense_model()};
  TestCache cache_{uint64_t{4} << 20};
  TestEngine engine_{model_, cache_, options()};
  const std::vector<Token> prompt_ = random_tokens(1, 200);
};

TEST_F(ConnectorPark, TheSameConversationGoesOnToTheToken) {
  park();
  EXPECT_EQ(engine_.connector->position_min(0), 0) << "the caller is not told";
  EXPECT_EQ(engine_.connector->position_max(0), 199);
  const uint64_t before = cache_.computed();
  const auto longer = join(prompt_, random_tokens(2, 30));
  const Logits found = engine_.ask(0, longer);
  EXPECT_EQ(engine_.last_restored(), 200);
  EXPECT_EQ(cache_.computed() - before, 30U) << "the rows behind the last whole block, too";
  EXPECT_EQ(cache_.count(Counter::kTokensRestoredSlab), 192U);
  EXPECT_EQ(cache_.count(Counter::kTokensKept), 8U) << "what this process kept";
  expect_close(found, bare(longer));
}

TEST_F(ConnectorPark, ItTakesNoCells) {
  for (uint32_t i = 0; i < 4; ++i) {
    const auto seq = static_cast<int32_t>(i);
    engine_.ask(seq, random_tokens(10 + i, 900));
    EXPECT_EQ(engine_.connector->set_idle(seq, 900), 900);  // before the next one asks
  }
  EXPECT_EQ(cache_.count(Counter::kImportsRefused), 0U) << "3,600 rows in 1,024 cells, one after the other";
  const auto longer = join(random_tokens(10, 900), random_tokens(2, 30));
  const Logits found = engine_.ask(0, longer);
  EXPECT_EQ(engine_.last_restored(), 900);
  expect_close(found, bare(longer));
}

TEST_F(ConnectorPark, AnotherPromptUsesWhatItShares) {
  park();
  const auto other = join(head(prompt_, 100), random_tokens(3, 50));
  const Logits found = engine_.ask(0, other);
  EXPECT_EQ(engine_.last_restored(), 96) << "whole blocks, as the rows are only in the store";
  expect_close(found, bare(other));
}

TEST_F(ConnectorPark, WhatAnotherSequenceHasIsShared) {
  park();
  engine_.ask(1, head(prompt_, 150));
  const uint64_t live = cache_.count(Counter::kTokensRestoredLive);
  const auto longer = join(prompt_, random_tokens(2, 30));
  const Logits found = engine_.ask(0, longer);
  EXPECT_EQ(cache_.count(Counter::kTokensRestoredLive) - live, 150U);
  EXPECT_EQ(engine_.last_restored(), 200);
  expect_close(found, bare(longer));
}

TEST_F(ConnectorPark, WhatTheStoreForgotIsComputedAgain) {
  park();
  evict();
  const auto longer = join(prompt_, random_tokens(2, 30));
  const Logits found = engine_.ask(0, longer);
  EXPECT_EQ(engine_.last_restored(), 0) << "the caller is told";
  expect_close(found, bare(longer));
}

TEST_F(ConnectorPark, DecodeWithoutTheHookBringsTheRowsBack) {
  for (const bool stored : {true, false}) {
    SCOPED_TRACE(stored);
    park();
    if (!stored) evict();
    const uint64_t rebuilt = cache_.count(Counter::kTokensComputedRebuilt);
    const Logits found = engine_.step(0, 9);
    EXPECT_EQ(cache_.count(Counter::kTokensComputedRebuilt) - rebuilt, stored ? 0U : 200U);
    EXPECT_TRUE(engine_holds(0, 0, 201));
    expect_close(found, bare(join(prompt_, std::vector<Token>{9})));
    engine_.empty(0);
    cache_.counters->sub(Counter::kSequencesParked);
  }
}

TEST_F(ConnectorPark, ACopyAndASavedStateHaveAllRows) {
  park();
  engine_.connector->copy(0, 2, -1, -1);
  EXPECT_TRUE(engine_holds(2, 0, 200));
  park(0, 200);
  EXPECT_TRUE(engine_.has_rows(0, 0));
  engine_.connector->before_read(0);
  EXPECT_TRUE(engine_holds(0, 0, 200));
}

TEST_F(ConnectorPark, NoCellsLeavesItParked) {
  park();
  engine_.ask(1, random_tokens(5, 900));
  const auto longer = join(prompt_, random_tokens(2, 30));
  const int32_t have = engine_.keep(0, longer);
  EXPECT_EQ(engine_.restore(0, longer, have), Connector::kNoCells);
  EXPECT_TRUE(engine_.has_rows(0, 0));
  engine_.empty(1);
  EXPECT_EQ(engine_.restore(0, longer, have), 200);
  EXPECT_EQ(engine_.compute(0, longer, 200, true), 0);
  expect_close(engine_.logits(), bare(longer));
}

TEST_F(ConnectorPark, WithoutCellsItIsNotReadButComputedAgain) {
  for (const bool stored : {true, false}) {
    SCOPED_TRACE(stored);
    park();
    if (!stored) evict();
    engine_.ask(1, random_tokens(5, 900));
    EXPECT_FALSE(engine_.connector->before_read(0)) << "a saved state would lack rows";
    EXPECT_EQ(engine_.connector->position_min(0), 0) << "llama-server ends itself when a slot's rows are gone";
    engine_.connector->shift(0, 100, 200, 1);
    EXPECT_EQ(engine_.connector->position_min(0), 0);
    const std::vector<Token> next = {9};
    EXPECT_EQ(engine_.decode(rows_at(0, 200, next, true)), 1) << "not an answer without the rows before it";
    engine_.empty(1);
    const auto longer = join(prompt_, random_tokens(2, 30));
    const Logits found = engine_.ask(0, longer);
    EXPECT_EQ(engine_.last_restored(), stored ? 192 : 0);
    expect_close(found, bare(longer));
    engine_.empty(0);
    cache_.counters->sub(Counter::kSequencesParked);
  }
}

TEST_F(ConnectorPark, IdleOnesMakeRoomForWhatIsRestored) {
  {
    TestEngine other(model_, cache_, options());
    other.ask(0, random_tokens(6, 900));
  }
  engine_.ask(0, prompt_);
  EXPECT_EQ(engine_.connector->set_idle(0, 200), 200);
  engine_.ask(1, random_tokens(6, 920));
  EXPECT_EQ(engine_.last_restored(), 896) << "1,112 rows would not have fitted";
  EXPECT_TRUE(engine_.has_rows(0, 0));
}

// Of the rows behind the last whole block, too, only those are used that the request begins with.
TEST_F(ConnectorPark, APartOfTheLastRowsIsUsed) {
  park();
  const auto other = join(head(prompt_, 196), random_tokens(3, 50));
  const Logits found = engine_.ask(0, other);
  EXPECT_EQ(engine_.last_restored(), 196);
  expect_close(found, bare(other));
}

// A sequence is idle for one question: at the next one it may be in use.
TEST_F(ConnectorPark, WhoHadToWaitLeavesNobodyNamedIdle) {
  engine_.ask(2, random_tokens(2, 200));
  EXPECT_EQ(engine_.restore(0, prompt_, 0), 0);
  EXPECT_EQ(engine_.connector->set_idle(2, 200), 200);
  EXPECT_EQ(engine_.restore(1, prompt_, 0), Connector::kAskAgain);
  EXPECT_EQ(engine_.restore(3, random_tokens(4, 20), 0), 0);
  EXPECT_TRUE(engine_.has_rows(2, 200));
}

TEST_F(ConnectorPark, WhatTheRequestSharesIsTakenFirst) {
  engine_.ask(0, prompt_);
  EXPECT_EQ(engine_.connector->set_idle(0, 200), 200);
  engine_.ask(1, join(head(prompt_, 150), random_tokens(3, 30)));
  EXPECT_EQ(engine_.last_restored(), 150) << "to the token, not to the block";
  EXPECT_EQ(cache_.count(Counter::kTokensRestoredSlab), 0U);
  EXPECT_TRUE(engine_.has_rows(0, 0));
}

TEST_F(ConnectorPark, EmptiedOrClearedItIsGone) {
  park();
  engine_.empty(0);
  EXPECT_TRUE(engine_.has_rows(0, 0));
  EXPECT_EQ(engine_.connector->position_max(0), -1);
  engine_.ask(0, prompt_);
  park(0, 200);
  engine_.connector->clear(true);
  EXPECT_EQ(engine_.connector->position_max(0), -1);
}

TEST_F(ConnectorPark, RowsThatAreNotStoredStay) {
  TestEngine::Request bypassed;
  bypassed.flags = Connector::kBypass;
  engine_.ask(0, prompt_, bypassed);
  park(0, 200);
  EXPECT_TRUE(engine_holds(0, 0, 200));
  engine_.ask(1, prompt_);
  evict();
  park(1, 200);
  EXPECT_TRUE(engine_holds(1, 0, 200)) << "stored once, and evicted since";
}

TEST_F(ConnectorPark, ASmallStoreParksNothing) {
  TestEngineOptions small = options();
  small.store_bytes = 1000;
  TestEngine engine(model_, cache_, small);
  engine.ask(0, prompt_);
  EXPECT_EQ(engine.connector->set_idle(0, 200), 200);
  engine.ask(1, random_tokens(2, 20));
  EXPECT_TRUE(engine.has_rows(0, 200));
}

TEST(ConnectorParkWindow, TheCallerMayEmptyIt) {
  const TestModel model(window_model(96));
  TestCache cache;
  TestEngineOptions options;
  options.params = one_thread_params(1024, 4, true);
  TestEngine engine(model, cache, options);
  engine.ask(0, random_tokens(1, 200));
  EXPECT_EQ(engine.connector->set_idle(0, 200), 0);
  EXPECT_TRUE(engine.has_rows(0, 200)) << "that is left to the caller";
}

}  // namespace
}  // namespace rhizome
