// One entry for each block that a prefix cache stores: what the index calls its location. An entry says where the
// block is in the engine's pool and under which id it is on disk.
//
// Thread-safety: may be called from any thread. An entry is written before the index shows it to anybody, and returned
// when nobody can see it any more; only its disk id changes in between, once, from none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "concurrency/mutex.h"
#include "index/index_types.h"
#include "index/prefix_cache_types.h"

namespace rhizome {

class CachedBlocks {
 public:
  explicit CachedBlocks(uint32_t entries_max);

  // An entry for each of `blocks`, or none at all.
  bool take(std::span<const uint32_t> blocks, std::span<Location> entries) EXCLUDES(mutex_);
  void give_back(std::span<const Location> entries) EXCLUDES(mutex_);

  uint32_t block(Location entry) const { return entries_[entry].block.load(std::memory_order_relaxed); }
  uint32_t disk_block_id(Location entry) const { return entries_[entry].disk_block_id.load(std::memory_order_relaxed); }
  // Whether the entry has this disk id now and had none before.
  bool name_on_disk(Location entry, uint32_t disk_block_id);

  uint64_t count() const EXCLUDES(mutex_);

 private:
  struct Entry {
    std::atomic<uint32_t> block;
    std::atomic<uint32_t> disk_block_id;
  };

  const uint32_t entries_max_;
  const std::unique_ptr<Entry[]> entries_;
  mutable Mutex mutex_;
  uint32_t used_ GUARDED_BY(mutex_) = 0;  // entries from here on were never taken
  std::vector<Location> returned_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
