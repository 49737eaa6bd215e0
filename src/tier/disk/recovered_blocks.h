// What was found when the store was opened, by keyspace, until somebody has rebuilt his index from it.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "concurrency/mutex.h"
#include "tier/disk/disk_index.h"
#include "tier/disk/disk_tier.h"
#include "tier/disk/segment_entries.h"

namespace rhizome {

class RecoveredBlocks {
 public:
  void add(uint32_t segment, const SegmentEntries& entries);
  std::vector<Digest> keyspaces() const;
  // Those of which `index` still says that they lie where they were found.
  void for_each(const Digest& keyspace, const DiskIndex& index,
                const std::function<void(const RecoveredBlock&)>& take) const;
  void forget(const Digest& keyspace);
  // Forgets until no more than so many bytes are kept: whole keyspaces, the one first that was written to longest ago,
  // and of the last one the blocks farthest from the beginning of a prompt.
  void bound(uint64_t bytes_max);
  uint64_t bytes() const;

 private:
  struct Block {
    BlockKey key;
    BlockKey parent;
    RecordPlace place;
    uint32_t position = 0;
    uint32_t tokens_count = 0;
    uint64_t tokens_first = 0;
    bool is_partial = false;
  };
  struct OfKeyspace {
    std::vector<Block> blocks;
    std::vector<Token> tokens;  // of all of them
    uint64_t last_lsn = 0;

    uint64_t bytes() const { return blocks.capacity() * sizeof(Block) + tokens.capacity() * sizeof(Token); }
    void add(const Block& block, std::span<const Token> its_tokens);
    RecoveredBlock shown(const Block& block) const;
    OfKeyspace first(uint64_t bytes_max) const;
  };

  mutable Mutex mutex_;
  std::map<Digest, OfKeyspace> keyspaces_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rhizome
