// The index: which stretches of blocks are stored, and where. A tree of runs for each keyspace; tokens
// are compared, exactly, whatever their hashes say.
//
// A handle pins the deepest run that a look-up reached, and through it all runs above (a child keeps
// its parent). What is pinned is never evicted. Handles stay valid when others split their run.
//
// Thread-safety: everything here may be called from any thread; a Handle belongs to one thread at a
// time. Calls do not wait for anything but each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "block/reason.h"
#include "block/token.h"
#include "contract/result.h"

namespace rhizome {

// Where a block's bytes are: the number of a slot. The index stores it and gives it back, no more.
using Location = uint32_t;

// A keyspace's own tree. Zero is none; the first one that is opened is 1, the next 2, and so on.
struct Root {
  uint32_t value = 0;
  friend bool operator==(Root, Root) = default;
};

// A pin on a prefix. Move-only: whoever holds it gives it back once, by release() or into insert().
class Handle {
 public:
  Handle() = default;
  ~Handle();
  Handle(Handle&& other) noexcept : run_(std::exchange(other.run_, 0)), depth_(std::exchange(other.depth_, 0)) {}
  Handle& operator=(Handle&& other) noexcept;

  bool empty() const { return run_ == 0; }
  // Blocks of the prefix that the look-up or insert returned.
  uint32_t blocks() const { return depth_; }

  // For those who keep it as a number: the number is the pin from then on. 0 is an empty handle.
  static uint64_t pack(Handle handle);
  static Handle unpack(uint64_t packed);

 private:
  friend class Index;

  uint32_t run_ = 0;
  uint32_t depth_ = 0;
};

struct Match {
  Handle handle;        // pins the blocks; never empty for an opened root, even with no blocks
  uint32_t blocks = 0;  // found, from the beginning of the prompt
  // kFull, kPartialBlock (only less than a block is missing), kDiverged, kNeverStored.
  Reason reason = Reason::kNeverStored;
  // The first token that nothing covers. kDiverged: the first one that differs from every stored
  // continuation that was looked at; at a branch with many, that is only some of them.
  uint64_t stopped_at = 0;
};

struct Inserted {
  static constexpr uint32_t kNoSplit = UINT32_MAX;

  Handle handle;                 // pins all blocks of the tokens that were given
  uint32_t stored_before = 0;    // so many of the given blocks, at their beginning, were there already
  uint32_t split_at = kNoSplit;  // the block of the prompt before which a run was cut in two
};

struct IndexOptions {
  uint32_t block_tokens = 16;
  uint32_t roots_max = 4096;
  // Of a run and the block that continues it. Only for tests that want collisions; null: a good one.
  uint64_t (*hash)(uint32_t run, std::span<const Token> block) = nullptr;
};

struct IndexUsage {
  uint64_t blocks = 0;          // that look-ups can find
  uint64_t removed_blocks = 0;  // removed, and not reaped yet
  uint64_t runs = 0;
  uint64_t handles = 0;
  uint64_t roots = 0;
};

class Index {
 public:
  explicit Index(const IndexOptions& options);
  ~Index();

  // The tree of a keyspace, by its canonical encoding, of which every byte is compared.
  // kResourceExhausted: roots_max are open.
  Result<Root> open(std::span<const std::byte> encoding);

  // The longest stored prefix in whole blocks. `out` receives the locations and has room for all
  // whole blocks of `tokens`. A root that was not opened: an empty match with an empty handle.
  Match lookup(Root root, std::span<const Token> tokens, std::span<Location> out);

  // How many blocks lookup() would find. Takes no pin and counts as no use.
  uint32_t peek(Root root, std::span<const Token> tokens) const;

  // Stores blocks [first_block, first_block + locations.size()), whose last one ends `tokens` (given
  // from position 0). `handle` is from the same root and pins a prefix of the same tokens; it is
  // taken. canonical[i] is where that block is now; where it is not locations[i], somebody had
  // stored the block before, and locations[i] is still the caller's. The new handle pins what is stored
  // now: blocks that the old one pinned and that were removed meanwhile are let go.
  // On an error nothing changed and `handle` is still the caller's. kInvalidArgument: no blocks, or lengths that do
  // not fit together. kFailedPrecondition: a block before first_block is not stored, or a stale
  // handle. kResourceExhausted: no memory for it (evict first).
  Result<Inserted> insert(Handle& handle, std::span<const Token> tokens, uint32_t first_block,
                          std::span<const Location> locations, std::span<Location> canonical);

  // kFailedPrecondition: not a pin that exists; nothing changed. An empty handle is fine.
  Status release(Handle handle);

  // Forgets up to out.size() blocks that nobody pins and that nothing continues: least recently used
  // runs first, each from its end. Returns how many; their locations are the caller's again.
  size_t evict(std::span<Location> out);

  // Makes block `first_block` of the handle's prefix and all that continues it unreachable at once.
  // Returns how many blocks that was (0: somebody did it before). Their locations come out of reap().
  size_t remove(const Handle& handle, uint32_t first_block);

  // Locations of removed blocks that nobody pins any more; call it after remove() and release()
  // until it returns 0.
  size_t reap(std::span<Location> out);

  // Blocks under a root that handles pin now, removed ones included. May be counted lazily.
  uint64_t held_blocks(Root root) const;
  IndexUsage usage() const;

  // An upper bound of the memory that one block takes here, at worst.
  static uint64_t block_bytes_max(uint32_t block_tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rhizome
