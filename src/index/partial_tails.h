// The ends of prompts that fill no block, each behind a stored block (its parent, an entry of CachedBlocks).
//
// States of a parent: no tail; a tail that n handles hold. A tail is replaced only while n is 0, and goes when its
// parent goes, which no handle holds then.
//
// Thread-safety: may be called from any thread. The caller holds the parent, but for take().
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "block/token.h"
#include "concurrency/mutex.h"
#include "index/index_types.h"
#include "index/prefix_cache_types.h"

namespace rhizome {

class PartialTails {
 public:
  // Pins the parent's tail if `rest` begins with all of it; otherwise nothing, and no tokens.
  PartialTail pin(Location parent, std::span<const Token> rest) EXCLUDES(mutex_);
  void unpin(Location parent) EXCLUDES(mutex_);
  // Makes `tokens` the parent's tail unless the present one begins with them or is pinned, and tells `acquired` what
  // to raise and to lower. Whether the tail is what was given and is now pinned.
  bool store(Location parent, std::span<const Token> tokens, uint32_t block, uint32_t disk_block_id,
             InsertAcquired& acquired) EXCLUDES(mutex_);
  // The parent is gone. Appends its tail, if it has one, to what was evicted.
  void take(Location parent, EvictedBlocks& evicted) EXCLUDES(mutex_);

  uint64_t count() const EXCLUDES(mutex_);

 private:
  struct Tail {
    std::vector<Token> tokens;
    uint32_t block = kNoBlock;
    uint32_t disk_block_id = kNoBlock;
    uint32_t pins = 0;
  };

  mutable Mutex mutex_;
  std::unordered_map<Location, Tail> tails_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
