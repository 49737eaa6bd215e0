// What is under way when somebody wants all to be written.
#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/thread.h"
#include "store/forwarding_tier_fixture.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

constexpr uint64_t kSecondNs = 1000000000;

// Counts how often it is asked: whoever waits in a loop asks again and again.
class CountingClock final : public Clock {
 public:
  uint64_t monotonic_ns() const override {
    ++asked_;
    return kSecondNs;
  }
  uint64_t wall_ns() const override { return 0; }
  uint64_t asked() const { return asked_; }

 private:
  mutable std::atomic<uint64_t> asked_{0};
};

class HookedTier final : public ForwardingTier {
 public:
  using ForwardingTier::ForwardingTier;

  // Asked by whoever encodes a block, between what the tier said of it and the write.
  bool verifies_reads() const override {
    if (auto hook = std::exchange(before_write, nullptr)) hook();
    return false;
  }
  void settle(uint64_t) override { images_when_settled = static_cast<int64_t>(usage().images); }

  mutable std::function<void()> before_write;
  std::atomic<int64_t> images_when_settled{-1};
};

TEST(StoreFlush, WaitsForABlockThatAnotherThreadIsAboutToWrite) {
  CountingClock clock;
  auto made = std::make_unique<HookedTier>(
      std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 64 << 20, .clock = &clock}));
  HookedTier& tier = *made;
  StoreUser user(StoreOptions{.memory_bytes = 4 << 20,
                              .tier = std::move(made),
                              .tiering = {.admission = {.unused_wait_ns = 0}, .background = false, .clock = &clock}});
  const Root a = user.open(keyspace_named("a"));
  EXPECT_EQ(user.put(a, blocks_of({1})), 1u);
  Thread flusher;
  tier.before_write = [&] {
    flusher = std::move(*start_thread("flush", [&] { user.store->flush(2 * kSecondNs); }));
    const uint64_t begin = clock.asked();
    while (tier.images_when_settled < 0 && clock.asked() < begin + 20)
      yield_thread();
  };
  for (int i = 0; i < 3; ++i)
    user.store->step();
  flusher.join();
  EXPECT_EQ(tier.images_when_settled, 1) << "it was settled before the block was written";
}

}  // namespace
}  // namespace rhizome
