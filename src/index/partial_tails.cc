#include "index/partial_tails.h"

#include <algorithm>

#include "contract/check.h"

namespace rhizome {
namespace {

bool begins_with(std::span<const Token> tokens, std::span<const Token> head) {
  return tokens.size() >= head.size() && std::equal(head.begin(), head.end(), tokens.begin());
}

}  // namespace

PartialTail PartialTails::pin(Location parent, std::span<const Token> rest) {
  MutexLock lock(mutex_);
  const auto known = tails_.find(parent);
  if (known == tails_.end() || !begins_with(rest, known->second.tokens)) return {};
  Tail& tail = known->second;
  ++tail.pins;
  return {static_cast<uint32_t>(tail.tokens.size()), tail.block, tail.disk_block_id};
}

void PartialTails::unpin(Location parent) {
  MutexLock lock(mutex_);
  const auto known = tails_.find(parent);
  RHIZOME_CHECK(known != tails_.end() && known->second.pins > 0);
  --known->second.pins;
}

bool PartialTails::store(Location parent, std::span<const Token> tokens, uint32_t block, uint32_t disk_block_id,
                         InsertAcquired& acquired) {
  MutexLock lock(mutex_);
  Tail& tail = tails_[parent];
  const bool is_new = tail.tokens.empty();
  if (begins_with(tail.tokens, tokens)) {
    if (tail.tokens.size() > tokens.size()) return false;
    if (tail.disk_block_id == kNoBlock && disk_block_id != kNoBlock) {
      tail.disk_block_id = disk_block_id;
      acquired.disk_block_ids.push_back(disk_block_id);
    }
    ++tail.pins;
    return true;
  }
  if (tail.pins > 0) return false;
  // The same block again is the reference that the cache has already.
  if (is_new || tail.block != block) {
    acquired.blocks.push_back(block);
    if (!is_new) acquired.released_blocks.push_back(tail.block);
  }
  if (tail.disk_block_id != disk_block_id) {
    if (disk_block_id != kNoBlock) acquired.disk_block_ids.push_back(disk_block_id);
    if (tail.disk_block_id != kNoBlock) acquired.released_disk_block_ids.push_back(tail.disk_block_id);
  }
  tail = {{tokens.begin(), tokens.end()}, block, disk_block_id, 1};
  return true;
}

void PartialTails::take(Location parent, EvictedBlocks& evicted) {
  MutexLock lock(mutex_);
  const auto known = tails_.find(parent);
  if (known == tails_.end()) return;
  RHIZOME_CHECK(known->second.pins == 0);
  evicted.physical.push_back(known->second.block);
  if (known->second.disk_block_id != kNoBlock) evicted.disk_block_ids.push_back(known->second.disk_block_id);
  tails_.erase(known);
}

uint64_t PartialTails::count() const {
  MutexLock lock(mutex_);
  return tails_.size();
}

}  // namespace rhizome
