// Waiting for a few instructions of another thread.
//
// Thread-safety: a Spin belongs to one thread; a SpinLock is for sharing.
#pragma once

#include <atomic>
#include <cstdint>

#include "contract/thread_annotations.h"
#include "machine/thread.h"

namespace rhizome {

// Pauses, and gives the processor away when the other thread may be the one that needs it.
class Spin {
 public:
  void wait() {
    if (++rounds_ % kPausesBeforeYield == 0) {
      yield_thread();
      return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  uint32_t rounds() const { return rounds_; }

 private:
  static constexpr uint32_t kPausesBeforeYield = 64;
  uint32_t rounds_ = 0;
};

// A lock for sections of a few instructions that wait for nothing themselves.
class CAPABILITY("mutex") SpinLock {
 public:
  void lock() ACQUIRE() {
    Spin spin;
    while (held_.exchange(true, std::memory_order_acquire)) {  // pairs with the release in unlock()
      while (held_.load(std::memory_order_relaxed))
        spin.wait();
    }
  }
  // By anybody: for checks.
  bool held() const { return held_.load(std::memory_order_relaxed); }
  void unlock() RELEASE() { held_.store(false, std::memory_order_release); }  // pairs with the acquire in lock()

 private:
  std::atomic<bool> held_{false};
};

}  // namespace rhizome
