// Hot pins: where the pins of the busiest runs are counted, one counter for each thread and run, so that many threads
// that use one prompt do not write to one cache line.
//
// States of a place, under the mutex but for what readers do:
//
//   unused
//   hot       The run's word carries kHot and kBias pins more. Who pins or releases, in an epoch section, changes its
//             own thread's counter instead of the word. The bias keeps the run from being evicted.
//   cooling   kHot is cleared, the bias is still there: new pins go to the word, sections that began before may still
//             count here. When their epoch is past, the sum of the counters replaces the bias.
//
// A counter of one thread may be negative: who releases need not be who pinned. The sum over all is right.
//
// Thread-safety: add() and try_promote() in an epoch section of the thread; the rest is the evictor's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "concurrency/epochs.h"
#include "concurrency/mutex.h"
#include "concurrency/thread_slot.h"
#include "index/run.h"
#include "machine/mapping.h"

namespace rhizome {

class HotPins {
 public:
  static constexpr uint32_t kPromoteAt = 32;
  static constexpr uint32_t kBias = 1u << 30;

  explicit HotPins(Epochs& epochs);

  void add(uint32_t slot, uint16_t place, int32_t by) {
    std::atomic<int32_t>& counter = counters_[slot].of[place];
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  // The caller holds a pin on the run. Does nothing when no place is free or somebody else is at it.
  void try_promote(RunId id, Run& run);

  bool any() const { return used_.load(std::memory_order_relaxed) != 0; }
  // Starts to cool what few pin and nobody has used for a while before `tick`; `all`: whatever nobody pins. Ends the
  // cooling of what is past its epoch and appends those runs that have no pin left to `idle`.
  void cool(bool all, uint32_t tick, std::vector<RunId>& idle);
  // Whether a removed run waits for nothing but to be cooled.
  bool any_removed_idle();
  // Pins of a hot or cooling run that its word does not show.
  int64_t hidden_pins(const Run& run) const;

 private:
  static constexpr size_t kPlaces = 256;
  static constexpr int32_t kCoolAfterTicks = 64;
  enum class State : uint8_t { kUnused, kHot, kCooling };
  struct Place {
    State state = State::kUnused;
    RunId id = 0;
    Run* run = nullptr;
    uint64_t cooling_since = 0;  // epoch
  };
  struct alignas(64) Counters {
    std::array<std::atomic<int32_t>, kPlaces> of;
  };

  int64_t sum(size_t place) const;
  void fold(Place& place, size_t index, std::vector<RunId>& idle) REQUIRES(mutex_);

  Epochs& epochs_;
  Mapping mapping_;
  Counters* counters_ = nullptr;  // one a thread slot
  std::atomic<uint32_t> used_{0};
  Mutex mutex_;
  std::array<Place, kPlaces> places_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
