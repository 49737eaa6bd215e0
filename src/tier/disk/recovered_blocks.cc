#include "tier/disk/recovered_blocks.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <utility>

namespace rhizome {
namespace {

RecoveredBlock block_of(const SegmentEntries& entries, const SegmentEntry& entry) {
  return {.key = entry.key,
          .parent = entry.parent,
          .position = entry.position,
          .is_partial = entry.is_partial,
          .image_bytes = entry.image_bytes,
          .tokens = entries.tokens(entry)};
}

}  // namespace

void RecoveredBlocks::add(uint32_t segment, SegmentEntries entries) {
  const MutexLock lock(mutex_);
  segments_.push_back({segment, std::move(entries)});
}

std::vector<Digest> RecoveredBlocks::keyspaces() const {
  const MutexLock lock(mutex_);
  std::vector<Digest> all;
  for (const OfSegment& one : segments_)
    all.insert(all.end(), one.entries.keyspaces().begin(), one.entries.keyspaces().end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

void RecoveredBlocks::for_each(const Digest& keyspace, const DiskIndex& index,
                               const std::function<void(const RecoveredBlock&)>& take) const {
  const MutexLock lock(mutex_);
  std::unordered_multimap<BlockKey, RecoveredBlock, BlockKeyHash> by_parent;
  for (const OfSegment& one : segments_) {
    for (const SegmentEntry& entry : one.entries.entries()) {
      if (!entry.has_identity || one.entries.keyspaces()[entry.keyspace] != keyspace) continue;
      const RecordPlace place{one.segment, entry.page, entry.image_bytes};
      if (index.find(entry.key) == place) by_parent.emplace(entry.parent, block_of(one.entries, entry));
    }
  }
  // From the root on: what no chain leads to is left out.
  std::deque<std::pair<BlockKey, uint64_t>> ends{{root_key(keyspace), 0}};
  while (!ends.empty()) {
    const auto [parent, position] = ends.front();
    ends.pop_front();
    const auto [first, last] = by_parent.equal_range(parent);
    for (auto child = first; child != last; ++child) {
      const RecoveredBlock& block = child->second;
      if (block.position != position || !(next_key(parent, block.tokens) == block.key)) continue;
      take(block);
      if (!block.is_partial) ends.emplace_back(block.key, position + block.tokens.size());
    }
    by_parent.erase(parent);
  }
}

void RecoveredBlocks::clear() {
  const MutexLock lock(mutex_);
  segments_.clear();
}

}  // namespace rhizome
