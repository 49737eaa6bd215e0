// Opens a directory: takes the lock, finds out what is in the segments, allocates them all, fills the index.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/result.h"
#include "tier/disk/disk_device.h"
#include "tier/disk/segment.h"

namespace rhizome {

struct SegmentPool {
  std::vector<Segment> segments;
  uint64_t segment_bytes = 0;
  uint64_t next_lsn = 1;
  uint64_t next_generation = 1;
  uint32_t open = kNoSegment;  // one that is written on; its place in `segments`
  uint64_t left_alone = 0;     // files of another version
  uint64_t recovered_images = 0;
};

// What `options` ask for, when there is nothing yet.
uint64_t choose_segment_bytes(const DiskTierOptions& options);

// As DiskTier::open(). Into device: the lock, the index, what was recovered.
Result<SegmentPool> open_segment_pool(DiskDevice& device);

}  // namespace rhizome
