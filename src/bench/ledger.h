// Where the blocks of a measured index are: gives out locations, takes back what is evicted, and finds out when an
// index gives one back twice, or one that was never given to it, or names a wrong one.
//
// Thread-safety: stored(), evicted() and checked() from any thread; a LocationPool belongs to one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "block/token.h"
#include "index/index.h"

namespace rhizome::bench {

class Ledger {
 public:
  // Locations [0, locations).
  explicit Ledger(size_t locations) : is_stored_(locations) {}

  void stored(std::span<const Location> locations) {
    for (const Location location : locations) {
      if (is_stored_[location].exchange(1, std::memory_order_relaxed) != 0) wrong_.fetch_add(1);
    }
  }

  void evicted(std::span<const Location> locations) {
    for (const Location location : locations) {
      const bool is_known = location < is_stored_.size();
      if (!is_known || is_stored_[location].exchange(0, std::memory_order_relaxed) != 1) wrong_.fetch_add(1);
    }
  }

  // What a look-up found beside what it must find. `is_counted`: it goes into found_sum().
  void checked(std::span<const Location> found, std::span<const Location> expected, bool is_counted) {
    checked_.fetch_add(expected.size(), std::memory_order_relaxed);
    if (is_counted) found_sum_.fetch_add(std::accumulate(found.begin(), found.end(), uint64_t{1}));
    const bool is_right = found.size() == expected.size() && std::equal(found.begin(), found.end(), expected.begin());
    if (!is_right) wrong_.fetch_add(1);
  }

  void failed() { wrong_.fetch_add(1); }

  uint64_t blocks_checked() const { return checked_.load(); }
  uint64_t wrong() const { return wrong_.load(); }
  // Of the locations that were found, and one for each look-up: the same in every run that does the same.
  uint64_t found_sum() const { return found_sum_.load(); }

 private:
  std::vector<std::atomic<uint8_t>> is_stored_;
  std::atomic<uint64_t> checked_ = 0;
  std::atomic<uint64_t> wrong_ = 0;
  std::atomic<uint64_t> found_sum_ = 0;
};

// Locations that one thread may store at.
using LocationPool = std::vector<Location>;

}  // namespace rhizome::bench
