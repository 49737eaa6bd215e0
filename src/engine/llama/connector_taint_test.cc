// What the connector cannot follow it leaves alone: nothing of it is stored or shared until the sequence is emptied.
#include <functional>

#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

constexpr uint32_t kTokens = 100;

class ConnectorTaint : public testing::Test {
 protected:
  uint64_t exported() const { return cache_.count(Counter::kBlocksExported); }
  uint64_t tainted() const { return cache_.count(Counter::kSequencesTainted); }

  void go_on(int32_t seq, int32_t position, uint32_t count, uint32_t seed) {
    EXPECT_EQ(engine_.decode(rows_at(seq, position, random_tokens(seed, count), true)), 0);
  }

  // After `change` sequence 0 holds rows up to `position` that nobody knows.
  void expect_taints(const std::function<void()>& change, int32_t position) {
    engine_.ask(0, prompt_);
    change();
    EXPECT_EQ(tainted(), 1U);
    const uint64_t before = exported();
    go_on(0, position, 50, 2);
    for (int i = 0; i < 20; ++i)
      go_on(0, position + 50 + i, 1, 3);
    engine_.ask(1, join(prompt_, random_tokens(4, 10)));
    EXPECT_EQ(engine_.last_restored(), 96) << "from the store; its live rows are not shared";
    EXPECT_EQ(cache_.count(Counter::kTokensRestoredLive), 0U);
    engine_.empty(1);
    engine_.empty(0);
    EXPECT_EQ(exported(), before) << "nothing new was stored";
    engine_.ask(0, random_tokens(5, kTokens));
    EXPECT_EQ(exported(), before + 6) << "the twin: emptied, it is known again";
    EXPECT_EQ(tainted(), 1U);
  }

  const TestModel model_{dense_model()};
  TestCache cache_;
  TestEngine engine_{model_, cache_};
  const std::vector<Token> prompt_ = random_tokens(1, kTokens);
};

TEST_F(ConnectorTaint, NothingHappenedIsTheTwin) {
  engine_.ask(0, prompt_);
  const uint64_t before = exported();
  go_on(0, 100, 50, 2);
  EXPECT_EQ(exported(), before + 3);
  EXPECT_EQ(tainted(), 0U);
}

TEST_F(ConnectorTaint, ShiftedRows) {
  expect_taints(
      [this] {
        EXPECT_TRUE(engine_.connector->remove(0, 20, 40));
        engine_.connector->shift(0, 40, -1, -20);
      },
      80);
}

TEST_F(ConnectorTaint, DividedPositions) {
  expect_taints([this] { engine_.connector->divide(0, 0, 100, 2); }, 50);
}

TEST_F(ConnectorTaint, RowsRemovedInTheMiddle) {
  expect_taints([this] { EXPECT_TRUE(engine_.connector->remove(0, 20, 40)); }, 100);
}

TEST_F(ConnectorTaint, RowsThatSomebodyElseRestored) {
  expect_taints(
      [this] {
        engine_.connector->replaced(0);
        std::vector<uint8_t> state(llama_state_seq_get_size(engine_.context.get(), 0));
        ASSERT_EQ(llama_state_seq_get_data(engine_.context.get(), state.data(), state.size(), 0), state.size());
        ASSERT_EQ(llama_state_seq_set_data(engine_.context.get(), state.data(), state.size(), 0), state.size());
      },
      100);
}

// Whose rows they are is not known: where nobody uses salts they are the caller's affair, as without Rhizome.
TEST_F(ConnectorTaint, RowsFromOutsideAreNotReusedWhereThereAreSalts) {
  for (const bool salts : {false, true}) {
    SCOPED_TRACE(salts);
    engine_.ask(0, prompt_);
    engine_.connector->replaced(0);
    TestEngine::Request salted;
    salted.salt = salts ? "s" : "";
    engine_.ask(1, random_tokens(8, 20), salted);
    const auto longer = join(prompt_, random_tokens(9, 10));
    const auto have = static_cast<int32_t>(prompt_.size());
    EXPECT_EQ(engine_.connector->restore(0, longer, have, "", Connector::kWhatFits) == have, !salts);
    engine_.empty(0);
    engine_.empty(1);
  }
}

TEST_F(ConnectorTaint, APartOfAnotherSequenceIsCopiedIn) {
  expect_taints(
      [this] {
        engine_.ask(2, random_tokens(9, 120));
        engine_.empty(0);
        engine_.connector->copy(2, 0, 20, 60);
      },
      60);
}

TEST_F(ConnectorTaint, RowsOfAnotherPositionThanTheNext) {
  engine_.ask(0, prompt_);
  const uint64_t before = exported();
  // The program went on from somewhere else, as after a removal that it did by other means.
  EXPECT_EQ(llama_memory_seq_rm(llama_get_memory(engine_.context.get()), 0, 60, -1), true);
  go_on(0, 60, 60, 2);
  EXPECT_EQ(tainted(), 1U);
  EXPECT_EQ(exported(), before);
}

// Embeddings in place of tokens, and rows that several sequences share.
TEST_F(ConnectorTaint, BatchesThatAreNotTokensOfOneSequenceEach) {
  for (const bool embeddings : {true, false}) {
    SCOPED_TRACE(embeddings);
    engine_.ask(0, prompt_);
    engine_.ask(2, prompt_);
    const uint64_t before = tainted();
    std::vector<float> values(model_.shape.width, 0.5F);
    llama_token token = 7;
    llama_pos position = 100;
    std::vector<llama_seq_id> ids{0, 2};
    llama_seq_id* id = ids.data();
    int32_t count = embeddings ? 1 : 2;
    int8_t output = 1;
    llama_batch batch{};
    batch.n_tokens = 1;
    (embeddings ? batch.embd = values.data() : nullptr);
    (embeddings ? nullptr : batch.token = &token);
    batch.pos = &position;
    batch.n_seq_id = &count;
    batch.seq_id = &id;
    batch.logits = &output;
    ASSERT_EQ(engine_.connector->decode(batch), 0);
    EXPECT_EQ(tainted(), before + (embeddings ? 1 : 2));
    const uint64_t stored = exported();
    go_on(0, 101, 50, 2);
    EXPECT_EQ(exported(), stored);
    engine_.empty(0);
    engine_.empty(2);
    EXPECT_EQ(exported(), stored);
  }
}

TEST_F(ConnectorTaint, AContextThatGivesEmbeddingsIsLeftAlone) {
  engine_.connector->set_embeddings(true);
  engine_.ask(0, prompt_, TestEngine::Request{"", 0, 2048, false});
  EXPECT_EQ(exported(), 0U);
  EXPECT_EQ(tainted(), 1U);
  engine_.connector->set_embeddings(false);
  engine_.empty(0);
  engine_.ask(0, prompt_);
  EXPECT_EQ(exported(), 6U);
}

// A whole copy is followed: llama-server makes the children of one prompt so.
TEST_F(ConnectorTaint, AWholeCopyIsKnownLikeItsSource) {
  engine_.ask(0, prompt_);
  EXPECT_TRUE(engine_.connector->remove(1, -1, -1));
  engine_.connector->copy(0, 1, -1, -1);
  EXPECT_EQ(tainted(), 0U);
  EXPECT_EQ(engine_.connector->position_max(1), 99);
  const uint64_t before = exported();
  go_on(1, 100, 60, 2);
  EXPECT_EQ(exported(), before + 4) << "100 + 60 tokens are ten blocks, six were stored";
  engine_.ask(2, join(join(prompt_, random_tokens(2, 60)), random_tokens(3, 5)));
  EXPECT_EQ(engine_.last_restored(), 160);
  // The source is what it was.
  go_on(0, 100, 60, 4);
  EXPECT_EQ(exported(), before + 8);
}

TEST_F(ConnectorTaint, ACopyIsOfTheSameRequest) {
  TestEngine::Request salted;
  salted.salt = "s";
  engine_.ask(0, prompt_, salted);
  engine_.connector->copy(0, 1, -1, -1);
  const uint64_t before = exported();
  go_on(1, 100, 60, 2);
  EXPECT_EQ(exported(), before + 4) << "stored under the request's salt";
  const auto longer = join(join(prompt_, random_tokens(2, 60)), random_tokens(3, 5));
  engine_.ask(2, longer);
  EXPECT_EQ(engine_.last_restored(), 0);
  engine_.ask(3, longer, salted);
  EXPECT_EQ(engine_.last_restored(), 160);
}

TEST_F(ConnectorTaint, ACopyOfAHeadIsKnown) {
  engine_.ask(0, prompt_);
  engine_.connector->copy(0, 1, 0, 50);
  EXPECT_EQ(tainted(), 0U);
  EXPECT_EQ(engine_.connector->position_max(1), 49);
  engine_.ask(1, join(head(prompt_, 50), random_tokens(3, 50)));
  EXPECT_EQ(tainted(), 0U);
}

TEST_F(ConnectorTaint, ACopyOverRowsOrOfUnknownOnesTaints) {
  engine_.ask(0, prompt_);
  engine_.ask(1, random_tokens(2, 30));
  engine_.connector->copy(0, 1, 30, -1);
  EXPECT_EQ(tainted(), 1U);
  engine_.connector->copy(1, 2, -1, -1);
  EXPECT_EQ(tainted(), 2U);
  const uint64_t before = exported();
  go_on(2, 100, 40, 3);
  EXPECT_EQ(exported(), before);
}

TEST_F(ConnectorTaint, KeepEmptiesAllOthers) {
  engine_.ask(0, prompt_);
  engine_.ask(1, random_tokens(2, kTokens));
  engine_.connector->replaced(2);
  engine_.connector->keep(1);
  EXPECT_EQ(engine_.connector->position_max(0), -1);
  EXPECT_EQ(engine_.connector->position_max(1), 99);
  const uint64_t before = tainted();
  EXPECT_EQ(engine_.restore(0, prompt_, 0), 96);
  EXPECT_EQ(engine_.restore(2, prompt_, 0), 96);
  EXPECT_EQ(tainted(), before);
}

TEST_F(ConnectorTaint, ClearStoresWhatWasNotStoredAndEmptiesAll) {
  // Rows that are not known to the keyspace in time are stored when they go.
  engine_.ask(0, prompt_);
  engine_.connector->replaced(1);
  engine_.connector->clear(true);
  EXPECT_EQ(engine_.connector->position_max(0), -1);
  EXPECT_EQ(engine_.restore(1, prompt_, 0), 96);
}

// A server may clear its cache after it told whose prompt comes next: the prompt is still that request's.
TEST_F(ConnectorTaint, ClearAndKeepDoNotForgetWhoseRequestItIs) {
  const auto other_prompt = random_tokens(2, kTokens);
  TestEngine::Request salted;
  salted.salt = "s";
  TestEngine::Request bypass;
  bypass.flags = Connector::kBypass;
  for (const bool clear : {true, false}) {
    TestCache cache;
    TestEngine engine(model_, cache);
    EXPECT_EQ(engine.restore(0, prompt_, 0, salted), 0);
    EXPECT_EQ(engine.restore(1, other_prompt, 0, bypass), 0);
    clear ? engine.connector->clear(true) : engine.connector->keep(3);
    EXPECT_EQ(engine.compute(0, prompt_, 0, true), 0);
    EXPECT_EQ(engine.compute(1, other_prompt, 0, true), 0);
    EXPECT_EQ(cache.count(Counter::kBlocksExported), 6U) << "the salted one's alone";
    TestEngine later(model_, cache);
    later.ask(0, prompt_);
    EXPECT_EQ(later.last_restored(), 0);
    later.ask(1, prompt_, salted);
    EXPECT_EQ(later.last_restored(), 96) << "the twin";
  }
}

TEST_F(ConnectorTaint, EverySequenceAtOnce) {
  engine_.ask(0, prompt_);
  engine_.ask(1, prompt_);
  EXPECT_TRUE(engine_.connector->remove(-1, 10, 20));
  EXPECT_EQ(tainted(), 4U);
  EXPECT_TRUE(engine_.connector->remove(-1, -1, -1));
  EXPECT_EQ(engine_.restore(0, prompt_, 0), 96);
  engine_.connector->replaced(-1);
  EXPECT_EQ(tainted(), 8U);
}

}  // namespace
}  // namespace rhizome
