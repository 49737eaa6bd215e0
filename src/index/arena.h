// The arena: one reserved stretch of memory for all runs of an index, in units of 64 bytes.
//
// Allocations come in size classes: up to 16 units exactly, above that eight classes for each doubling. What is freed
// is used again as a whole, for its class or, when nothing else is left, a smaller one: a unit that was once a header
// never becomes payload. So places do not merge, and who wants a large one may have to do with several small ones.
//
// Thread-safety: may be called from any thread. `slot` is the caller's thread slot (Epochs::Section::slot()), whose
// free lists nobody else uses meanwhile.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "concurrency/mutex.h"
#include "concurrency/thread_slot.h"
#include "index/run.h"
#include "machine/mapping.h"

namespace rhizome {

class Arena {
 public:
  // Memory is spent as it is first used. Aborts when the address space cannot be reserved.
  explicit Arena(uint64_t bytes);
  // In `memory`, which consists of zeros, begins with a unit and outlives the arena; in memory of its own when that is
  // empty.
  Arena(uint64_t bytes, std::span<std::byte> memory);

  uint32_t units() const { return units_; }
  // What readers are given.
  const std::byte* memory() const { return memory_; }
  // Whether a header begins at that unit, free or not. `id` may be anything.
  bool is_header(RunId id) const {
    if (id == 0 || id >= units_) return false;
    return (headers_[id / 64].load(std::memory_order_relaxed) >> (id % 64) & 1) != 0;
  }

  Run& at(RunId id) { return reinterpret_cast<Run*>(memory_)[id]; }
  const Run& at(RunId id) const { return reinterpret_cast<const Run*>(memory_)[id]; }
  std::byte* behind(RunId id) { return memory_ + (uint64_t{id} + 1) * kUnitBytes; }

  // The header is as the last user left it, dead and with an odd ver. 0: there is no such place.
  RunId allocate(uint32_t slot, uint64_t units);
  // A large place of no more than `units` and at least `least` units, for who found none of `units`. 0: there is none.
  RunId allocate_less(uint32_t slot, uint64_t units, uint64_t least);
  uint64_t units_of(RunId id) const { return class_units(at(id).size_class); }
  void free(uint32_t slot, RunId id);
  // The same from a thread that is in no section; `ids` becomes empty.
  void free_all(std::vector<RunId>& ids);

  // Units that an allocation of `units` takes.
  static uint64_t rounded(uint64_t units);

  uint64_t bytes_used() const;
  // That nobody uses, now or a moment ago, in however many places.
  uint64_t units_free() const {
    return units_ - kFirst - std::min(bytes_used() / kUnitBytes, uint64_t{units_ - kFirst});
  }
  // Touches every page that allocations up to so many bytes will use.
  void prefault(uint64_t bytes);

  // Calls visit(id) for headers from `cursor` on, free ones too, at most `budget` of them. Returns where to go on;
  // 0: that were all.
  template <class Visit>
  RunId for_each(RunId cursor, uint64_t budget, Visit visit) const {
    const uint32_t end = carved_.load(std::memory_order_acquire);  // pairs with the release in carve()
    RunId id = cursor == 0 ? kFirst : cursor;
    for (; id < end && budget > 0; --budget) {
      visit(id);
      id += static_cast<RunId>(class_units(at(id).size_class));
    }
    return id < end ? id : 0;
  }

 private:
  static constexpr RunId kFirst = 1;
  static constexpr size_t kClasses = 17 + 8 * 25;
  static constexpr size_t kCachedClasses = 48;  // up to 256 units; larger ones are rare
  static constexpr size_t kCacheMax = 64;

  struct Cache {
    std::array<std::vector<RunId>, kCachedClasses> free;
  };

  static size_t class_of(uint64_t units);
  // The class of the largest place with no more than so many units.
  static size_t class_within(uint64_t units);
  static uint64_t class_units(size_t size_class);
  Cache& cache(uint32_t slot);
  // Places of a class that a thread keeps for itself: few where the arena is small.
  size_t cached_max(size_t size_class) const;
  void count(uint32_t slot, RunId id) {
    units_used_[slot].fetch_add(static_cast<int64_t>(units_of(id)), std::memory_order_relaxed);
  }
  // The smallest free place of a larger class; 0: none.
  RunId take_larger(size_t size_class) REQUIRES(mutex_);
  // Makes up to `most` headers of a class, appended to `out`; none when the arena is full.
  void carve(size_t size_class, uint64_t most, std::vector<RunId>& out) REQUIRES(mutex_);

  Mapping mapping_;  // empty: the memory is somebody else's
  std::byte* memory_ = nullptr;
  uint32_t units_ = 0;
  Mapping headers_mapping_;
  std::atomic<uint64_t>* headers_ = nullptr;  // a bit for each unit
  std::array<std::unique_ptr<Cache>, kThreadSlots> caches_;
  std::array<std::atomic<int64_t>, kThreadSlots> units_used_{};
  std::atomic<int64_t> units_freed_{0};

  mutable Mutex mutex_;
  std::array<std::vector<RunId>, kClasses> free_ GUARDED_BY(mutex_);
  std::atomic<uint32_t> carved_{kFirst};
};

}  // namespace rhizome
