// Waiting for a few instructions of another thread.
//
// Thread-safety: a Spin belongs to one thread.
#pragma once

#include <cstdint>

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

}  // namespace rhizome
