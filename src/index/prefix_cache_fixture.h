// For tests of the prefix cache: the engine's side of it. Pools with the reference counts that the cache's caller
// keeps, and requests that use them the way an engine does.
//
// Thread-safety: the pools may be used from any thread, the rest belongs to one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "block/token.h"
#include "concurrency/mutex.h"
#include "index/prefix_cache.h"

namespace rhizome {

class BlockPool {
 public:
  explicit BlockPool(uint32_t blocks) : counts_(blocks, 0), contents_(blocks) {
    for (uint32_t block = blocks; block > 0; --block)
      free_.push_back(block - 1);
  }

  // kNoBlock: all are in use. The reference is the caller's.
  uint32_t take() {
    MutexLock lock(mutex_);
    if (free_.empty()) return kNoBlock;
    const uint32_t block = free_.back();
    free_.pop_back();
    wrong_ += counts_[block]++ != 0;
    return block;
  }
  void raise(std::span<const uint32_t> blocks) {
    MutexLock lock(mutex_);
    for (const uint32_t block : blocks)
      wrong_ += counts_[block]++ == 0;
  }
  void lower(std::span<const uint32_t> blocks) {
    MutexLock lock(mutex_);
    for (const uint32_t block : blocks) {
      if (counts_[block] == 0) {
        ++wrong_;
      } else if (--counts_[block] == 0) {
        contents_[block].store(0);
        free_.push_back(block);
      }
    }
  }

  uint32_t count(uint32_t block) {
    MutexLock lock(mutex_);
    return counts_[block];
  }
  size_t free_count() {
    MutexLock lock(mutex_);
    return free_.size();
  }
  size_t size() const { return contents_.size(); }
  // Uses of a block that nobody had a reference of.
  uint64_t wrong() {
    MutexLock lock(mutex_);
    return wrong_;
  }
  // A number that stands for what is written in the block.
  std::atomic<uint64_t>& content(uint32_t block) { return contents_[block]; }

 private:
  Mutex mutex_;
  std::vector<uint32_t> counts_ GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ GUARDED_BY(mutex_);
  uint64_t wrong_ GUARDED_BY(mutex_) = 0;
  std::vector<std::atomic<uint64_t>> contents_;
};

// Both of a cache's kinds of references.
struct Pools {
  BlockPool blocks;
  BlockPool disk;

  explicit Pools(uint32_t count) : blocks(count), disk(count) {}

  void apply(const InsertAcquired& acquired) {
    disk.raise(acquired.disk_block_ids);
    blocks.raise(acquired.blocks);
    blocks.lower(acquired.released_blocks);
    disk.lower(acquired.released_disk_block_ids);
  }
  void apply(const EvictedBlocks& evicted) {
    blocks.lower(evicted.physical);
    disk.lower(evicted.disk_block_ids);
  }
  uint64_t wrong() { return blocks.wrong() + disk.wrong(); }
  bool all_free() { return blocks.free_count() == blocks.size() && disk.free_count() == disk.size(); }
};

// A look-up with room of its own.
struct Found {
  PrefixMatch match;
  std::vector<uint32_t> blocks;
  std::vector<uint32_t> disk_block_ids;
};

inline Found look_up(PrefixCache& cache, Root root, std::span<const Token> tokens) {
  Found found;
  found.blocks.resize(tokens.size() / cache.block_tokens());
  found.disk_block_ids.resize(found.blocks.size());
  found.match = cache.lookup(root, tokens, {found.blocks, found.disk_block_ids});
  found.blocks.resize(found.match.blocks);
  found.disk_block_ids.resize(found.match.blocks);
  return found;
}

inline Found resume(PrefixCache& cache, PrefixHandle& handle, std::span<const Token> rest) {
  Found found;
  const uint32_t before = handle.blocks();
  found.blocks.resize(rest.size() / cache.block_tokens());
  found.disk_block_ids.resize(found.blocks.size());
  found.match = cache.resume(handle, rest, {found.blocks, found.disk_block_ids});
  found.blocks.resize(found.match.blocks - std::min(before, found.match.blocks));
  found.disk_block_ids.resize(found.blocks.size());
  return found;
}

using Blocks = std::vector<uint32_t>;
using Tokens = std::vector<Token>;

inline constexpr uint32_t kBlock = 4;
inline const Tokens kEight{1, 2, 3, 4, 5, 6, 7, 8};
inline const Tokens kTwelve{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

inline PrefixCacheOptions small(bool partial_tails = false) {
  return {.block_tokens = kBlock,
          .blocks_max = 100,
          .roots_max = 40,
          .partial_tails = partial_tails,
          .recency = Recency::kExact};
}

// A cache and a caller that keeps reference counts.
class PrefixCacheTest : public testing::Test {
 protected:
  explicit PrefixCacheTest(const PrefixCacheOptions& options = small()) : cache_(options), base_(*cache_.open({})) {}

  // What one request did: its own references, and its handle.
  struct Request {
    PrefixHandle handle;
    Blocks blocks;  // of which it holds a reference
    InsertAcquired acquired;
    uint32_t matched = 0;
  };

  // Looks up, computes what is missing in blocks of its own, stores it, as an engine does.
  Request run(Root root, const Tokens& tokens) {
    Request request;
    Found found = look_up(cache_, root, tokens);
    request.matched = found.match.blocks;
    request.blocks = found.blocks;
    pools_.blocks.raise(found.blocks);
    SequenceBlocks given;
    Blocks fresh;
    for (size_t i = found.match.blocks; i < tokens.size() / kBlock; ++i)
      fresh.push_back(pools_.blocks.take());
    given.blocks = fresh;
    if (tokens.size() % kBlock != 0 && found.match.tail.tokens == 0) {
      given.tail_block = pools_.blocks.take();
      request.blocks.push_back(given.tail_block);
    }
    request.handle = std::move(found.match.handle);
    Result<PrefixInserted> inserted = cache_.insert(root, request.handle, tokens, found.match.blocks, given);
    EXPECT_TRUE(inserted);
    pools_.apply(inserted->acquired);
    request.acquired = inserted->acquired;
    request.blocks.insert(request.blocks.end(), fresh.begin(), fresh.end());
    return request;
  }

  void finish(Request request) {
    EXPECT_TRUE(cache_.release(std::move(request.handle)));
    pools_.blocks.lower(request.blocks);
  }

  void store(Root root, const Tokens& tokens) { finish(run(root, tokens)); }

  uint64_t matched(Root root, const Tokens& tokens) {
    Found found = look_up(cache_, root, tokens);
    last_found_ = found.blocks;
    EXPECT_TRUE(cache_.release(std::move(found.match.handle)));
    return found.match.matched_tokens;
  }

  Blocks evict(size_t count) {
    EvictedBlocks evicted = cache_.evict(count);
    pools_.apply(evicted);
    return evicted.physical;
  }

  // The rule of every test: in the end nobody holds anything, and every reference is back.
  void TearDown() override {
    EXPECT_EQ(cache_.pins().handles, 0u);
    evict(1000);
    EXPECT_EQ(cache_.usage().entries, 0u);
    EXPECT_EQ(cache_.usage().tails, 0u);
    EXPECT_EQ(pools_.wrong(), 0u);
    EXPECT_TRUE(pools_.all_free());
  }

  PrefixCache cache_;
  Pools pools_{1000};
  Root base_;
  Blocks last_found_;
};

}  // namespace rhizome
