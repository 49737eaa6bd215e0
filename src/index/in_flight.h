// In flight: blocks that somebody has announced to compute, so that others need not compute them, too.
//
// States of a claim, under the mutex:
//
//   live     announced by an owner, with a deadline. Its blocks become visible one after the other, as they are
//            inserted; what is not is in flight.
//   over     withdrawn by its owner, or by withdraw_all() when the owner is gone, or past its deadline. It is as if it
//            had never been; whoever waits goes on alone.
//
// No wake-up is lost: a waiter says that it waits, then looks for blocks, then sleeps; who inserts shows the blocks,
// then looks for waiters. The fence between the two halves is the waiter's (Epochs::heavy_fence()), since inserts are
// many and waiters few. And no wait is without a bound: it ends at the claim's deadline or the waiter's own.
//
// Thread-safety: everything here may be called from any thread, in no epoch section. A Claim belongs to one thread at a
// time and must not outlive its InFlight.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "concurrency/mutex.h"
#include "concurrency/race_point.h"
#include "contract/result.h"
#include "index/index_types.h"
#include "machine/clock.h"

namespace rhizome {

template <class Element>
class InFlight {
 public:
  InFlight(uint32_t block_elements, Clock& clock) : block_elements_(block_elements), clock_(clock) {}

  // Claims blocks [first_block, end of elements). kAlreadyExists: a live claim has block first_block of this prompt.
  // kResourceExhausted: too many claims.
  Result<uint64_t> announce(Root root, std::span<const Element> elements, uint32_t first_block, uint64_t owner,
                            uint64_t deadline_ns);
  // A claim that is over already is fine.
  void withdraw(uint64_t claim);
  // All claims of an owner; returns how many.
  size_t withdraw_all(uint64_t owner);

  // Whether a live claim has block `block` of this prompt.
  bool covers(Root root, std::span<const Element> elements, uint32_t block);

  // Sleeps until stored() exceeds `blocks`, until no live claim has that block, or until the clock says give_up_ns.
  // `fence` runs between announcing the wait and the first look.
  template <class Stored, class Fence>
  WaitEnd wait(Root root, std::span<const Element> elements, uint32_t blocks, uint64_t give_up_ns, Stored stored,
               Fence fence) {
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    fence();
    const WaitEnd end = wait_announced(root, elements, blocks, give_up_ns, stored);
    waiters_.fetch_sub(1, std::memory_order_relaxed);
    return end;
  }
  // After blocks were inserted, and a light fence.
  void blocks_are_there() {
    if (waiters_.load(std::memory_order_relaxed) == 0) return;
    MutexLock lock(mutex_);
    changed_.notify_all();
  }

  bool any() const { return count_.load(std::memory_order_relaxed) != 0; }

 private:
  static constexpr size_t kClaimsMax = 4096;
  // So that a clock that is not the machine's is asked now and then.
  static constexpr uint64_t kSleepNsMax = 250'000'000;

  struct Claimed {
    uint64_t id;
    Root root;
    std::vector<Element> elements;
    uint32_t first_block;
    uint64_t owner;
    uint64_t deadline_ns;
  };

  template <class Stored>
  WaitEnd wait_announced(Root root, std::span<const Element> elements, uint32_t blocks, uint64_t give_up_ns,
                         Stored stored) {
    MutexLock lock(mutex_);
    for (;;) {
      if (stored() > blocks) return WaitEnd::kMoreBlocks;
      const uint64_t now = clock_.monotonic_ns();
      const Claimed* const claim = find(root, elements, blocks, now);
      if (claim == nullptr) return WaitEnd::kNobody;
      if (now >= give_up_ns) return WaitEnd::kTimeOut;
      RHIZOME_RACE_POINT("index.wait.before_sleep");
      const uint64_t until = std::min({claim->deadline_ns - now, give_up_ns - now, kSleepNsMax});
      changed_.wait_for(mutex_, until);
    }
  }
  // Forgets what is past its deadline at `now_ns` on the way.
  const Claimed* find(Root root, std::span<const Element> elements, uint32_t block, uint64_t now_ns) REQUIRES(mutex_);

  const uint32_t block_elements_;
  Clock& clock_;
  std::atomic<uint32_t> waiters_{0};
  std::atomic<size_t> count_{0};
  Mutex mutex_;
  CondVar changed_;
  std::list<Claimed> claims_ GUARDED_BY(mutex_);
  uint64_t last_id_ GUARDED_BY(mutex_) = 0;
};

extern template class InFlight<uint32_t>;
extern template class InFlight<uint64_t>;

}  // namespace rhizome
