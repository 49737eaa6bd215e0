// How long operations took, one by one.
//
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "bench/ticks.h"

namespace rhizome::bench {

class Samples {
 public:
  void add(uint64_t ticks) {
    constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
    ticks_.push_back(static_cast<uint32_t>(std::min(ticks, kMost)));
  }

  // The last one was measured while other threads stood still that should have been at work.
  void last_was_alone() {
    if (ticks_.empty()) return;
    alone_.push_back(ticks_.back());
    ticks_.pop_back();
  }

  void add(const Samples& other) {
    alone_.insert(alone_.end(), other.alone_.begin(), other.alone_.end());
    ticks_.insert(ticks_.end(), other.ticks_.begin(), other.ticks_.end());
  }

  // Of what was measured beside the other threads; of everything where that is next to nothing, as on one processor.
  // NaN without samples.
  double median_ns() const {
    std::vector<uint32_t> sorted = ticks_;
    if (sorted.size() < kEnough) sorted.insert(sorted.end(), alone_.begin(), alone_.end());
    if (sorted.empty()) return std::numeric_limits<double>::quiet_NaN();
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle * ns_per_tick();
  }

 private:
  static constexpr size_t kEnough = 20;

  std::vector<uint32_t> ticks_;
  std::vector<uint32_t> alone_;
};

}  // namespace rhizome::bench
