#include "tier/disk/disk_index.h"

#include "tier/disk/record.h"

namespace rhizome {

std::optional<RecordPlace> DiskIndex::find(const BlockKey& key) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  return found->second.place;
}

std::optional<RecordPlace> DiskIndex::put(const BlockKey& key, const RecordPlace& place) {
  const MutexLock lock(mutex_);
  const auto [found, is_new] = entries_.try_emplace(key);
  std::optional<RecordPlace> before;
  if (!is_new) {
    before = found->second.place;
    bytes_ -= record_bytes(before->image_bytes);
  }
  found->second = {place, 0};
  bytes_ += record_bytes(place.image_bytes);
  return before;
}

bool DiskIndex::erase(const BlockKey& key, const RecordPlace& place) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || !(found->second.place == place)) return false;
  bytes_ -= record_bytes(place.image_bytes);
  entries_.erase(found);
  return true;
}

void DiskIndex::count_read(const BlockKey& key, const RecordPlace& place) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found != entries_.end() && found->second.place == place) ++found->second.reads;
}

std::optional<uint32_t> DiskIndex::reads(const BlockKey& key, uint32_t segment) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.place.segment != segment) return std::nullopt;
  return found->second.reads;
}

void DiskIndex::clear() {
  const MutexLock lock(mutex_);
  entries_.clear();
  bytes_ = 0;
}

uint64_t DiskIndex::images() const {
  const MutexLock lock(mutex_);
  return entries_.size();
}

uint64_t DiskIndex::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace rhizome
