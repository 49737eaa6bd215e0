#include "bench/workload.h"

#include <set>
#include <sstream>

#include <gtest/gtest.h>

namespace rhizome::bench {
namespace {

uint32_t count_words(const std::string& text) {
  std::istringstream in(text);
  uint32_t count = 0;
  for (std::string word; in >> word;)
    ++count;
  return count;
}

TEST(SeededWords, AsManyAsAskedAndTheSameEveryTime) {
  EXPECT_EQ(seeded_words(0, "a"), "");
  for (const uint32_t count : {1u, 16u, 1024u}) {
    EXPECT_EQ(count_words(seeded_words(count, "a")), count);
    EXPECT_EQ(seeded_words(count, "a"), seeded_words(count, "a"));
  }
}

TEST(SeededWords, SeedsDifferFromTheFirstWordsOn) {
  std::set<std::string> beginnings;
  for (int i = 0; i < 100; ++i)
    beginnings.insert(seeded_words(4, "seed-" + std::to_string(i)));
  EXPECT_EQ(beginnings.size(), 100u);
}

TEST(SeededWords, StayTheSameFromReleaseToRelease) {
  EXPECT_EQ(seeded_words(4, "golden"), "person party way community");
}

TEST(AgentHistories, ShareTheSystemTextAndNothingElse) {
  AgentsShape shape;
  shape.agents = 3;
  shape.shared_words = 20;
  shape.own_words = 10;
  shape.follow_words = 5;
  shape.seed = "test";
  AgentHistories histories(shape);
  EXPECT_EQ(histories.of(0)[0].content, histories.of(2)[0].content);
  EXPECT_EQ(count_words(histories.of(0)[0].content), 20u);
  EXPECT_NE(histories.of(0)[1].content, histories.of(2)[1].content);
  EXPECT_EQ(count_words(histories.of(1)[1].content), 10u);

  histories.extend(1, 0, "the reply");
  ASSERT_EQ(histories.of(1).size(), 4u);
  EXPECT_EQ(histories.of(1)[2].role, "assistant");
  EXPECT_EQ(histories.of(1)[2].content, "the reply");
  EXPECT_EQ(histories.of(1)[3].role, "user");
  EXPECT_EQ(count_words(histories.of(1)[3].content), 5u);
  EXPECT_EQ(histories.of(0).size(), 2u);
}

TEST(IdealTokens, CountsEachDistinctPositionOnce) {
  // Two agents, 100 shared tokens, prompts of 130 and 140; then each has 16 more from its answer and 40 new ones.
  const std::vector<std::vector<AnswerTokens>> rounds = {{{130, 16}, {140, 16}}, {{186, 16}, {196, 16}}};
  EXPECT_EQ(ideal_tokens(100, rounds), 100u + 30 + 40 + 40 + 40);
  EXPECT_EQ(ideal_tokens(100, {{{130, 16}}}), 130u);
  EXPECT_EQ(ideal_tokens(100, {}), 100u);
}

TEST(IdealTokens, AnAnswerThatTokenizesShorterCostsNothing) {
  const std::vector<std::vector<AnswerTokens>> rounds = {{{130, 16}}, {{140, 16}}};
  EXPECT_EQ(ideal_tokens(100, rounds), 130u);
}

TEST(Median, TakesTheMiddle) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 2, 9}), 3);
}

}  // namespace
}  // namespace rhizome::bench
