#include "residency/sieve_order.h"

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

bool anybody(uint32_t) {
  return true;
}

TEST(SieveOrder, TheOldestLeavesFirst) {
  SieveOrder order;
  for (const uint32_t block : {3, 1, 2})
    order.add(block);
  for (const uint32_t block : {3, 1, 2}) {
    ASSERT_EQ(order.next(anybody, 10), block);
    order.remove(block);
  }
  EXPECT_EQ(order.next(anybody, 10), SieveOrder::kNone);
  EXPECT_EQ(order.size(), 0u);
}

TEST(SieveOrder, WhatWasUsedStaysOnce) {
  SieveOrder order;
  for (const uint32_t block : {0, 1, 2})
    order.add(block);
  order.use(0);
  EXPECT_EQ(order.next(anybody, 10), 1u);
  order.remove(1);
  EXPECT_EQ(order.next(anybody, 10), 2u);
  order.remove(2);
  EXPECT_EQ(order.next(anybody, 10), 0u) << "it was used before the hand passed, not since";
}

TEST(SieveOrder, OnlyWhatMayLeaveAndNoMoreLooksThanAllowed) {
  SieveOrder order;
  for (uint32_t block = 0; block < 100; ++block)
    order.add(block);
  EXPECT_EQ(order.next([](uint32_t block) { return block == 70; }, 100), 70u);
  SieveOrder again;
  for (uint32_t block = 0; block < 100; ++block)
    again.add(block);
  uint32_t looks = 0;
  EXPECT_EQ(again.next(
                [&](uint32_t) {
                  ++looks;
                  return false;
                },
                40),
            SieveOrder::kNone);
  EXPECT_EQ(looks, 40u);
}

// Fifty prefixes that are used again and again, between ten thousand prompts that never come back.
TEST(SieveOrder, OneShotTrafficDoesNotFlushWhatIsShared) {
  constexpr uint32_t kRoom = 200;
  constexpr uint32_t kHot = 50;
  SieveOrder order;
  std::set<uint32_t> resident;
  std::mt19937_64 random(1);
  uint64_t hits = 0;
  uint64_t asked = 0;
  const auto access = [&](uint32_t block) {
    if (resident.contains(block)) {
      order.use(block);
      return true;
    }
    if (resident.size() == kRoom) {
      const uint32_t victim = order.next(anybody, 2 * kRoom);
      EXPECT_NE(victim, SieveOrder::kNone);
      order.remove(victim);
      resident.erase(victim);
    }
    order.add(block);
    resident.insert(block);
    return false;
  };
  for (uint32_t step = 0; step < 10000; ++step) {
    access(kHot + step);
    const auto hot = static_cast<uint32_t>(random() % kHot);
    ++asked;
    hits += access(hot) ? 1 : 0;
  }
  EXPECT_GE(hits * 100, asked * 90);
}

// The same as an order that is kept in the plainest way.
TEST(SieveOrder, AgreesWithAPlainList) {
  struct Plain {
    std::deque<std::pair<uint32_t, bool>> list;  // oldest first
    size_t hand = 0;
  };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    SieveOrder order;
    Plain plain;
    for (int step = 0; step < 5000; ++step) {
      const auto block = static_cast<uint32_t>(random() % 64);
      const auto at = std::ranges::find(plain.list, block, &std::pair<uint32_t, bool>::first);
      const uint64_t action = random() % 4;
      if (action == 0 && at == plain.list.end()) {
        order.add(block);
        plain.list.emplace_back(block, false);
      } else if (action == 1 && at != plain.list.end()) {
        order.use(block);
        at->second = true;
      } else if (action == 2 && at != plain.list.end()) {
        const auto place = static_cast<size_t>(at - plain.list.begin());
        order.remove(block);
        plain.list.erase(at);
        if (plain.hand > place) --plain.hand;
      } else if (action == 3) {
        const auto even = [](uint32_t b) { return b % 2 == 0; };
        uint32_t expected = SieveOrder::kNone;
        for (size_t looks = 0; looks < 50 && !plain.list.empty(); ++looks) {
          if (plain.hand >= plain.list.size()) plain.hand = 0;
          auto& [candidate, used] = plain.list[plain.hand];
          if (!used && even(candidate)) {
            expected = candidate;
            break;
          }
          used = false;
          ++plain.hand;
        }
        ASSERT_EQ(order.next(even, 50), expected);
      }
      ASSERT_EQ(order.size(), plain.list.size());
    }
  }
}

}  // namespace
}  // namespace rhizome
