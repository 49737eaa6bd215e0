#include "tier/disk/recovered_blocks.h"

#include <algorithm>
#include <deque>
#include <set>
#include <unordered_map>
#include <utility>

namespace rhizome {
namespace {

// The bound moves a little at a time: what is cut is cut by more than it has to be, so that it is not cut each time.
constexpr uint64_t kSlackShare = 8;

}  // namespace

void RecoveredBlocks::OfKeyspace::add(const Block& block, std::span<const Token> its_tokens) {
  blocks.push_back(block);
  blocks.back().tokens_first = tokens.size();
  blocks.back().tokens_count = static_cast<uint32_t>(its_tokens.size());
  tokens.insert(tokens.end(), its_tokens.begin(), its_tokens.end());
}

RecoveredBlock RecoveredBlocks::OfKeyspace::shown(const Block& block) const {
  return {.key = block.key,
          .parent = block.parent,
          .position = block.position,
          .is_partial = block.is_partial,
          .image_bytes = block.place.image_bytes,
          .tokens = std::span(tokens).subspan(block.tokens_first, block.tokens_count)};
}

// A parent begins before its children do, so what is kept is kept with all that leads to it.
RecoveredBlocks::OfKeyspace RecoveredBlocks::OfKeyspace::first(uint64_t bytes_max) const {
  std::vector<uint32_t> order(blocks.size());
  for (uint32_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::ranges::stable_sort(order, {}, [this](uint32_t i) { return blocks[i].position; });
  uint64_t bytes = 0;
  uint64_t tokens_kept = 0;
  size_t count = 0;
  for (; count < order.size(); ++count) {
    const Block& block = blocks[order[count]];
    bytes += sizeof(Block) + block.tokens_count * sizeof(Token);
    if (bytes > bytes_max) break;
    tokens_kept += block.tokens_count;
  }
  OfKeyspace kept;
  kept.last_lsn = last_lsn;
  kept.blocks.reserve(count);
  kept.tokens.reserve(tokens_kept);
  for (size_t i = 0; i < count; ++i)
    kept.add(blocks[order[i]], shown(blocks[order[i]]).tokens);
  return kept;
}

void RecoveredBlocks::add(uint32_t segment, const SegmentEntries& entries) {
  const MutexLock lock(mutex_);
  std::set<Digest> touched;
  for (const SegmentEntry& entry : entries.entries()) {
    if (!entry.has_identity) continue;
    const Digest& keyspace = entries.keyspaces()[entry.keyspace];
    OfKeyspace& of = keyspaces_[keyspace];
    if (touched.insert(keyspace).second) bytes_ -= of.bytes();
    of.last_lsn = std::max(of.last_lsn, entry.lsn);
    of.add({.key = entry.key,
            .parent = entry.parent,
            .place = {segment, entry.page, entry.image_bytes},
            .position = entry.position,
            .is_partial = entry.is_partial},
           entries.tokens(entry));
  }
  for (const Digest& keyspace : touched)
    bytes_ += keyspaces_[keyspace].bytes();
}

std::vector<Digest> RecoveredBlocks::keyspaces() const {
  const MutexLock lock(mutex_);
  std::vector<Digest> all;
  for (const auto& [keyspace, of] : keyspaces_)
    all.push_back(keyspace);
  return all;
}

void RecoveredBlocks::for_each(const Digest& keyspace, const DiskIndex& index,
                               const std::function<void(const RecoveredBlock&)>& take) const {
  const MutexLock lock(mutex_);
  const auto found = keyspaces_.find(keyspace);
  if (found == keyspaces_.end()) return;
  std::unordered_multimap<BlockKey, RecoveredBlock, BlockKeyHash> by_parent;
  for (const Block& block : found->second.blocks) {
    if (index.find(block.key) == block.place) by_parent.emplace(block.parent, found->second.shown(block));
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

void RecoveredBlocks::forget(const Digest& keyspace) {
  const MutexLock lock(mutex_);
  const auto found = keyspaces_.find(keyspace);
  if (found == keyspaces_.end()) return;
  bytes_ -= found->second.bytes();
  keyspaces_.erase(found);
}

void RecoveredBlocks::bound(uint64_t bytes_max) {
  const MutexLock lock(mutex_);
  while (bytes_ > bytes_max) {
    const auto oldest =
        std::ranges::min_element(keyspaces_, {}, [](const auto& entry) { return entry.second.last_lsn; });
    bytes_ -= oldest->second.bytes();
    if (keyspaces_.size() == 1) {
      OfKeyspace kept = oldest->second.first(bytes_max - bytes_max / kSlackShare);
      if (!kept.blocks.empty()) {
        bytes_ += kept.bytes();
        oldest->second = std::move(kept);
        return;
      }
    }
    keyspaces_.erase(oldest);
  }
}

uint64_t RecoveredBlocks::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace rhizome
