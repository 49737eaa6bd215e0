// A segment as the tier's own thread knows it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "block/block_key.h"
#include "machine/file_system.h"
#include "tier/disk/segment_entries.h"

namespace rhizome {

// kFree -> kPreparing -> kSpare -> kOpen -> kSealing -> kSealed -> kReclaiming -> kPreparing.
enum class SegmentState : uint8_t {
  kFree,        // nothing in it is of use
  kReclaiming,  // what is worth it is being written again elsewhere; then the rest is forgotten
  kPreparing,   // its header is being written
  kSpare,       // can be opened
  kOpen,        // is being written
  kSealing,     // its footer is being written
  kSealed,
  kBroken,  // could not be read or written: what it holds may be read, and it is never written again
};

// A place among the segments that is none.
inline constexpr uint32_t kNoSegment = UINT32_MAX;

struct Segment {
  uint32_t number = 0;  // in its name
  std::unique_ptr<File> file;
  SegmentState state = SegmentState::kFree;
  uint64_t generation = 0;
  uint32_t readers = 0;     // reads under way
  uint64_t data_end = 0;    // where the next record goes
  uint64_t sealed_lsn = 0;  // of its last record: who is oldest
  SegmentEntries entries;   // of one that is open or being sealed
  std::vector<BlockKey> keys;
};

}  // namespace rhizome
