#include "bench/comparison.h"

#include <cmath>

#include <gtest/gtest.h>

#include "bench/token_source.h"

namespace rhizome::bench {
namespace {

TEST(Comparison, TakesTheMedianOfTheRoundsRatios) {
  Comparison comparison("lookup", "_1t");
  for (const auto& [tree, exact] : {std::pair{100.0, 10.0}, {400.0, 10.0}, {100.0, 5.0}}) {
    comparison.add("lock_tree", tree);
    comparison.add("exact", exact);
  }
  EXPECT_EQ(comparison.median_of("lock_tree"), 100);
  EXPECT_EQ(comparison.ratio("lock_tree", "exact"), 20);  // of 10, 40 and 20, not 100 over 10
  EXPECT_TRUE(std::isnan(comparison.median_of("hash_map")));
  EXPECT_TRUE(std::isnan(comparison.ratio("hash_map", "exact")));
}

TEST(Comparison, NamesItsFigures) {
  Comparison comparison("lookup", figure_suffix(2, 64));
  comparison.add("lock_tree", 100);
  comparison.add("hash_map", 300);
  comparison.add("exact", 20);
  comparison.add("h64", 10);
  Report report(nullptr, false, false);
  comparison.report(report);
  EXPECT_EQ(report.figure_value("lookup_ns_lock_tree_2t_b64"), 100);
  EXPECT_EQ(report.figure_value("ratio_lookup_vs_lock_tree_2t_b64"), 10);
  EXPECT_EQ(report.figure_value("ratio_lookup_vs_hash_map_2t_b64"), 30);
  EXPECT_EQ(report.figure_value("ratio_exact_lookup_vs_lock_tree_2t_b64"), 5);
  EXPECT_FALSE(report.figure_value("ratio_lock_tree_lookup_vs_hash_map_2t_b64"));
  EXPECT_EQ(figure_suffix(1, 16), "_1t");

  Comparison speed("trace", "", "m_per_s");
  speed.add("lock_tree", 2);
  speed.add("h64", 200);
  speed.report(report, true);
  EXPECT_EQ(report.figure_value("ratio_trace_vs_lock_tree"), 100);
}

TEST(TokenSource, GivesTheSameSequenceEveryTimeAndOthersForOtherNumbers) {
  const TokenSource one(7);
  const TokenSource other(7);
  std::vector<Token> a(100);
  std::vector<Token> b(100);
  one.fill(a, 3);
  other.fill(b, 3);
  EXPECT_EQ(a, b);
  other.fill(std::span(b).first(50), 3);
  EXPECT_EQ(a, b);
  for (uint64_t sequence = 4; sequence < 200; ++sequence) {
    one.fill(b, sequence);
    EXPECT_NE(std::vector<Token>(a.begin(), a.begin() + 4), std::vector<Token>(b.begin(), b.begin() + 4)) << sequence;
  }
}

}  // namespace
}  // namespace rhizome::bench
