#include "concurrency/thread_slot.h"

#include <atomic>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "concurrency/mutex.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

TEST(ThreadSlot, AThreadKeepsItsOwn) {
  const uint32_t mine = thread_slot();
  EXPECT_EQ(thread_slot(), mine);
  EXPECT_LT(mine, thread_slots_end());
}

TEST(ThreadSlot, LivingThreadsDifferUntilNoneIsLeft) {
  constexpr size_t kThreads = kThreadSlots + 20;
  Mutex mutex;
  std::multiset<uint32_t> taken;
  std::atomic<size_t> arrived{0};
  {
    std::vector<Thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.push_back(std::move(*start_thread("slot", [&] {
        const uint32_t slot = thread_slot();
        {
          const MutexLock lock(mutex);
          taken.insert(slot);
        }
        arrived.fetch_add(1);
        while (arrived.load() < kThreads)
          yield_thread();
      })));
    }
  }
  for (uint32_t slot = 1; slot < kThreadSlots; ++slot)
    EXPECT_LE(taken.count(slot), 1u) << slot;
  EXPECT_GE(taken.count(kThreadSlotShared), 20u);
  EXPECT_LE(thread_slots_end(), kThreadSlots);
}

TEST(ThreadSlot, ASlotIsUsedAgainWhenItsThreadHasEnded) {
  const uint32_t end = [] {
    Thread first = std::move(*start_thread("first", [] { thread_slot(); }));
    first.join();
    return thread_slots_end();
  }();
  for (int i = 0; i < 10; ++i) {
    Thread next = std::move(*start_thread("next", [] { thread_slot(); }));
    next.join();
  }
  EXPECT_EQ(thread_slots_end(), end);
}

}  // namespace
}  // namespace rhizome
