// A clock for what takes nanoseconds: the processor's own counter, and how long one of its ticks is.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>

#include "machine/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace rhizome::bench {

// Later calls may be reordered with what is measured by some instructions.
inline uint64_t ticks_now() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return monotonic_now_ns();
#endif
}

// Measured against the monotonic clock at the first call, which takes some milliseconds.
double ns_per_tick();

}  // namespace rhizome::bench
