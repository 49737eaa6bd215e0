#include "bench/figures.h"

#include <gtest/gtest.h>

namespace rhizome::bench {
namespace {

TEST(Figures, HaveTheirBounds) {
  struct Case {
    const char* figure;
    double good;
    double bad;
  };
  for (const Case& one : {Case{"computed_over_ideal_turns", 1.07, 1.0701}, Case{"small_context_answered", 24, 23},
                          Case{"exact_answers_different", 0, 1}, Case{"restore_gb_per_s", 2, 1.99},
                          Case{"rss_over_budget_ratio", 0.8, 0.79}, Case{"rss_over_budget_ratio", 1.1, 1.11}}) {
    const Bound* bound = find_bound(one.figure);
    ASSERT_NE(bound, nullptr) << one.figure;
    EXPECT_TRUE(holds(*bound, one.good)) << one.figure;
    EXPECT_FALSE(holds(*bound, one.bad)) << one.figure;
  }
}

TEST(Figures, WhatIsOnlyReportedHasNone) {
  EXPECT_EQ(find_bound("stock_computed_over_ideal_turns"), nullptr);
}

}  // namespace
}  // namespace rhizome::bench
