#include "index/cached_blocks.h"

#include <algorithm>

#include "contract/check.h"

namespace rhizome {

CachedBlocks::CachedBlocks(uint32_t entries_max)
    : entries_max_(entries_max), entries_(std::make_unique<Entry[]>(entries_max)) {
  // kNoBlock is no entry.
  RHIZOME_CHECK(entries_max > 0 && entries_max < kNoBlock);
}

bool CachedBlocks::take(std::span<const uint32_t> blocks, std::span<Location> entries) {
  RHIZOME_CHECK(blocks.size() == entries.size());
  {
    MutexLock lock(mutex_);
    if (returned_.size() + (entries_max_ - used_) < entries.size()) return false;
    const size_t again = std::min(returned_.size(), entries.size());
    std::copy_n(returned_.end() - static_cast<std::ptrdiff_t>(again), again, entries.begin());
    returned_.resize(returned_.size() - again);
    for (Location& entry : entries.subspan(again))
      entry = used_++;
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    entries_[entries[i]].block.store(blocks[i], std::memory_order_relaxed);
    entries_[entries[i]].disk_block_id.store(kNoBlock, std::memory_order_relaxed);
  }
  return true;
}

void CachedBlocks::give_back(std::span<const Location> entries) {
  if (entries.empty()) return;
  MutexLock lock(mutex_);
  returned_.insert(returned_.end(), entries.begin(), entries.end());
  RHIZOME_CHECK(returned_.size() <= used_);
}

bool CachedBlocks::name_on_disk(Location entry, uint32_t disk_block_id) {
  if (disk_block_id == kNoBlock) return false;
  uint32_t none = kNoBlock;
  return entries_[entry].disk_block_id.compare_exchange_strong(none, disk_block_id, std::memory_order_relaxed);
}

uint64_t CachedBlocks::count() const {
  MutexLock lock(mutex_);
  return used_ - returned_.size();
}

}  // namespace rhizome
