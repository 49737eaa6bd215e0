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
#include "index/arena.h"
#include "index/edge_table.h"
#include "index/hot_pins.h"
#include "index/index_types.h"
#include "index/run.h"
#include "machine/clock.h"

namespace rhizome {

class Runs {
 public:
  // Runs that are made for a block or two at a time have room for so many at least: what a block takes at worst.
  static constexpr uint32_t kGrowthCapacityMin = 4;

  Runs(uint64_t memory_bytes, uint64_t payload_bytes, Recency recency);

  Epochs& epochs() { return epochs_; }
  Arena& arena() { return arena_; }
  const Arena& arena() const { return arena_; }
  EdgeTable& edges() { return edges_; }
  const EdgeTable& edges() const { return edges_; }
  HotPins& hot() { return hot_; }
  Run& at(RunId id) { return arena_.at(id); }
  const Run& at(RunId id) const { return arena_.at(id); }

  // The payload of `capacity` blocks lies behind so many bytes of locations.
  static uint64_t payload_offset(uint64_t capacity) { return (capacity * sizeof(Location) + 7) / 8 * 8; }
  uint64_t units_for(uint64_t capacity) const {
    return 1 + (payload_offset(capacity) + capacity * payload_bytes_ + kUnitBytes - 1) / kUnitBytes;
  }
  // Blocks that an allocation for `blocks` blocks has room for.
  uint32_t capacity_for(uint32_t blocks) const { return capacity_of_units(Arena::rounded(units_for(blocks))); }
  uint32_t capacity_of_units(uint64_t units) const;

  // The location and the payload of block `depth` of a run that was read.
  const Location* locations(const RunView& run, uint32_t depth) const {
    return reinterpret_cast<const Location*>(arena_.behind(run.owner)) + run.base + (depth - run.start);
  }
  const std::byte* payload(const RunView& run, uint32_t depth) const {
    return arena_.behind(run.owner) + payload_offset(run.capacity) +
           uint64_t{run.base + (depth - run.start)} * payload_bytes_;
  }

  // The run as it is at one moment. False when it is being changed for too long, or what it says cannot be.
  bool read(RunId id, RunView& out) const;
  // The same for the child of `parent` that begins at block `depth`, starting from a run that is it or lies below it.
  bool read_child(RunId id, RunId parent, uint32_t depth, RunView& out) const;
  // The run on the path to `id` that block `depth` lies in or that ends there. The caller pins `id`.
  bool read_above(RunId id, uint32_t depth, RunView& out) const;

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
  // As much of it as there is address space for: a process may have little, or have to account for all of it.
  static uint64_t reservable(uint64_t memory_bytes);

  static constexpr int kReadTriesMax = 128;
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

  const uint64_t payload_bytes_;
  const Recency recency_;
  std::atomic<uint64_t> clock_{0};
  Epochs epochs_;
  Arena arena_;
  EdgeTable edges_;
  HotPins hot_;
  std::array<Slot, kThreadSlots> slots_;
};

}  // namespace rhizome
