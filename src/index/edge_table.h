// The edge table: from an edge (a run and the first block of a child) to the children that may be behind it. One
// entry a run, in buckets of one cache line.
//
// An edge is a 64-bit number: its high half is kept in the entry, its low half chooses segment and bucket. Entries of a
// full bucket go to the next ones; each bucket that was passed over counts that, so that a reader knows to go on.
//
// States of an entry: 0, or (high half of the edge, run). Writers hold the segment's lock. Readers hold nothing: they
// see an entry before or after it changed, and check the run that it names. Entries never move within an array. A
// segment that fills up gets a larger array, filled before it is shown; a reader that found nothing and sees another
// array than before looks again, and what an old array still shows is checked as always.
//
// Thread-safety: find() from any thread; the rest with the lock of the edge's segment held.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "concurrency/race_point.h"
#include "concurrency/spin.h"
#include "index/arena.h"
#include "index/run.h"
#include "machine/mapping.h"

namespace rhizome {

class EdgeTable {
 public:
  // For at most as many runs as the arena has units. `arena` must outlive the table, which reads the edges of runs.
  explicit EdgeTable(const Arena& arena);

  // Calls visit(RunId) for each run that may be behind the edge, until one returns true.
  template <class Visit>
  bool find(uint64_t edge, Visit visit) const {
    const Segment& segment = segment_of(edge);
    uint32_t growth = segment.growth.load(std::memory_order_acquire);  // pairs with the release in grow()
    for (;;) {
      RHIZOME_RACE_POINT("index.edges.probe");
      if (probe(array(segment, growth), edge, visit)) return true;
      const uint32_t now = segment.growth.load(std::memory_order_acquire);  // the same pair
      if (now == growth) return false;
      growth = now;
    }
  }

  void prefetch(uint64_t edge) const {
    const Segment& segment = segment_of(edge);
    const Array buckets = array(segment, segment.growth.load(std::memory_order_acquire));  // pairs with grow()
    __builtin_prefetch(&buckets.first[home(buckets, edge)]);
  }

  // False: no room, nothing changed.
  [[nodiscard]] bool insert(uint64_t edge, RunId id);
  // The entry must be there.
  void replace(uint64_t edge, RunId id, RunId by);
  void remove(uint64_t edge, RunId id);

  // Holds the locks of the segments of one edge or two.
  class Lock {
   public:
    Lock(EdgeTable& table, uint64_t edge) : Lock(table, edge, edge) {}
    Lock(EdgeTable& table, uint64_t edge, uint64_t other);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    SpinLock* first_;
    SpinLock* second_;  // null: the same
  };

  uint64_t bytes_used() const;

 private:
  static constexpr size_t kEntries = 7;
  static constexpr uint32_t kProbesMax = 32;

  struct alignas(64) Bucket {
    std::array<std::atomic<uint64_t>, kEntries> entries;
    std::atomic<uint64_t> passed_over;
  };
  static_assert(sizeof(Bucket) == 64);
  struct alignas(64) Segment {
    SpinLock lock;
    std::atomic<uint32_t> growth{0};  // which array is in use
    uint32_t count = 0;               // entries; under the lock
    Bucket* first = nullptr;          // of the first array; the others follow it
  };
  struct Array {
    Bucket* first;
    uint32_t buckets;
  };
  // Where in a segment's memory the array of each growth lies, in buckets.
  struct Extent {
    uint64_t offset;
    uint32_t buckets;
  };

  static uint32_t high_half(uint64_t edge) { return static_cast<uint32_t>(edge >> 32); }
  static uint32_t home(const Array& array, uint64_t edge) {
    return static_cast<uint32_t>(uint64_t{static_cast<uint32_t>(edge)} * array.buckets >> 32);
  }
  const Segment& segment_of(uint64_t edge) const { return segments_[edge & segment_mask_]; }
  Segment& segment_of(uint64_t edge) { return segments_[edge & segment_mask_]; }
  Array array(const Segment& segment, uint32_t growth) const {
    return {segment.first + extents_[growth].offset, extents_[growth].buckets};
  }

  template <class Visit>
  static bool probe(const Array& array, uint64_t edge, Visit& visit) {
    uint32_t bucket = home(array, edge);
    for (uint32_t probes = 0; probes < kProbesMax; ++probes) {
      const Bucket& line = array.first[bucket];
      for (const std::atomic<uint64_t>& slot : line.entries) {
        const uint64_t entry = slot.load(std::memory_order_acquire);  // pairs with put(): the run is filled
        if (high_half(entry) == high_half(edge) && visit(static_cast<RunId>(entry))) return true;
      }
      if (line.passed_over.load(std::memory_order_relaxed) == 0) return false;
      bucket = bucket + 1 == array.buckets ? 0 : bucket + 1;
    }
    return false;
  }

  static bool put(const Array& array, uint64_t edge, RunId id);
  static std::atomic<uint64_t>* find_entry(const Array& array, uint64_t edge, RunId id, uint32_t& bucket);
  bool grow(Segment& segment);

  const Arena& arena_;
  Mapping mapping_;
  std::vector<Extent> extents_;
  uint64_t segment_mask_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace rhizome
