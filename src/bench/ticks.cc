#include "bench/ticks.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kCalibrationNs = 20'000'000;

double calibrate() {
  const uint64_t start_ns = monotonic_now_ns();
  const uint64_t start_ticks = ticks_now();
  uint64_t passed_ns = 0;
  while (passed_ns < kCalibrationNs)
    passed_ns = monotonic_now_ns() - start_ns;
  return static_cast<double>(passed_ns) / static_cast<double>(ticks_now() - start_ticks);
}

}  // namespace

double ns_per_tick() {
  static const double kMeasured = calibrate();
  return kMeasured;
}

}  // namespace rhizome::bench
