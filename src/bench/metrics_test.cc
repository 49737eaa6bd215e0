#include "bench/metrics.h"

#include <gtest/gtest.h>

namespace rhizome::bench {
namespace {

constexpr const char* kPage =
    "# HELP rhizome_tokens_computed_total Token rows.\n"
    "# TYPE rhizome_tokens_computed_total counter\n"
    "rhizome_tokens_computed_total{kind=\"prompt\"} 3377\n"
    "rhizome_tokens_computed_total{kind=\"generated\"} 360\n"
    "rhizome_bytes_total{direction=\"read\",tier=\"slab\"} 1.25e+09\n"
    "rhizome_lookups_total 24\n"
    "rhizome_restore_seconds_total 0.5";

TEST(Metrics, FindsCountersWhateverTheOrderOfTheirLabels) {
  const Metrics metrics = Metrics::parse(kPage);
  EXPECT_EQ(metrics.value(Counter::kTokensComputedPrompt), 3377);
  EXPECT_EQ(metrics.value(Counter::kTokensComputedGenerated), 360);
  EXPECT_EQ(metrics.value(Counter::kBytesRestored), 1.25e9);
  EXPECT_EQ(metrics.value(Counter::kLookups), 24);
  EXPECT_EQ(metrics.value(Counter::kRestoreTime), 0.5);
}

TEST(Metrics, KnowsWhatIsNotThere) {
  const Metrics metrics = Metrics::parse(kPage);
  EXPECT_FALSE(metrics.has(Counter::kBytesExported));
  EXPECT_EQ(metrics.value(Counter::kBytesExported), 0);
  EXPECT_TRUE(metrics.has(Counter::kBytesRestored));
  EXPECT_FALSE(Metrics::parse("").has(Counter::kLookups));
  EXPECT_FALSE(Metrics::parse("no samples here\n#\n\n{}").has(Counter::kLookups));
}

TEST(Metrics, DeltaIsWhatGrew) {
  const MetricsDelta delta{Metrics::parse("rhizome_lookups_total 4\n"), Metrics::parse("rhizome_lookups_total 24\n")};
  EXPECT_EQ(delta.of(Counter::kLookups), 20);
}

}  // namespace
}  // namespace rhizome::bench
