#include "engine/llama/sequence_table.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

std::vector<Token> counting(Token first, size_t count) {
  std::vector<Token> tokens(count);
  for (size_t i = 0; i < count; ++i)
    tokens[i] = first + static_cast<Token>(i);
  return tokens;
}

// Cells that hold at least one row, counted anew.
uint32_t cells_in_use(const SequenceTable& table) {
  std::set<uint32_t> cells;
  for (uint32_t seq = 0; seq < table.count(); ++seq) {
    cells.insert(table.at(seq).cells.begin(), table.at(seq).cells.end());
  }
  return static_cast<uint32_t>(cells.size());
}

TEST(SequenceTable, KnowsWhichSequencesThereAre) {
  const SequenceTable table(3);
  EXPECT_EQ(table.count(), 3U);
  EXPECT_TRUE(table.contains(0));
  EXPECT_TRUE(table.contains(2));
  EXPECT_FALSE(table.contains(3));
  EXPECT_FALSE(table.contains(-1));
}

TEST(SequenceTable, GivesEveryNewRowACellOfItsOwn) {
  SequenceTable table(2);
  table.append(0, counting(10, 5));
  table.append(1, counting(20, 3));
  table.append(0, counting(15, 2));
  EXPECT_EQ(table.at(0).tokens, counting(10, 7));
  EXPECT_EQ(table.at(0).rows(), 7U);
  EXPECT_EQ(table.cells_used(), 10U);
  EXPECT_EQ(cells_in_use(table), 10U);
}

TEST(SequenceTable, CountsSharedRowsOnce) {
  SequenceTable table(3);
  table.append(0, counting(1, 8));
  table.share(0, 1, 6);
  EXPECT_EQ(table.at(1).tokens, counting(1, 6));
  EXPECT_EQ(table.cells_used(), 8U);
  table.append(1, counting(50, 2));
  table.share(1, 2, 8);
  EXPECT_EQ(table.cells_used(), 10U);
  table.reset(0);  // its first six rows live on in the others
  EXPECT_EQ(table.cells_used(), 8U);
  table.reset(1);
  EXPECT_EQ(table.cells_used(), 8U);
  table.truncate(2, 3);
  EXPECT_EQ(table.cells_used(), 3U);
  table.reset(2);
  EXPECT_EQ(table.cells_used(), 0U);
}

TEST(SequenceTable, SharesOnlyWhatTheOtherLacks) {
  SequenceTable table(2);
  table.append(0, counting(1, 8));
  table.append(1, counting(1, 3));
  table.share(0, 1, 5);
  EXPECT_EQ(table.at(1).tokens, counting(1, 5));
  EXPECT_EQ(table.cells_used(), 11U);
  table.share(0, 1, 4);  // nothing to add
  EXPECT_EQ(table.at(1).rows(), 5U);
}

TEST(SequenceTable, TruncatesRowsAndWhatIsKnownOfThem) {
  SequenceTable table(1);
  table.append(0, counting(1, 200));
  table.at(0).held = counting(500, 9);
  table.at(0).exact_rows = 192;
  table.at(0).tail_rows = 200;
  table.at(0).published_rows = 192;
  EXPECT_EQ(table.at(0).accepted(), 209U);
  table.truncate(0, 200);
  EXPECT_EQ(table.at(0).accepted(), 200U);
  table.truncate(0, 150);
  EXPECT_EQ(table.at(0).rows(), 150U);
  EXPECT_EQ(table.at(0).exact_rows, 128U) << "the last rows of a cut unit were computed with rows that are gone";
  EXPECT_EQ(table.at(0).published_rows, 150U);
  EXPECT_EQ(table.at(0).tail_rows, 150U);
  table.truncate(0, 0);
  EXPECT_EQ(table.at(0).exact_rows, 0U);
  EXPECT_EQ(table.cells_used(), 0U);
}

TEST(SequenceTable, LosesRowsButNotTheirTokens) {
  SequenceTable table(3);
  table.append(0, counting(1, 8));
  table.share(0, 1, 8);
  table.lose(0);
  EXPECT_TRUE(table.at(0).lost);
  EXPECT_EQ(table.at(0).tokens, counting(1, 8));
  EXPECT_EQ(table.cells_used(), 8U);  // the other one's
  table.lose(1);
  EXPECT_EQ(table.cells_used(), 0U);
  table.lose(2);
  EXPECT_FALSE(table.at(2).lost) << "an empty sequence has nothing to lose";
  table.taint(2);
  table.lose(2);
  EXPECT_FALSE(table.at(2).lost) << "nobody knows what to compute again";
}

TEST(SequenceTable, TaintsOnceAndRemembersWhoseItIs) {
  SequenceTable table(1);
  table.append(0, counting(1, 8));
  table.at(0).salt = "s";
  table.at(0).bypass = true;
  table.at(0).hooked = true;
  table.at(0).published_rows = 8;
  EXPECT_TRUE(table.taint(0));
  EXPECT_FALSE(table.taint(0));
  EXPECT_TRUE(table.at(0).tainted);
  EXPECT_EQ(table.at(0).rows(), 0U);
  EXPECT_EQ(table.at(0).published_rows, 0U);
  EXPECT_EQ(table.at(0).salt, "s");
  EXPECT_TRUE(table.at(0).bypass);
  EXPECT_TRUE(table.at(0).hooked);
  EXPECT_EQ(table.cells_used(), 0U);
  table.reset(0);
  EXPECT_FALSE(table.at(0).tainted);
  EXPECT_EQ(table.at(0).salt, "");
}

TEST(SequenceTable, EmptiesASequenceAndKeepsItsRequest) {
  SequenceTable table(2);
  table.append(0, counting(1, 70));
  table.share(0, 1, 70);
  table.at(0).held = counting(100, 3);
  table.at(0).exact_rows = 64;
  table.at(0).salt = "s";
  table.at(0).prompt = counting(1, 90);
  table.at(0).bypass = true;
  table.at(0).hooked = true;
  table.at(0).in_prompt = false;
  table.empty(0);
  EXPECT_EQ(table.at(0).accepted(), 0U);
  EXPECT_EQ(table.at(0).exact_rows, 0U);
  EXPECT_EQ(table.at(0).salt, "s");
  EXPECT_EQ(table.at(0).prompt, counting(1, 90));
  EXPECT_TRUE(table.at(0).bypass);
  EXPECT_TRUE(table.at(0).hooked);
  EXPECT_TRUE(table.at(0).in_prompt);
  EXPECT_EQ(table.cells_used(), 70U);
  table.taint(1);
  table.empty(1);
  EXPECT_FALSE(table.at(1).tainted);
}

TEST(SequenceTable, FindsTheCommonBeginning) {
  EXPECT_EQ(common_prefix({}, {}), 0U);
  EXPECT_EQ(common_prefix(counting(1, 4), counting(1, 9)), 4U);
  EXPECT_EQ(common_prefix(counting(1, 9), counting(1, 4)), 4U);
  EXPECT_EQ(common_prefix(counting(1, 9), counting(2, 4)), 0U);
  std::vector<Token> other = counting(1, 9);
  other[5] = 99;
  EXPECT_EQ(common_prefix(counting(1, 9), other), 5U);
}

// Random operations against lists of (token, number of the row) pairs that are simply copied.
TEST(SequenceTable, AgreesWithAPlainModelOfTheCache) {
  const uint32_t seed = 4;
  std::mt19937 random(seed);
  const auto below = [&random](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  constexpr uint32_t kSequences = 5;
  SequenceTable table(kSequences);
  std::vector<std::vector<std::pair<Token, int>>> model(kSequences);
  int next_row = 0;
  for (int step = 0; step < 20000; ++step) {
    const uint32_t seq = below(kSequences);
    const uint32_t other = (seq + 1 + below(kSequences - 1)) % kSequences;
    switch (below(6)) {
      case 0:
      case 1: {
        const auto tokens = counting(below(1000), below(20));
        table.append(seq, tokens);
        for (const Token token : tokens)
          model[seq].emplace_back(token, next_row++);
        break;
      }
      case 2: {
        const uint32_t rows = below(table.at(seq).rows() + 2);
        table.truncate(seq, rows);
        model[seq].resize(std::min<size_t>(rows, model[seq].size()));
        break;
      }
      case 3: {
        const uint32_t end = below(table.at(other).rows() + 1);
        table.share(other, seq, end);
        for (size_t i = model[seq].size(); i < end; ++i)
          model[seq].push_back(model[other][i]);
        break;
      }
      case 4:
        table.reset(seq);
        model[seq].clear();
        break;
      default:
        if (below(20) == 0) {
          for (uint32_t each = 0; each < kSequences; ++each)
            table.empty(each);
          for (auto& rows : model)
            rows.clear();
        }
    }
    std::set<int> rows;
    for (uint32_t s = 0; s < kSequences; ++s) {
      ASSERT_EQ(table.at(s).rows(), model[s].size()) << "seed " << seed << " step " << step;
      ASSERT_EQ(table.at(s).cells.size(), model[s].size());
      for (size_t i = 0; i < model[s].size(); ++i) {
        ASSERT_EQ(table.at(s).tokens[i], model[s][i].first);
        rows.insert(model[s][i].second);
      }
    }
    ASSERT_EQ(table.cells_used(), rows.size()) << "seed " << seed << " step " << step;
    ASSERT_EQ(cells_in_use(table), rows.size());
  }
}

}  // namespace
}  // namespace rhizome
