// What was found when the store was opened, by keyspace, until somebody has rebuilt his index from it.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "concurrency/mutex.h"
#include "tier/disk/disk_index.h"
#include "tier/disk/disk_tier.h"
#include "tier/disk/segment_entries.h"

namespace rhizome {

class RecoveredBlocks {
 public:
  void add(uint32_t segment, SegmentEntries entries);
  std::vector<Digest> keyspaces() const;
  // Those of which `index` still says that they lie where they were found.
  void for_each(const Digest& keyspace, const DiskIndex& index,
                const std::function<void(const RecoveredBlock&)>& take) const;
  void clear();

 private:
  struct OfSegment {
    uint32_t segment = 0;
    SegmentEntries entries;
  };

  mutable Mutex mutex_;
  std::vector<OfSegment> segments_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
