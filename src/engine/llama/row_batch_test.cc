#include "engine/llama/row_batch.h"

#include <deque>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

// A llama_batch whose arrays live as long as it does; each can be left out.
struct TestBatch {
  struct Entry {
    llama_token token;
    llama_pos position;
    std::vector<llama_seq_id> sequences;
    bool output = false;
  };

  explicit TestBatch(const std::vector<Entry>& entries) {
    for (const Entry& entry : entries) {
      tokens.push_back(entry.token);
      positions.push_back(entry.position);
      counts.push_back(static_cast<int32_t>(entry.sequences.size()));
      ids.push_back(entry.sequences);
      id_pointers.push_back(ids.back().data());
      outputs.push_back(entry.output ? 1 : 0);
    }
    batch.n_tokens = static_cast<int32_t>(entries.size());
    batch.token = tokens.data();
    batch.pos = positions.data();
    batch.n_seq_id = counts.data();
    batch.seq_id = id_pointers.data();
    batch.logits = outputs.data();
  }

  std::vector<llama_token> tokens;
  std::vector<llama_pos> positions;
  std::vector<int32_t> counts;
  std::deque<std::vector<llama_seq_id>> ids;
  std::vector<llama_seq_id*> id_pointers;
  std::vector<int8_t> outputs;
  llama_batch batch{};
};

class RowBatch : public testing::Test {
 protected:
  RowBatch() {
    const std::vector<Token> rows{9, 9, 9};
    sequences_.append(1, rows);
    sequences_.at(1).held = {9, 9};
  }

  bool translate(const llama_batch& batch) { return rows_of(batch, sequences_, rows_); }

  SequenceTable sequences_{3};
  std::vector<Row> rows_;
};

void expect_row(const Row& row, Token token, int32_t position, int32_t sequence, bool output, int32_t index) {
  EXPECT_EQ(row.token, token);
  EXPECT_EQ(row.position, position);
  EXPECT_EQ(row.sequence, sequence);
  EXPECT_EQ(row.output, output);
  EXPECT_EQ(row.index, index);
}

TEST_F(RowBatch, TranslatesAFullBatch) {
  const TestBatch from({{7, 0, {0}, false}, {8, 1, {0}, true}, {3, 5, {1}, true}});
  ASSERT_TRUE(translate(from.batch));
  ASSERT_EQ(rows_.size(), 3U);
  expect_row(rows_[0], 7, 0, 0, false, 0);
  expect_row(rows_[1], 8, 1, 0, true, 1);
  expect_row(rows_[2], 3, 5, 1, true, 2);
}

// llama_batch_get_one: nothing but tokens, which continue sequence 0; the last one has the output.
TEST_F(RowBatch, FillsInWhatLlamaBatchGetOneLeavesOut) {
  std::vector<llama_token> tokens{4, 5, 6};
  ASSERT_TRUE(translate(llama_batch_get_one(tokens.data(), 3)));
  for (int32_t i = 0; i < 3; ++i)
    expect_row(rows_[static_cast<size_t>(i)], static_cast<Token>(4 + i), i, 0, i == 2, i);
  sequences_.append(0, std::vector<Token>{4, 5, 6});
  ASSERT_TRUE(translate(llama_batch_get_one(tokens.data(), 1)));
  expect_row(rows_[0], 4, 3, 0, true, 0);
  sequences_.taint(0);
  EXPECT_FALSE(translate(llama_batch_get_one(tokens.data(), 1))) << "where it goes on is not known";
}

TEST_F(RowBatch, ContinuesEverySequenceWhosePositionsAreLeftOut) {
  TestBatch from({{1, -7, {0}}, {2, -7, {1}}, {3, -7, {0}}, {4, -7, {1}}});
  from.batch.pos = nullptr;
  ASSERT_TRUE(translate(from.batch));
  EXPECT_EQ(rows_[0].position, 0);
  EXPECT_EQ(rows_[1].position, 5) << "behind what is held, too";
  EXPECT_EQ(rows_[2].position, 1);
  EXPECT_EQ(rows_[3].position, 6);
}

TEST_F(RowBatch, ReadsSequencesWithoutTheirCount) {
  TestBatch from({{1, 0, {2}}, {2, 1, {2}}});
  from.batch.n_seq_id = nullptr;
  ASSERT_TRUE(translate(from.batch));
  EXPECT_EQ(rows_[1].sequence, 2);
  EXPECT_EQ(sequences_of(from.batch), std::vector<int32_t>{2});
}

TEST_F(RowBatch, RefusesWhatIsNotTokensOfOneSequenceEach) {
  const TestBatch good({{1, 0, {0}}});
  ASSERT_TRUE(translate(good.batch));
  EXPECT_FALSE(translate(TestBatch({{1, 0, {0, 1}}}).batch));
  EXPECT_FALSE(translate(TestBatch({{1, 0, {0}}, {1, 1, {}}}).batch));
  EXPECT_FALSE(translate(TestBatch({{1, 0, {3}}}).batch)) << "a sequence the program has not got";
  EXPECT_FALSE(translate(TestBatch({{1, 0, {-1}}}).batch));
  EXPECT_FALSE(translate(TestBatch({{-1, 0, {0}}}).batch)) << "no token";
  EXPECT_FALSE(translate(TestBatch({}).batch));
  EXPECT_TRUE(rows_.empty());
  std::vector<float> embeddings(8);
  TestBatch media({{1, 0, {0}}});
  media.batch.embd = embeddings.data();
  EXPECT_FALSE(translate(media.batch));
  media.batch.token = nullptr;
  EXPECT_FALSE(translate(media.batch));
}

TEST_F(RowBatch, NamesTheSequencesOfAnyBatch) {
  EXPECT_EQ(sequences_of(TestBatch({{1, 0, {2, 0}}, {1, 0, {0}}, {1, 0, {1, 2}}}).batch),
            (std::vector<int32_t>{0, 1, 2}));
  TestBatch bare({{1, 0, {2}}});
  bare.batch.seq_id = nullptr;
  EXPECT_EQ(sequences_of(bare.batch), std::vector<int32_t>{0});
}

std::vector<std::vector<size_t>> runs_as_lists(std::span<const Row> rows) {
  std::vector<RowRange> ranges;
  ranges_of(rows, ranges);
  std::vector<std::vector<size_t>> lists;
  for (const RowRange& range : ranges) {
    EXPECT_LT(range.begin, range.end);
    auto& list = lists.emplace_back();
    for (size_t i = range.begin; i < range.end; ++i) {
      EXPECT_EQ(rows[i].sequence, range.sequence);
      list.push_back(i);
    }
  }
  return lists;
}

TEST(Runs, EndAtAnotherSequenceAnotherPositionAndAnOutput) {
  using Lists = std::vector<std::vector<size_t>>;
  const Row a0{1, 0, 0, false, 0};
  const Row a1{1, 1, 0, false, 1};
  const Row a1_output{1, 1, 0, true, 1};
  const Row a2{1, 2, 0, true, 2};
  const Row b0{1, 0, 1, false, 3};
  const Row b1{1, 1, 1, true, 4};
  EXPECT_EQ(runs_as_lists({}), Lists{});
  EXPECT_EQ(runs_as_lists(std::vector<Row>{a0, a1, a2}), (Lists{{0, 1, 2}}));
  EXPECT_EQ(runs_as_lists(std::vector<Row>{a0, a1_output, a2}), (Lists{{0, 1}, {2}}));
  EXPECT_EQ(runs_as_lists(std::vector<Row>{a0, a2}), (Lists{{0}, {1}}));
  EXPECT_EQ(runs_as_lists(std::vector<Row>{a0, a1, b0, b1}), (Lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(runs_as_lists(std::vector<Row>{a0, b0, a1, b1}), (Lists{{0}, {1}, {2}, {3}}));
}

TEST(BatchBuffer, GivesTheBatchThatTheRowsCameFrom) {
  const TestBatch from({{7, 40, {0}, false}, {8, 41, {0}, true}, {3, 5, {1}, true}});
  const SequenceTable sequences(2);
  std::vector<Row> rows;
  ASSERT_TRUE(rows_of(from.batch, sequences, rows));
  BatchBuffer buffer;
  for (const auto& part : {std::span<const Row>(rows), std::span<const Row>(rows).subspan(1)}) {
    const llama_batch batch = buffer.fill(part);
    ASSERT_EQ(batch.n_tokens, static_cast<int32_t>(part.size()));
    EXPECT_EQ(batch.embd, nullptr);
    for (size_t i = 0; i < part.size(); ++i) {
      EXPECT_EQ(batch.token[i], static_cast<llama_token>(part[i].token));
      EXPECT_EQ(batch.pos[i], part[i].position);
      EXPECT_EQ(batch.n_seq_id[i], 1);
      EXPECT_EQ(batch.seq_id[i][0], part[i].sequence);
      EXPECT_EQ(batch.logits[i], part[i].output ? 1 : 0);
    }
  }
}

}  // namespace
}  // namespace rhizome
