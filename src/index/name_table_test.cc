#include "index/name_table.h"

#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"

namespace rhizome {
namespace {

constexpr Location kLocations = 6000;

TEST(NameTable, ANameHasOneLocation) {
  NameTable table(kLocations);
  EXPECT_EQ(table.find(7), std::nullopt);
  EXPECT_EQ(table.put(7, 3), std::nullopt);
  EXPECT_EQ(table.find(7), Location{3});
  EXPECT_EQ(table.name_of(3), 7u);
  EXPECT_EQ(table.put(7, 4), Location{3});
  EXPECT_EQ(table.find(7), Location{4});
  EXPECT_EQ(table.count(), 1u);
  EXPECT_EQ(table.take(7), Location{4});
  EXPECT_EQ(table.take(7), std::nullopt);
  EXPECT_EQ(table.count(), 0u);
}

TEST(NameTable, AnyWordIsAName) {
  NameTable table(kLocations);
  const std::vector<uint64_t> names = {0, 1, UINT64_MAX, uint64_t{1} << 63, 0xffffffff};
  for (Location at = 0; at < names.size(); ++at)
    EXPECT_EQ(table.put(names[at], at), std::nullopt);
  for (Location at = 0; at < names.size(); ++at)
    EXPECT_EQ(table.find(names[at]), at);
}

TEST(NameTable, PrefaultingForgetsNothing) {
  NameTable table(kLocations);
  EXPECT_EQ(table.put(5, 9), std::nullopt);
  const uint64_t small = table.bytes();
  table.prefault(kLocations);
  EXPECT_GT(table.bytes(), small);
  EXPECT_EQ(table.find(5), Location{9});
  table.prefault(10);
  EXPECT_GT(table.bytes(), small);
}

// Against a map, across growth and gaps that are closed.
TEST(NameTable, DoesWhatAMapDoes) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  NameTable table(kLocations);
  std::map<uint64_t, Location> model;
  std::vector<Location> free;
  for (Location at = kLocations; at > 0; --at)
    free.push_back(at - 1);
  for (int step = 0; step < 60'000; ++step) {
    // Few enough that they are met again. First it fills, then it empties.
    const uint64_t name = random() % 8000 << (random() % 2 * 40);
    const bool puts = random() % 3 < (step < 30'000 ? 2u : 1u);
    const auto known = model.find(name);
    if (puts && !free.empty()) {
      const std::optional<Location> before = table.put(name, free.back());
      ASSERT_EQ(before.has_value(), known != model.end());
      if (before) {
        ASSERT_EQ(*before, known->second);
      }
      const Location location = free.back();
      free.pop_back();
      if (before) free.push_back(*before);
      model[name] = location;
    } else if (!puts) {
      const std::optional<Location> taken = table.take(name);
      ASSERT_EQ(taken.has_value(), known != model.end());
      if (!taken) continue;
      ASSERT_EQ(*taken, known->second);
      free.push_back(*taken);
      model.erase(known);
    }
    ASSERT_EQ(table.count(), model.size());
  }
  for (const auto& [name, location] : model) {
    ASSERT_EQ(table.find(name), location);
    ASSERT_EQ(table.name_of(location), name);
  }
}

}  // namespace
}  // namespace rhizome
