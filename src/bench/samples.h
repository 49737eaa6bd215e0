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
    total_ticks_ += ticks;
  }

  void add(const Samples& other) {
    ticks_.insert(ticks_.end(), other.ticks_.begin(), other.ticks_.end());
    total_ticks_ += other.total_ticks_;
  }

  size_t count() const { return ticks_.size(); }
  double total_ns() const { return static_cast<double>(total_ticks_) * ns_per_tick(); }

  // NaN without samples.
  double median_ns() const {
    if (ticks_.empty()) return std::numeric_limits<double>::quiet_NaN();
    std::vector<uint32_t> sorted = ticks_;
    const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    return *middle * ns_per_tick();
  }

 private:
  std::vector<uint32_t> ticks_;
  uint64_t total_ticks_ = 0;
};

}  // namespace rhizome::bench
