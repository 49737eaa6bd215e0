#include "machine/clock.h"

#include <time.h>

#include "contract/check.h"

namespace rhizome {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

uint64_t read_clock(clockid_t id) {
  timespec now{};
  const int failed = ::clock_gettime(id, &now);
  RHIZOME_CHECK(failed == 0);
  return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

class RealClock final : public Clock {
 public:
  uint64_t monotonic_ns() const override { return read_clock(CLOCK_MONOTONIC); }
  uint64_t wall_ns() const override { return read_clock(CLOCK_REALTIME); }
};

}  // namespace

Clock& real_clock() {
  // Never destroyed: threads that still run while the process ends may ask for the time.
  static RealClock* const kClock = new RealClock;
  return *kClock;
}

uint64_t monotonic_now_ns() {
  return read_clock(CLOCK_MONOTONIC);
}

uint64_t thread_cpu_now_ns() {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace rhizome
