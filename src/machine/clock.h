// Time. Code that decides something by time takes a Clock; the free functions are for measuring.
//
// Thread-safety: everything here may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace rhizome {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since an arbitrary start; never goes backwards.
  virtual uint64_t monotonic_ns() const = 0;
  // Nanoseconds since 1970-01-01 00:00 UTC; may jump.
  virtual uint64_t wall_ns() const = 0;
};

// The machine's own clock; lives as long as the process.
Clock& real_clock();

// A clock that stands still until it is told to move.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(uint64_t monotonic_ns = 0, uint64_t wall_ns = 0) : monotonic_(monotonic_ns), wall_(wall_ns) {}

  uint64_t monotonic_ns() const override { return monotonic_.load(std::memory_order_relaxed); }
  uint64_t wall_ns() const override { return wall_.load(std::memory_order_relaxed); }

  // Moves both.
  void advance_ns(uint64_t by) {
    monotonic_.fetch_add(by, std::memory_order_relaxed);
    wall_.fetch_add(by, std::memory_order_relaxed);
  }
  void set_wall_ns(uint64_t wall_ns) { wall_.store(wall_ns, std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> monotonic_;
  std::atomic<uint64_t> wall_;
};

// The real monotonic clock.
uint64_t monotonic_now_ns();
// CPU time that the calling thread has used.
uint64_t thread_cpu_now_ns();

// A clock for "which of these was used longer ago", read without a system call: one tick is some tenths of a
// millisecond, the same in all processes of the machine, and it never goes backwards by more than one.
inline uint64_t coarse_now_ticks() {
#if defined(__x86_64__)
  return __rdtsc() >> 19;
#else
  return monotonic_now_ns() >> 18;
#endif
}

}  // namespace rhizome
