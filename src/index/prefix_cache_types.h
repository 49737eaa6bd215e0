// What goes into a PrefixCache and what comes out of it.
//
// Thread-safety: values; a PrefixHandle belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "index/index_types.h"

namespace rhizome {

class PrefixCache;

// No block, and no disk id.
inline constexpr uint32_t kNoBlock = UINT32_MAX;

// Everything but the tokens that a block depends on. Two sets of parts that differ in anything are two keyspaces.
struct KeyspaceParts {
  std::span<const std::byte> base = {};  // what all requests have in common: Keyspace::encoding(), or nothing
  uint64_t adapter = 0;                  // 0: none
  // Whatever tells the request's images, sounds and masks from others, whose placeholder tokens are the same: their
  // whole digests in order. Nothing: no media.
  std::span<const std::byte> media = {};
};

// The parts with their tags and lengths, so that no two different sets of parts give the same bytes.
std::vector<std::byte> encode(const KeyspaceParts& parts);

// A pin on what a look-up found or an insert stored; also remembers, when it found nothing, in which epoch that was.
// Move-only: whoever holds it gives it back once.
class PrefixHandle {
 public:
  PrefixHandle() = default;
  PrefixHandle(PrefixHandle&& other) noexcept
      : pin_(std::move(other.pin_)),
        cache_(std::exchange(other.cache_, nullptr)),
        root_(other.root_),
        generation_(other.generation_),
        last_(std::exchange(other.last_, kNoBlock)),
        holds_tail_(std::exchange(other.holds_tail_, false)) {}
  PrefixHandle& operator=(PrefixHandle&& other) noexcept;

  // Whether it pins nothing.
  bool empty() const { return pin_.empty(); }
  uint32_t blocks() const { return pin_.blocks(); }

 private:
  friend class PrefixCache;

  Handle pin_;
  const PrefixCache* cache_ = nullptr;
  Root root_;
  uint64_t generation_ = 0;
  Location last_ = kNoBlock;  // of the deepest block
  bool holds_tail_ = false;   // the tail behind the deepest block is pinned, too
};

// Where a look-up writes. `blocks` has room for all whole blocks of the tokens that are asked for, and so has
// `disk_block_ids`, unless it is empty because nobody wants those.
struct MatchRoom {
  std::span<uint32_t> blocks = {};
  std::span<uint32_t> disk_block_ids = {};
};

// The end of a prompt that fills no block.
struct PartialTail {
  uint32_t tokens = 0;
  uint32_t block = kNoBlock;
  uint32_t disk_block_id = kNoBlock;
};

struct PrefixMatch {
  PrefixHandle handle;
  uint32_t blocks = 0;          // from the beginning of the prompt
  uint64_t matched_tokens = 0;  // covered by those blocks and the tail; not one more
  PartialTail tail;             // its block is shared: read or copied, never written

  bool must_copy() const { return tail.tokens > 0; }
};

// What an insert brings along.
struct SequenceBlocks {
  std::span<const uint32_t> blocks = {};          // where each block is
  std::span<const uint32_t> disk_block_ids = {};  // as many, kNoBlock for those that are on no disk; or empty
  // Where the tokens behind the last whole block are. Looked at only when partial tails are on.
  uint32_t tail_block = kNoBlock;
  uint32_t tail_disk_block_id = kNoBlock;
};

// References that are the caller's to change, each by one, before it gives the handle back: until then nobody else
// is told to undo them. First raise, then lower.
struct InsertAcquired {
  std::vector<uint32_t> disk_block_ids;           // raise: the cache has begun to name them
  std::vector<uint32_t> blocks;                   // raise: the cache has begun to store them; nobody writes them now
  std::vector<uint32_t> released_blocks;          // lower: the cache has ceased to store them
  std::vector<uint32_t> released_disk_block_ids;  // lower
};

struct PrefixInserted {
  InsertAcquired acquired;
  // The blocks that the cache stores in the places that were given; where one is another than the one that was given,
  // that one is a duplicate, which the cache knows nothing of.
  std::vector<uint32_t> canonical;
  uint32_t stored_before = 0;              // so many of them, at their beginning, were stored already
  uint32_t split_at = Inserted::kNoSplit;  // the block of the prompt before which a run was cut in two
};

// Blocks that the cache stores no more, tails among them. Lower each by one.
struct EvictedBlocks {
  std::vector<uint32_t> physical;
  std::vector<uint32_t> disk_block_ids;
};

struct PrefixCounters {
  uint64_t lookups = 0;
  uint64_t hits = 0;    // that found a block
  uint64_t misses = 0;  // that found none
};

struct PrefixUsage {
  uint64_t blocks = 0;          // that look-ups can find, and those of cleared keyspaces that nobody has met yet
  uint64_t removed_blocks = 0;  // of cleared keyspaces and earlier epochs, not given back yet
  uint64_t tails = 0;
  uint64_t entries = 0;  // of PrefixCacheOptions::blocks_max
};

struct PrefixCacheOptions {
  bool active = true;  // otherwise nothing is ever stored or found
  uint32_t block_tokens = 16;
  uint32_t blocks_max = 1u << 16;  // more are never stored
  uint32_t roots_max = 4096;
  uint64_t index_bytes = 1ull << 30;
  // Stores the end of a prompt that fills no block. Only for callers that copy before they write (PrefixMatch::tail).
  bool partial_tails = false;
  Recency recency = Recency::kTicks;
  const Kernels* kernels = nullptr;  // IndexOptions::kernels
};

// How much of a match an engine may use that has to compute at least the last `tail` tokens of the prompt (0 counts as
// 1, because the last token's logits are always needed): whole blocks, or all that matched.
uint64_t usable_tokens(uint64_t matched_tokens, uint64_t prompt_tokens, uint64_t tail, uint32_t block_tokens);

}  // namespace rhizome
