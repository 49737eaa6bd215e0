// The edge table as a reader sees it: from an edge (a run and the first block of a child) to the children that may be
// behind it. Memory of this process, or a read-only mapping of another one's.
//
// An edge is a 64-bit number: its high half is kept in the entry, its low half chooses segment and bucket. Entries of a
// full bucket go to the next ones; each bucket that was passed over counts that, so that a reader knows to go on.
//
//   growth[segments] (u32) | segment 0: array of growth 0, array of growth 1, ... | segment 1: ...
//
// States of an entry: 0, or (high half of the edge, run). Entries never move within an array. A segment that fills up
// gets a larger array, filled before it is shown; a reader that found nothing and sees another array than before looks
// again, and what an old array still shows is checked as always.
//
// Thread-safety: may be called from any thread. A reader holds nothing: it sees an entry before or after it changed,
// and checks the run that it names.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "concurrency/race_point.h"
#include "index/run.h"

namespace rhizome {

// Where the arrays of an edge table lie.
class EdgeShape {
 public:
  // A table that begins with a page a segment and grows as it must, up to a place for almost any number of runs that
  // an arena of so many units can hold.
  static EdgeShape growing(uint32_t units);
  // One array a segment, all of it there from the beginning, for as many runs as such an arena holds of an ordinary
  // length: for memory that cannot be given back piece by piece.
  static EdgeShape fixed(uint32_t units);

  uint64_t segments() const { return segment_mask_ + 1; }
  uint64_t bytes() const;

 private:
  friend class EdgeReader;
  friend class EdgeTable;

  struct Extent {
    uint64_t offset;  // in buckets, from the segment's first
    uint32_t buckets;
  };

  uint64_t first_bucket_bytes() const;

  uint64_t segment_mask_ = 0;
  uint64_t stride_ = 0;          // buckets of a segment
  std::vector<Extent> extents_;  // by growth
};

class EdgeReader {
 public:
  // `memory` has shape.bytes() and outlives the reader. What is read there may be anything.
  EdgeReader(const std::byte* memory, EdgeShape shape);

  // Calls visit(RunId) for each run that may be behind the edge, until one returns true.
  template <class Visit>
  bool find(uint64_t edge, Visit visit) const {
    const uint64_t segment = segment_of(edge);
    uint32_t growth = growth_of(segment);
    for (;;) {
      RHIZOME_RACE_POINT("index.edges.probe");
      if (probe(array(segment, growth), edge, visit)) return true;
      const uint32_t now = growth_of(segment);
      if (now <= growth) return false;  // it never shrinks
      growth = now;
    }
  }

  void prefetch(uint64_t edge) const {
    const uint64_t segment = segment_of(edge);
    const Array buckets = array(segment, growth_of(segment));
    __builtin_prefetch(&buckets.first[home(buckets, edge)]);
  }

 protected:
  static constexpr size_t kEntries = 7;
  static constexpr uint32_t kProbesMax = 32;

  struct alignas(64) Bucket {
    std::array<std::atomic<uint64_t>, kEntries> entries;
    std::atomic<uint64_t> passed_over;
  };
  static_assert(sizeof(Bucket) == 64);
  struct Array {
    const Bucket* first;
    uint32_t buckets;
  };

  static uint32_t high_half(uint64_t edge) { return static_cast<uint32_t>(edge >> 32); }
  static uint32_t home(const Array& array, uint64_t edge) {
    return static_cast<uint32_t>(uint64_t{static_cast<uint32_t>(edge)} * array.buckets >> 32);
  }
  uint64_t segment_of(uint64_t edge) const { return edge & shape_.segment_mask_; }
  uint32_t growth_of(uint64_t segment) const {
    const uint32_t growth = growth_[segment].load(std::memory_order_acquire);  // pairs with EdgeTable::grow()
    return growth < shape_.extents_.size() ? growth : 0;
  }
  Array array(uint64_t segment, uint32_t growth) const {
    const EdgeShape::Extent& extent = shape_.extents_[growth];
    return {buckets_ + segment * shape_.stride_ + extent.offset, extent.buckets};
  }
  const EdgeShape& shape() const { return shape_; }

 private:
  template <class Visit>
  static bool probe(const Array& array, uint64_t edge, Visit& visit) {
    uint32_t bucket = home(array, edge);
    for (uint32_t probes = 0; probes < kProbesMax; ++probes) {
      const Bucket& line = array.first[bucket];
      for (const std::atomic<uint64_t>& slot : line.entries) {
        const uint64_t entry = slot.load(std::memory_order_acquire);  // pairs with EdgeTable::put(): the run is filled
        if (high_half(entry) == high_half(edge) && visit(static_cast<RunId>(entry))) return true;
      }
      if (line.passed_over.load(std::memory_order_relaxed) == 0) return false;
      bucket = bucket + 1 == array.buckets ? 0 : bucket + 1;
    }
    return false;
  }

  EdgeShape shape_;
  const std::atomic<uint32_t>* growth_;
  const Bucket* buckets_;
};

}  // namespace rhizome
