// The runs of an index and what does not depend on how blocks are compared: reading a run without a lock, pins, the
// edge table, who is a candidate for eviction.
//
// Thread-safety: may be called from any thread, in an epoch section whose slot is passed where one is asked for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "concurrency/epochs.h"
#include "concurrency/spin.h"
#include "contract/check.h"
#include "index/hot_pins.h"
#include "index/index_memory.h"
#include "index/index_types.h"
#include "index/run.h"
#include "index/run_reader.h"
#include "machine/clock.h"

namespace rhizome {

class Runs : private IndexMemory, public RunReader {
 public:
  // Runs that are made for a block or two at a time have room for so many at least: what a block takes at worst.
  static constexpr uint32_t kGrowthCapacityMin = 4;

  // In shared memory where the options name some.
  Runs(const IndexOptions& options, uint64_t payload_bytes);

  using IndexMemory::arena;
  using IndexMemory::edges;
  using IndexMemory::epoch;
  using IndexMemory::publish;
  Epochs& epochs() { return epochs_; }
  HotPins& hot() { return hot_; }
  Run& at(RunId id) { return arena().at(id); }
  const Run& at(RunId id) const { return arena().at(id); }

  // Blocks that an allocation for `blocks` blocks has room for.
  uint32_t capacity_for(uint32_t blocks) const { return capacity_of_units(Arena::rounded(units_for(blocks))); }
  uint32_t capacity_of_units(uint64_t units) const;

  // Takes a pin and returns the word as it was. If it says kDead or kRemoved, or the run has changed since it was
  // found, the pin must be given back.
  RunWord pin(uint32_t slot, RunId id);
  void unpin(uint32_t slot, RunId id);
  void lock(Run& run);
  void unlock(Run& run) {
    [[maybe_unused]] const RunWord word(run.word.fetch_and(~uint64_t{RunWord::kLocked}, std::memory_order_release));
    RHIZOME_DCHECK(word.has(RunWord::kLocked));
  }

  uint64_t now() {
    return recency_ == Recency::kTicks ? coarse_now_ticks() : clock_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Not in the past of `now()`.
  uint64_t last_now() const {
    return recency_ == Recency::kTicks ? coarse_now_ticks() : clock_.load(std::memory_order_relaxed);
  }
  void touch(Run& run) {
    const uint32_t tick = static_cast<uint32_t>(now());
    // Only when it says something new: a line that many read is not written for each of them.
    if (run.touch.load(std::memory_order_relaxed) != tick) run.touch.store(tick, std::memory_order_relaxed);
  }
  // The whole tick of which a run keeps the low half.
  uint64_t whole_tick(uint32_t touch) const {
    const uint64_t last = last_now();
    const int32_t age = static_cast<int32_t>(static_cast<uint32_t>(last) - touch);
    return age <= 0 ? last : last - static_cast<uint32_t>(age);
  }

  // Makes the run a candidate, unless it is one.
  void enqueue(uint32_t slot, RunId id);
  // Appends all new candidates.
  void drain_candidates(std::vector<RunId>& out);

  void count(uint32_t slot, int64_t blocks, int64_t runs) {
    slots_[slot].blocks.fetch_add(blocks, std::memory_order_relaxed);
    slots_[slot].runs.fetch_add(runs, std::memory_order_relaxed);
  }
  int64_t blocks_count() const;
  int64_t runs_count() const;

 private:
  // Two threads on one prompt meet in one of some twenty look-ups.
  static constexpr uint32_t kContendedPerPromotion = 16;

  struct alignas(64) Slot {
    SpinLock lock;
    std::unique_ptr<std::deque<RunId>> candidates;  // under the lock; made at first use, since it takes half a KB
    std::atomic<bool> any{false};
    uint32_t contended = 0;  // the slot's own thread's
    std::atomic<int64_t> blocks{0};
    std::atomic<int64_t> runs{0};
  };

  const Recency recency_;
  std::atomic<uint64_t> clock_{0};
  Epochs epochs_;
  HotPins hot_;
  std::array<Slot, kThreadSlots> slots_;
};

}  // namespace rhizome
