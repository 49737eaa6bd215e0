// Runs as a reader sees them: in memory of this process, or in a read-only mapping of another one's.
//
// Nothing that is read is trusted: numbers of runs, windows and payloads are checked to lie in the arena, and what was
// being changed is read again or not at all. What a payload says holds only if the run's `ver` is the same afterwards.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "index/edge_reader.h"
#include "index/index_types.h"
#include "index/run.h"

namespace rhizome {

class RunReader {
 public:
  // `memory` holds `units` units and outlives the reader, as does `edges`. `payload_bytes` are those of one block.
  RunReader(const std::byte* memory, uint32_t units, uint64_t payload_bytes, const EdgeReader& edges)
      : memory_(memory), units_(units), payload_bytes_(payload_bytes), edges_(&edges) {}

  // Whether a run of so many units could begin there.
  bool contains(RunId id, uint64_t units) const { return id != 0 && id + units <= units_; }
  const Run& at(RunId id) const { return reinterpret_cast<const Run*>(memory_)[id]; }
  const EdgeReader& edge_reader() const { return *edges_; }

  // The payload of `capacity` blocks lies behind so many bytes of locations.
  static uint64_t payload_offset(uint64_t capacity) { return (capacity * sizeof(Location) + 7) / 8 * 8; }
  uint64_t units_for(uint64_t capacity) const {
    return 1 + (payload_offset(capacity) + capacity * payload_bytes_ + kUnitBytes - 1) / kUnitBytes;
  }

  // The location and the payload of block `depth` of a run that was read.
  const Location* locations(const RunView& run, uint32_t depth) const {
    return reinterpret_cast<const Location*>(behind(run.owner)) + run.base + (depth - run.start);
  }
  const std::byte* payload(const RunView& run, uint32_t depth) const {
    return behind(run.owner) + payload_offset(run.capacity) + uint64_t{run.base + (depth - run.start)} * payload_bytes_;
  }

  // The run as it is at one moment. False when it is being changed for too long, or what it says cannot be.
  bool read(RunId id, RunView& out) const;
  // The same for the child of `parent` that begins at block `depth`, starting from a run that is it or lies below it.
  bool read_child(RunId id, RunId parent, uint32_t depth, RunView& out) const;
  // The run on the path to `id` that block `depth` lies in or that ends there. The caller pins `id`.
  bool read_above(RunId id, uint32_t depth, RunView& out) const;

 protected:
  uint64_t payload_bytes() const { return payload_bytes_; }

 private:
  static constexpr int kReadTriesMax = 128;

  const std::byte* behind(RunId id) const { return memory_ + (uint64_t{id} + 1) * kUnitBytes; }

  const std::byte* memory_;
  uint32_t units_;
  uint64_t payload_bytes_;
  const EdgeReader* edges_;
};

}  // namespace rhizome
