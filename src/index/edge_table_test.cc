#include "index/edge_table.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

// Runs that are nothing but their edges.
class EdgeTableTest : public testing::Test {
 protected:
  RunId add(uint64_t edge) {
    const RunId id = arena_.allocate(0, 1);
    arena_.at(id).edge.store(edge, std::memory_order_relaxed);
    const EdgeTable::Lock lock(table_, edge);
    EXPECT_TRUE(table_.insert(edge, id));
    return id;
  }

  std::vector<RunId> found(uint64_t edge) const {
    std::vector<RunId> ids;
    table_.find(edge, [&](RunId id) {
      ids.push_back(id);
      return false;
    });
    return ids;
  }
  bool has(uint64_t edge, RunId id) const {
    return table_.find(edge, [&](RunId seen) { return seen == id; });
  }

  static uint64_t random_edge(std::mt19937_64& random) { return random() | uint64_t{1} << 32; }

  Arena arena_{64 << 20};
  EdgeTable table_{arena_};
};

TEST_F(EdgeTableTest, FindsWhatWasPutThereThroughEveryGrowth) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<std::pair<uint64_t, RunId>> all;
  const uint64_t bytes = table_.bytes_used();
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t edge = random_edge(random);
    all.emplace_back(edge, add(edge));
  }
  EXPECT_GT(table_.bytes_used(), 3 * bytes);
  EXPECT_LT(table_.bytes_used(), all.size() * 64 / 7 * 2 + bytes);
  for (const auto& [edge, id] : all)
    ASSERT_TRUE(has(edge, id));
  std::shuffle(all.begin(), all.end(), random);
  while (!all.empty()) {
    const auto [edge, id] = all.back();
    all.pop_back();
    {
      const EdgeTable::Lock lock(table_, edge);
      table_.remove(edge, id);
    }
    ASSERT_FALSE(has(edge, id));
    if (all.size() % 10'000 != 0) continue;
    for (const auto& [other, kept] : all)
      ASSERT_TRUE(has(other, kept));
  }
}

// Many entries of one bucket go to the next ones, and are found there as long as they are in the table.
TEST_F(EdgeTableTest, EntriesOfOneBucketOverflow) {
  constexpr uint64_t kSame = uint64_t{5} << 32;
  std::vector<RunId> ids;
  for (int i = 0; i < 40; ++i)
    ids.push_back(add(kSame));
  EXPECT_EQ(found(kSame), ids);
  {
    const EdgeTable::Lock lock(table_, kSame);
    table_.replace(kSame, ids[30], 77777);
    for (int i = 0; i < 20; ++i)
      table_.remove(kSame, ids[static_cast<size_t>(i)]);
  }
  ids[30] = 77777;
  ids.erase(ids.begin(), ids.begin() + 20);
  EXPECT_EQ(found(kSame), ids);
  EXPECT_TRUE(found(uint64_t{6} << 32).empty());
}

TEST_F(EdgeTableTest, FullIsAValue) {
  // All in one bucket's reach: no larger array helps.
  constexpr uint64_t kSame = uint64_t{5} << 32;
  size_t count = 0;
  for (;; ++count) {
    ASSERT_LT(count, 10'000u);
    const RunId id = arena_.allocate(0, 1);
    arena_.at(id).edge.store(kSame, std::memory_order_relaxed);
    const EdgeTable::Lock lock(table_, kSame);
    if (!table_.insert(kSame, id)) break;
  }
  EXPECT_GE(count, 7u * 32);
  EXPECT_EQ(found(kSame).size(), count);
  std::mt19937_64 random(1);
  const uint64_t other = random_edge(random);
  EXPECT_TRUE(has(other, add(other)));
}

// A reader never misses what is there while the table grows under it.
TEST_F(EdgeTableTest, ReadersMissNothingDuringAGrowth) {
  std::mt19937_64 random(3);
  std::vector<std::pair<uint64_t, RunId>> stable;
  for (int i = 0; i < 50; ++i) {
    const uint64_t edge = random_edge(random);
    stable.emplace_back(edge, add(edge));
  }
  std::atomic<bool> done{false};
  std::atomic<uint64_t> missed{0};
  {
    std::vector<Thread> readers;
    for (int i = 0; i < 2; ++i) {
      readers.push_back(std::move(*start_thread("reader", [&] {
        while (!done.load(std::memory_order_relaxed)) {
          for (const auto& [edge, id] : stable)
            missed += !has(edge, id);
        }
      })));
    }
    for (int i = 0; i < 60'000; ++i)
      add(random_edge(random));
    done = true;
  }
  EXPECT_EQ(missed, 0u);
}

TEST(ArenaTest, WhatIsFreedIsUsedAgainForItsClass) {
  Arena arena(1 << 20);
  std::vector<RunId> ids;
  while (const RunId id = arena.allocate(0, 20))
    ids.push_back(id);
  EXPECT_GT(ids.size(), 500u);
  EXPECT_LE(arena.bytes_used(), uint64_t{1} << 20);
  std::vector<RunId> sorted = ids;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i)
    ASSERT_GE(sorted[i] - sorted[i - 1], 20u);
  for (const RunId id : ids)
    EXPECT_TRUE(arena.is_header(id));
  EXPECT_FALSE(arena.is_header(ids[0] + 1));
  EXPECT_FALSE(arena.is_header(0));
  EXPECT_FALSE(arena.is_header(UINT32_MAX));
  for (const RunId id : ids)
    arena.free(0, id);
  EXPECT_EQ(arena.bytes_used(), 0u);
  std::vector<RunId> again;
  while (const RunId id = arena.allocate(0, 20))
    again.push_back(id);
  std::sort(again.begin(), again.end());
  EXPECT_EQ(again, sorted);
  arena.free_all(again);
  EXPECT_EQ(arena.bytes_used(), 0u);
  size_t headers = 0;
  RunId cursor = 0;
  do {
    cursor = arena.for_each(cursor, 100, [&](RunId) { ++headers; });
  } while (cursor != 0);
  EXPECT_GE(headers, sorted.size()) << "and those that were made together with them and never asked for";
}

TEST(ArenaTest, ClassesWasteLittle) {
  for (uint64_t units = 1; units < 100'000; units += 1 + units / 50) {
    EXPECT_GE(Arena::rounded(units), units);
    EXPECT_LE(Arena::rounded(units), units + units / 8 + 1);
    EXPECT_EQ(Arena::rounded(Arena::rounded(units)), Arena::rounded(units));
  }
}

}  // namespace
}  // namespace rhizome
