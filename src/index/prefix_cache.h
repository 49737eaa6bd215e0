// Prefixes of prompts, and the blocks of an engine's own pool that hold their KV: what is stored, who uses it, what may
// go. The cache moves no bytes and owns no block: it says when the caller's reference counts have to change.
//
//   lookup  ->  (compute what is missing)  ->  insert  ->  raise what it says  ->  ...  ->  release
//   lookup  ->  (changed one's mind)       ->  release_matched
//   evict or reap  ->  lower what they say
//
// The references that the cache asks for are those of the blocks it stores, not of the blocks that a sequence came
// with: who inserts what is stored already keeps his duplicate to himself.
//
// A partial tail belongs to the block before it: one each, given back with it, once. The newest one replaces the one
// before, unless it says nothing new or a handle holds that one. Since others read a stored block, tail or not, whoever
// wants to write on into it copies it first, the one who inserted it included.
//
// Thread-safety: everything here may be called from any thread. lookup(), peek() and resume() take no lock unless
// partial tails are on. insert() and extend() wait for clear(), close(), start_epoch(), and for each other for the
// moment of taking entries. evict() and reap() wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "block/token.h"
#include "contract/result.h"
#include "index/index_types.h"
#include "index/prefix_cache_types.h"

namespace rhizome {

class PrefixCache {
 public:
  // Aborts for a block size that is not 1 to 256, or no blocks.
  explicit PrefixCache(const PrefixCacheOptions& options);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // False: open() gives a root, everything else is empty, and nothing is counted.
  bool is_active() const { return state_ != nullptr; }
  uint32_t block_tokens() const { return block_tokens_; }

  // The keyspace's tree, made at its first use. kResourceExhausted: roots_max are open, or no memory.
  // kInvalidArgument: a part of 4 GiB.
  Result<Root> open(const KeyspaceParts& parts);
  // Forgets a keyspace (close) or its blocks (clear); all of them, of all keyspaces, because the weights are new
  // (start_epoch). Nothing of it is found any more, and what was looked up before is not stored afterwards. The blocks
  // come out of reap() when no handle holds them. kNotFound: not open.
  Status close(Root root);
  Status clear(Root root);
  void start_epoch();

  // The longest stored prefix. A root that is not open: nothing found. Aborts when there is less room than blocks.
  PrefixMatch lookup(Root root, std::span<const Token> tokens, const MatchRoom& room);
  // Tokens that whole blocks would cover. Counts nothing, holds nothing, and is no use in the sense of "used last".
  uint64_t peek(Root root, std::span<const Token> tokens) const;
  // Goes on where the handle's blocks end (a tail that it holds is asked for again): `rest` begins there, and so does
  // `room`. The handle is taken; the match speaks of all blocks, its own and those found now. Costs what the rest
  // costs. Nothing found, the handle's own blocks included: the keyspace was cleared since. Counts as a look-up.
  // Aborts for a handle of another cache.
  PrefixMatch resume(PrefixHandle& handle, std::span<const Token> rest, const MatchRoom& room);

  // Stores the whole blocks of `tokens` from `first_block` on, and the tail. `handle` holds a prefix of the same
  // prompt, or nothing; after a look-up it should be the look-up's, hit or miss. It then holds all that was given. Less
  // than a block of tokens: nothing is stored. A disk id is taken where the cache has none so far. On an error nothing
  // changed. kInvalidArgument: lengths that do not fit together, a block or tail without a place, a handle that holds
  // more than the prompt. kFailedPrecondition: a block before first_block is not stored; a handle of another cache or
  // keyspace; a root that is not open; a keyspace that was cleared since the look-up. kResourceExhausted: no room for
  // all blocks that the handle does not hold (evict first).
  Result<PrefixInserted> insert(Root root, PrefixHandle& handle, std::span<const Token> tokens, uint32_t first_block,
                                const SequenceBlocks& given);
  // The same where the handle's blocks end: `rest` and what is given begin there. Costs what the rest costs.
  Result<PrefixInserted> extend(PrefixHandle& handle, std::span<const Token> rest, const SequenceBlocks& given);

  // An empty handle is fine. kFailedPrecondition: another cache's, which stays the caller's.
  Status release(PrefixHandle&& handle);
  // Gives back what a look-up of so many tokens holds, whatever others have stored behind it meanwhile.
  // kInvalidArgument: the handle holds more (something was inserted with it), and stays the caller's.
  Status release_matched(PrefixHandle&& handle, uint64_t matched_tokens);

  // Forgets up to so many blocks, those of reap() first, then blocks that nobody holds and nothing continues: least
  // recently used first, each run from its end. A block's tail comes on top.
  EvictedBlocks evict(size_t blocks_max);
  // Up to so many blocks of cleared keyspaces and earlier epochs that no handle holds any more.
  EvictedBlocks reap(size_t blocks_max);

  PrefixCounters counters() const;
  PrefixUsage usage() const;
  // Looks through everything.
  IndexPins pins() const;

 private:
  struct State;
  struct Addition;

  PrefixMatch finish_match(PrefixHandle handle, std::span<const Token> behind, size_t found, const MatchRoom& room);
  Result<PrefixInserted> add(Root root, PrefixHandle& handle, const Addition& addition);
  Status add_blocks(Root root, PrefixHandle& handle, const Addition& addition, PrefixInserted& out);
  EvictedBlocks give_up(std::span<const Location> entries);

  const uint32_t block_tokens_;
  std::unique_ptr<State> state_;  // none: not active
};

}  // namespace rhizome
