#include "machine/shared_futex.h"

#include <algorithm>
#include <cerrno>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine/clock.h"

namespace rhizome {

bool shared_futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t deadline_ns) {
  constexpr uint64_t kSecondNs = 1'000'000'000;
  const timespec deadline = {static_cast<time_t>(deadline_ns / kSecondNs), static_cast<long>(deadline_ns % kSecondNs)};
  // The plain FUTEX_WAIT takes a duration; this one a time on CLOCK_MONOTONIC.
  const long result =
      ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, &deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
  if (result != 0 && errno == ETIMEDOUT) return false;
  return monotonic_now_ns() < deadline_ns || word.load(std::memory_order_relaxed) != expected;
}

uint32_t shared_futex_wake(const std::atomic<uint32_t>& word, uint32_t waiters) {
  const uint32_t most = std::min<uint32_t>(waiters, INT32_MAX);
  const long woken = ::syscall(SYS_futex, &word, FUTEX_WAKE, most, nullptr, nullptr, 0);
  return woken > 0 ? static_cast<uint32_t>(woken) : 0;
}

}  // namespace rhizome
