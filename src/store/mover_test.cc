#include "store/mover.h"

#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "tier/memory_tier.h"

namespace rhizome {
namespace {

constexpr uint64_t kSlotBytes = 64 << 10;
constexpr uint32_t kSlots = 10;

// So many slots, all of which may leave.
class Memory {
 public:
  Memory() : slab(std::move(*Slab::create({.budget_bytes = 4 << 20}))) {
    for (uint32_t i = 0; i < kSlots; ++i) {
      const SlotRef slot = slab->commit(std::move(*slab->reserve(kSlotBytes)), 0);
      table.add({.keyspace = 1, .key = next_key(root_key({}), std::span(&i, 1)), .slot = slot});
    }
    while (const auto unwritten = table.next_unwritten(1, 0))
      table.written(unwritten->ref, 100);
  }
  uint64_t free_bytes() const { return slab->usage().free_bytes; }
  void free_one() {
    const std::optional<BlockTable::Demoted> demoted = table.demote(kSlots);
    EXPECT_TRUE(demoted && slab->free(demoted->slot));
  }

  std::unique_ptr<Slab> slab;
  BlockTable table{100};
};

// At the low mark itself one more has to leave.
TEST(Mover, DemotesUntilLessThanTheLowMarkIsFull) {
  Memory twin;
  const uint64_t free_at_first = twin.free_bytes();
  for (int i = 0; i < 4; ++i)
    twin.free_one();
  // So that half is full when four have left.
  const uint64_t slots_bytes = 2 * twin.free_bytes();
  ASSERT_LT(free_at_first * 100, slots_bytes * 49) << "the high mark is not reached: the test shows nothing";
  for (const uint32_t high : {51, 100}) {
    Memory memory;
    const auto counters = Counters::local();
    ManualClock clock(1);
    const Index index({.memory_bytes = 1 << 20});
    Demotion demotion(*memory.slab, memory.table, index, false, *counters);
    Mover mover(std::make_unique<MemoryTier>(MemoryTierOptions{.clock = &clock}), *memory.slab, slots_bytes,
                memory.table, demotion, *counters,
                {.watermarks = {.high = high, .low = 50}, .staging_bytes = 1 << 20, .clock = &clock});
    mover.step();
    EXPECT_EQ(counters->get(Counter::kDemotions), high == 51 ? 5u : 0u);
  }
}

}  // namespace
}  // namespace rhizome
