// Room in the engine's cache: what does not fit is refused before anything is written, shared rows take no room, and
// free cells may lie anywhere.
#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"

namespace rhizome {
namespace {

constexpr float kOrderNoise = 0.1F;  // see connector_restore_test.cc

class ConnectorCells : public testing::Test {
 protected:
  static TestEngineOptions options(uint32_t cells, uint32_t sequences) {
    TestEngineOptions options;
    options.params = one_thread_params(cells, sequences, true);
    return options;
  }

  void store(std::span<const Token> prompt) { TestEngine(model_, cache_, options(1024, 1)).ask(0, prompt); }

  static void expect_close(const Logits& found, const Logits& wanted) {
    EXPECT_LE(greatest_difference(found, wanted), kOrderNoise);
    EXPECT_EQ(best_token(found), best_token(wanted));
  }

  const TestModel model_{dense_model()};
  TestCache cache_;
  const std::vector<Token> prompt_ = random_tokens(1, 400);
};

TEST_F(ConnectorCells, NoRoomIsSaidBeforeAnythingIsWritten) {
  store(prompt_);
  TestEngine engine(model_, cache_, options(512, 3));
  const Logits other = engine.ask(0, random_tokens(2, 300));
  EXPECT_EQ(engine.restore(1, prompt_, 0), Connector::kNoCells);
  EXPECT_EQ(cache_.count(Counter::kImportsRefused), 1U);
  EXPECT_EQ(cache_.count(Counter::kMemoryPinned), 0U) << "while room is made, blocks may be evicted";
  EXPECT_TRUE(engine.has_rows(1, 0));
  EXPECT_TRUE(engine.has_rows(0, 300)) << "nobody else's rows were touched";
  engine.empty(0);
  EXPECT_EQ(engine.restore(1, prompt_, 0), 384) << "the twin: room was made";
  EXPECT_EQ(engine.compute(1, prompt_, 384, true), 0);
  expect_close(engine.logits(), bare_logits(model_, options(1024, 1).params, prompt_));
}

TEST_F(ConnectorCells, WhatFitsIsRestoredWhenAsked) {
  store(prompt_);
  TestEngine engine(model_, cache_, options(512, 3));
  engine.ask(0, random_tokens(2, 300));
  TestEngine::Request what_fits;
  what_fits.flags = Connector::kWhatFits;
  const int32_t have = engine.restore(1, prompt_, 0, what_fits);
  EXPECT_EQ(have, 208) << "13 blocks in 212 cells";
  EXPECT_TRUE(engine.has_rows(1, have));
  EXPECT_EQ(engine.compute(1, head(prompt_, 212), have, true), 0);
  expect_close(engine.logits(), bare_logits(model_, options(1024, 1).params, head(prompt_, 212)));
}

// The caller believes in its rows until it is answered: it asks again with the same number after it made room.
TEST_F(ConnectorCells, AskedAgainAfterNoRoomWithRowsOfItsOwn) {
  store(prompt_);
  TestEngine engine(model_, cache_, options(512, 3));
  engine.ask(0, random_tokens(2, 300));
  engine.ask(1, join(head(prompt_, 40), random_tokens(3, 60)));
  const int32_t have = engine.keep(1, prompt_);
  EXPECT_EQ(have, 40);
  EXPECT_EQ(engine.restore(1, prompt_, have), Connector::kNoCells);
  engine.empty(0);
  EXPECT_EQ(engine.restore(1, prompt_, have), 384);
  EXPECT_EQ(cache_.count(Counter::kSequencesTainted), 0U);
  EXPECT_TRUE(engine.has_rows(1, 384));
  EXPECT_EQ(engine.compute(1, prompt_, 384, true), 0);
  expect_close(engine.logits(), bare_logits(model_, options(1024, 1).params, prompt_));
}

// The same with rows that are of no use any more: they went in the answer that did not say so.
TEST_F(ConnectorCells, AskedAgainAfterNoRoomWithRowsThatWent) {
  const std::vector<AdapterUse> adapters{AdapterUse{model_.identity.digest(), 1}};
  {
    TestEngine other(model_, cache_, options(1024, 1));
    other.connector->set_adapters(adapters, true);
    other.ask(0, prompt_);
  }
  TestEngine engine(model_, cache_, options(512, 3));
  engine.ask(0, random_tokens(2, 300));
  engine.ask(1, join(head(prompt_, 40), random_tokens(3, 60)));
  engine.connector->set_adapters(adapters, true);
  const int32_t have = engine.keep(1, prompt_);
  EXPECT_EQ(have, 40);
  EXPECT_EQ(engine.restore(1, prompt_, have), Connector::kNoCells);
  engine.empty(0);
  EXPECT_EQ(engine.restore(1, prompt_, have), 384);
  EXPECT_EQ(cache_.count(Counter::kSequencesTainted), 0U);
  EXPECT_TRUE(engine.has_rows(1, 384));
}

// Another prompt follows the one that there was no room for, and the rows were dropped for.
TEST_F(ConnectorCells, AnotherPromptAfterNoRoom) {
  store(prompt_);
  TestEngine engine(model_, cache_, options(512, 3));
  engine.ask(0, random_tokens(2, 300));
  engine.ask(1, join(head(prompt_, 40), random_tokens(3, 60)));
  TestEngine::Request salted;
  salted.salt = "s";
  EXPECT_EQ(engine.restore(1, prompt_, engine.keep(1, prompt_)), Connector::kNoCells);
  const auto other = random_tokens(4, 100);
  engine.ask(1, other, salted);
  EXPECT_EQ(engine.last_restored(), 0);
  expect_close(engine.logits(), bare_logits(model_, options(1024, 1).params, other));
}

TEST_F(ConnectorCells, SharedRowsTakeNoRoom) {
  // Eight agents of 400 shared and 30 own tokens: 3,440 rows in 1,024 cells.
  store(prompt_);
  TestEngine engine(model_, cache_, options(1024, 8));
  for (int32_t seq = 0; seq < 8; ++seq) {
    SCOPED_TRACE(seq);
    const auto prompt = join(prompt_, random_tokens(10 + static_cast<uint32_t>(seq), 30));
    const Logits found = engine.ask(seq, prompt);
    EXPECT_EQ(engine.last_restored(), seq == 0 ? 400 : 400);
    expect_close(found, bare_logits(model_, options(1024, 1).params, prompt));
  }
  EXPECT_EQ(cache_.count(Counter::kImportsRefused), 0U);
  // They all go on.
  for (int32_t seq = 0; seq < 8; ++seq)
    engine.step(seq, 9);
  // One whose rows are its own finds the room that is left, and no more.
  EXPECT_EQ(engine.restore(7, prompt_, engine.keep(7, prompt_)), 399);
}

class ConnectorFragments : public testing::TestWithParam<bool> {};

TEST_P(ConnectorFragments, FreeCellsMayLieAnywhere) {
  const TestModel model(dense_model());
  TestCache cache;
  TestEngineOptions options;
  options.params = one_thread_params(512, 5, true);
  options.params.flash_attn_type = GetParam() ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  const auto prompt = random_tokens(1, 210);
  const Logits cold = TestEngine(model, cache, options).ask(0, prompt);

  TestEngine engine(model, cache, options);
  // Four sequences whose rows lie between each other's; then every second one goes.
  std::vector<std::vector<Token>> texts;
  for (uint32_t seq = 0; seq < 4; ++seq)
    texts.push_back(random_tokens(20 + seq, 112));
  for (int32_t begin = 0; begin < 112; begin += 7) {
    for (int32_t seq = 0; seq < 4; ++seq) {
      const auto part = std::span<const Token>(texts[static_cast<size_t>(seq)]).subspan(static_cast<size_t>(begin), 7);
      ASSERT_EQ(engine.decode(rows_at(seq, begin, part, begin == 105)), 0);
    }
  }
  const auto next_of = [&engine](int32_t seq) {
    const Token token = 3;
    EXPECT_EQ(engine.decode(rows_at(seq, 112, std::span(&token, 1), true)), 0);
    return engine.logits();
  };
  const Logits others_before[] = {next_of(1), next_of(3)};
  engine.empty(0);
  engine.empty(2);
  EXPECT_TRUE(engine.connector->remove(1, 112, -1));
  EXPECT_TRUE(engine.connector->remove(3, 112, -1));
  const Logits warm = engine.ask(4, prompt);
  EXPECT_EQ(engine.last_restored(), 208);
  EXPECT_LE(greatest_difference(cold, warm), kOrderNoise);
  EXPECT_EQ(best_token(cold), best_token(warm));
  // And the rows in between are untouched.
  for (const int32_t seq : {1, 3}) {
    EXPECT_LE(greatest_difference(next_of(seq), others_before[seq / 2]), kOrderNoise);
  }
  EXPECT_EQ(cache.count(Counter::kImportsFailed), 0U);
}

INSTANTIATE_TEST_SUITE_P(All, ConnectorFragments, testing::Bool(), [](const testing::TestParamInfo<bool>& each) {
  return std::string(each.param ? "flash_attention" : "no_flash_attention");
});

// A window's own cache is small: a restore must not fill it so that the live sequences' next rows find no cell.
TEST(ConnectorWindowCells, ManyWindowedSequencesInASmallCache) {
  const TestModel model(window_model(96));
  TestCache cache;
  TestEngineOptions options;
  options.params = one_thread_params(2048, 4, true);
  options.params.n_ubatch = 64;
  for (int round = 0; round < 2; ++round) {
    TestEngine engine(model, cache, options);
    for (int32_t seq = 0; seq < 4; ++seq) {
      const auto prompt = random_tokens(30 + static_cast<uint32_t>(seq), 400);
      engine.ask(seq, prompt);
      EXPECT_EQ(engine.last_restored(), round == 0 ? 0 : 384);
    }
    for (int i = 0; i < 100; ++i) {
      std::vector<Row> rows;
      for (int32_t seq = 0; seq < 4; ++seq)
        rows.push_back(Row{5, 400 + i, seq, true, seq});
      ASSERT_EQ(engine.decode(rows), 0);
    }
  }
}

}  // namespace
}  // namespace rhizome
