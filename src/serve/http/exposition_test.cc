#include "serve/http/exposition.h"

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

bool has_line(const std::string& text, const std::string& line) {
  const auto lines = lines_of(text);
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

TEST(Exposition, WritesHelpAndTypeOnceForEachFamily) {
  const Sample samples[] = {
      {{CounterKind::kTotal, "a_total", "op=\"x\"", "First."}, 3},
      {{CounterKind::kGauge, "b_bytes", "", "Second."}, 7},
      {{CounterKind::kTotal, "a_total", "op=\"y\"", "First."}, 4},
  };
  EXPECT_EQ(exposition(samples),
            "# HELP a_total First.\n"
            "# TYPE a_total counter\n"
            "a_total{op=\"x\"} 3\n"
            "a_total{op=\"y\"} 4\n"
            "# HELP b_bytes Second.\n"
            "# TYPE b_bytes gauge\n"
            "b_bytes 7\n");
}

TEST(Exposition, WritesNanosecondsAsSeconds) {
  const Sample samples[] = {{{CounterKind::kNanoseconds, "t_seconds_total", "", "T."}, 1'250'000'000}};
  EXPECT_TRUE(has_line(exposition(samples), "t_seconds_total 1.25"));
}

TEST(Exposition, KeepsLabelValuesAsTheyAre) {
  const Sample samples[] = {
      {{CounterKind::kTotal, "a_total", R"(one="a\"b\\c\nd",two="e,f=\"g\"")", R"(back\slash)"}, 1}};
  const std::string text = exposition(samples);
  EXPECT_TRUE(has_line(text, R"(a_total{one="a\"b\\c\nd",two="e,f=\"g\""} 1)")) << text;
  EXPECT_TRUE(has_line(text, R"(# HELP a_total back\\slash)")) << text;
}

TEST(Exposition, RefusesATableThatIsWrong) {
  const Sample no_quote[] = {{{CounterKind::kTotal, "a_total", "op=x", "First."}, 1}};
  EXPECT_DEATH(exposition(no_quote), "check failed");
  const Sample open[] = {{{CounterKind::kTotal, "a_total", "op=\"x", "First."}, 1}};
  EXPECT_DEATH(exposition(open), "check failed");
}

TEST(Exposition, ExportsEveryCounterUnderItsNameAndLabels) {
  const auto counters = Counters::local();
  for (uint32_t i = 0; i < kCountersCount; ++i)
    counters->set(static_cast<Counter>(i), 0);
  const std::string text = exposition(*counters);
  std::set<std::string> families;
  for (uint32_t i = 0; i < kCountersCount; ++i) {
    const CounterInfo& described = counter_info(static_cast<Counter>(i));
    std::string series(described.name);
    if (!described.labels.empty()) series += "{" + std::string(described.labels) + "}";
    EXPECT_TRUE(has_line(text, series + " 0")) << series;
    families.insert(std::string(described.name));
  }
  size_t types = 0;
  for (const auto& line : lines_of(text))
    types += line.rfind("# TYPE ", 0) == 0 ? 1 : 0;
  EXPECT_EQ(types, families.size() + 4);
}

TEST(Exposition, ComputesPhantomNamesFromRealCounters) {
  const auto counters = Counters::local();
  EXPECT_TRUE(has_line(exposition(*counters), "phantom_blocks_total 0"));
  counters->add(Counter::kLookups, 10);
  counters->add(Counter::kLookupsHit, 7);
  counters->set(Counter::kBlocksStored, 30);
  counters->set(Counter::kMemoryUsed, 3'000);
  counters->set(Counter::kMemoryCapacity, 10'000);
  const std::string text = exposition(*counters);
  EXPECT_TRUE(has_line(text, "phantom_cache_hits_total 7")) << text;
  EXPECT_TRUE(has_line(text, "phantom_cache_misses_total 3")) << text;
  EXPECT_TRUE(has_line(text, "phantom_blocks_used 30")) << text;
  EXPECT_TRUE(has_line(text, "phantom_blocks_total 100")) << text;
}

TEST(Exposition, NeverCountsMoreHitsThanLookups) {
  const auto counters = Counters::local();
  counters->add(Counter::kLookups, 1);
  counters->add(Counter::kLookupsHit, 2);
  const std::string text = exposition(*counters);
  EXPECT_TRUE(has_line(text, "phantom_cache_hits_total 1"));
  EXPECT_TRUE(has_line(text, "phantom_cache_misses_total 0"));
}

}  // namespace
}  // namespace rhizome
