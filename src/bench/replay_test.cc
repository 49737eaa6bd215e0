// The figures of the literature and of earlier measurements, to the digit that was printed.
#include "bench/replay_orders.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/text.h"
#include "bench/trace.h"

namespace rhizome::bench {
namespace {

class BundledTrace : public testing::Test {
 protected:
  static const Trace& of(const std::string& name) {
    static const Trace kConversation = load("conversation");
    static const Trace kSynthetic = load("synthetic");
    return name == "conversation" ? kConversation : kSynthetic;
  }

  static Hits play(const std::string& order, const Trace& trace, uint32_t capacity) {
    const Result<Hits> hits = find_replay_order(order)->replay(trace, capacity);
    EXPECT_TRUE(hits) << order;
    return hits.value_or(Hits{});
  }

  static std::string block_percent(const Hits& hits, const Trace& trace) {
    return fixed(100.0 * static_cast<double>(hits.blocks) / static_cast<double>(trace.block_uses), 2);
  }

  static std::string token_percent(const Hits& hits, const Trace& trace) {
    return fixed(100.0 * static_cast<double>(hits.tokens) / static_cast<double>(trace.input_tokens), 2);
  }

 private:
  static Trace load(const std::string& name) {
    std::string wrong;
    Result<Trace> trace = load_trace(bundled_trace(std::string(RHIZOME_BUILD_DIR) + "/bin/rhizome", name), wrong);
    EXPECT_TRUE(trace) << wrong;
    return trace ? std::move(*trace) : Trace{};
  }
};

// Blocks hit at 1k, 3k, 10k, 30k, 50k, 100k blocks and with room for all, by an oracle of its own in Python.
TEST_F(BundledTrace, PlainLruHitsWhatTheOracleHits) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> oracle = {
      {"conversation", {"4.45", "6.50", "21.12", "32.57", "35.46", "36.37", "36.64"}},
      {"synthetic", {"8.25", "18.78", "42.35", "62.42", "63.96", "63.96", "63.96"}}};
  for (const auto& [name, percents] : oracle) {
    const Trace& trace = of(name);
    std::vector<std::string> measured;
    for (const uint32_t capacity : {1000U, 3000U, 10000U, 30000U, 50000U, 100000U, trace.distinct()})
      measured.push_back(block_percent(play("lru", trace, capacity), trace));
    EXPECT_EQ(measured, percents) << name;
  }
}

struct Measured {
  const char* trace;
  uint32_t percent;  // the cache's share of all distinct blocks
  const char* fifo;
  const char* lru_leaf;
  const char* s3fifo;
  const char* sieve;
  const char* arc;
  const char* min;
};

// Tokens hit, by another simulation in Python; where it has two S3-FIFOs, the one that promotes at the second use.
// Its figures of LRU, SIEVE, ARC and MIN were checked against libCacheSim 0.3.5.
TEST_F(BundledTrace, EveryOrderHitsWhatAnotherSimulationHits) {
  constexpr Measured kMeasured[] = {
      {"conversation", 1, "5.35", "5.35", "7.74", "5.93", "6.62", "25.12"},
      {"conversation", 5, "19.96", "19.96", "19.44", "12.92", "21.43", "37.36"},
      {"conversation", 10, "28.42", "28.44", "25.62", "19.88", "28.96", "37.36"},
      {"conversation", 25, "36.03", "36.04", "35.64", "34.30", "34.22", "37.36"},
      {"synthetic", 1, "3.90", "3.88", "4.14", "3.55", "4.11", "18.89"},
      {"synthetic", 5, "15.86", "15.96", "16.01", "13.22", "16.54", "40.30"},
      {"synthetic", 10, "26.73", "26.73", "26.55", "22.88", "26.94", "51.56"},
      {"synthetic", 25, "45.15", "45.22", "45.73", "41.80", "46.70", "63.74"},
  };
  for (const Measured& row : kMeasured) {
    const Trace& trace = of(row.trace);
    const uint32_t capacity = trace.distinct() * row.percent / 100;
    const auto percent = [&](const char* order) { return token_percent(play(order, trace, capacity), trace); };
    const std::string where = std::string(row.trace) + " at " + std::to_string(row.percent) + " %";
    EXPECT_EQ(percent("fifo"), row.fifo) << where;
    EXPECT_EQ(percent("lru_leaf"), row.lru_leaf) << where;
    EXPECT_EQ(percent("s3fifo"), row.s3fifo) << where;
    EXPECT_EQ(percent("sieve"), row.sieve) << where;
    EXPECT_EQ(percent("arc"), row.arc) << where;
    EXPECT_EQ(percent("min"), row.min) << where;
  }
}

TEST_F(BundledTrace, TheIndexIsNoWorseThanLruByMuch) {
  for (const char* name : {"conversation", "synthetic"}) {
    const Trace& trace = of(name);
    const uint32_t capacity = trace.distinct() / 20;
    const auto lru = static_cast<double>(play("lru_leaf", trace, capacity).blocks);
    const auto index = static_cast<double>(play("index", trace, capacity).blocks);
    EXPECT_GT(index, 0.95 * lru) << name;
  }
}

}  // namespace
}  // namespace rhizome::bench
