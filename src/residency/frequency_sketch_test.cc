#include "residency/frequency_sketch.h"

#include <random>
#include <unordered_map>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(FrequencySketch, NeverLessThanTheTruthAndSeldomMore) {
  FrequencySketch sketch(1000);
  std::mt19937_64 random(7);
  std::unordered_map<uint64_t, uint32_t> truth;
  for (int i = 0; i < 3000; ++i) {
    const uint64_t hash = (random() % 1000) * 0x9e3779b97f4a7c15;
    sketch.add(hash);
    ++truth[hash];
  }
  uint32_t wrong = 0;
  for (const auto& [hash, count] : truth) {
    ASSERT_GE(sketch.count(hash), std::min(count, 15u));
    wrong += sketch.count(hash) != count ? 1 : 0;
  }
  EXPECT_LT(wrong, truth.size() / 20);
  EXPECT_EQ(sketch.count(12345), 0u) << "unlucky, or wrong";
}

TEST(FrequencySketch, CountersStopAtFifteenAndAge) {
  FrequencySketch sketch(64);
  for (int i = 0; i < 100; ++i)
    sketch.add(1);
  EXPECT_EQ(sketch.count(1), 15u);
  for (uint64_t other = 2; other < 2 + 64 * 10; ++other)
    sketch.add(other * 0x9e3779b97f4a7c15);
  EXPECT_LE(sketch.count(1), 9u) << "what is not asked for any more is forgotten";
}

TEST(FrequencySketch, MemoryIsAsSaid) {
  EXPECT_LE(FrequencySketch(1 << 20).bytes(), uint64_t{16} << 20);
  EXPECT_GE(FrequencySketch(0).bytes(), 8u);
}

}  // namespace
}  // namespace rhizome
