#include <atomic>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "machine/thread.h"
#include "slab/slab.h"

namespace rhizome {
namespace {

// Every slot is filled with its owner's mark; a slot with two owners shows as a mark that is not one's own.
void hammer(Slab& slab, uint64_t seed, std::atomic<uint64_t>& wrong) {
  std::mt19937_64 random(seed);
  std::vector<std::pair<SlotRef, int>> mine;
  std::vector<Pinned> pins;
  for (int i = 0; i < 4000; ++i) {
    const uint64_t action = random() % 8;
    if (action < 4) {
      Result<Reserved> reserved = slab.reserve(random() % 2 == 0 ? 4096 : 20000);
      if (!reserved || action == 0) continue;
      const int mark = static_cast<int>(random() % 256);
      std::memset(reserved->bytes().data(), mark, reserved->bytes().size());
      mine.emplace_back(slab.commit(std::move(*reserved), static_cast<uint64_t>(mark)), mark);
    } else if (!mine.empty()) {
      const auto [ref, mark] = mine.back();
      Result<Pinned> pinned = slab.pin(ref);
      if (!pinned) {
        ++wrong;
        continue;
      }
      for (const std::byte byte : pinned->bytes().first(512))
        wrong += byte != static_cast<std::byte>(mark);
      if (action < 7) {
        wrong += !slab.free(ref);
        wrong += slab.free(ref).has_value();
        mine.pop_back();
      }
      if (pins.size() < 8) pins.push_back(std::move(*pinned));
      if (random() % 4 == 0) pins.clear();
    }
  }
  pins.clear();
  for (const auto& [ref, mark] : mine)
    wrong += !slab.free(ref);
}

TEST(SlabStress, ThreadsNeverShareASlot) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Result<std::unique_ptr<Slab>> slab = Slab::create({.budget_bytes = 1 << 20});
  ASSERT_TRUE(slab);
  std::atomic<uint64_t> wrong{0};
  {
    std::vector<Thread> threads;
    for (uint64_t i = 0; i < 4; ++i) {
      threads.push_back(std::move(*start_thread("hammer", [&, i] { hammer(**slab, seed + i, wrong); })));
    }
  }
  EXPECT_EQ(wrong, 0u);
  (*slab)->trim();
  const SlabUsage usage = (*slab)->usage();
  EXPECT_EQ(usage.chunks, 0u);
  EXPECT_EQ(usage.stored_bytes, 0u);
  EXPECT_EQ(usage.pinned_bytes, 0u);
  EXPECT_EQ(usage.reserved_slots + usage.committed_slots + usage.doomed_slots, 0u);
}

}  // namespace
}  // namespace rhizome
