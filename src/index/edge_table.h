// The edge table: the entries that EdgeReader finds, one a run, put there and taken out.
//
// Writers hold the segment's lock.
//
// Thread-safety: find() from any thread; the rest with the lock of the edge's segment held.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "concurrency/spin.h"
#include "index/arena.h"
#include "index/edge_reader.h"
#include "index/run.h"
#include "machine/mapping.h"

namespace rhizome {

class EdgeTable : public EdgeReader {
 public:
  // In memory of its own it grows; in `memory`, EdgeShape::fixed() bytes of zeros that outlive the table, it does not.
  // `arena` must outlive the table, which reads the edges of runs.
  explicit EdgeTable(const Arena& arena, std::byte* memory = nullptr);

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
  struct alignas(64) Segment {
    SpinLock lock;
    uint32_t count = 0;  // entries; under the lock
  };
  struct Writable {
    Bucket* first;
    uint32_t buckets;
    operator Array() const { return {first, buckets}; }
  };

  EdgeTable(const Arena& arena, std::byte* memory, Mapping own, const EdgeShape& shape);

  Segment& segment(uint64_t edge) { return segments_[segment_of(edge)]; }
  std::atomic<uint32_t>& growth(uint64_t segment) { return reinterpret_cast<std::atomic<uint32_t>*>(memory_)[segment]; }
  Writable writable(uint64_t segment, uint32_t growth) {
    const Array found = array(segment, growth);
    return {const_cast<Bucket*>(found.first), found.buckets};
  }
  Writable current(uint64_t edge) { return writable(segment_of(edge), growth_of(segment_of(edge))); }

  static bool put(const Writable& array, uint64_t edge, RunId id);
  static std::atomic<uint64_t>* find_entry(const Writable& array, uint64_t edge, RunId id, uint32_t& bucket);
  bool grow(uint64_t segment);

  const Arena& arena_;
  Mapping own_;  // empty: the memory is somebody else's
  std::byte* const memory_;
  std::vector<Segment> segments_;
};

}  // namespace rhizome
