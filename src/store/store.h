// The store: where index and slab meet. It keeps the two in step, makes room, checks what it reads,
// and counts what happens.
//
// A slot holds a block's identity (block/identity.h) and behind it the payload, both under one
// checksum. Nothing is found before it is committed; nothing that does not verify is handed out.
//
// Thread-safety: everything here may be called from any thread. A StoredPrefix and a BlockDraft belong to one
// thread at a time and must not outlive the store. No call waits for another one's copying or hashing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "block/block_key.h"
#include "block/identity.h"
#include "block/keyspace.h"
#include "concurrency/mutex.h"
#include "index/index.h"
#include "slab/slab.h"
#include "store/block_draft.h"
#include "telemetry/counters.h"

namespace rhizome {

struct StoreOptions {
  uint64_t memory_bytes = 0;  // hard budget of slots and of what describes them
  uint32_t block_tokens = 16;
  uint32_t keyspaces_max = 4096;  // fewer when the budget is small
  uint64_t index_bytes_max = 0;   // for tests: what the index may use at most; 0: what the budget pays for
};

// What a look-up found.
struct StoredPrefix {
  Handle handle;  // pins the blocks; empty when there are none
  uint32_t blocks = 0;
  Reason reason = Reason::kNeverStored;  // why it stopped there
};

class Store {
 public:
  // kInvalidArgument: a block size that is not offered, or a budget too small for anything.
  // `counters` must outlive the store, which keeps the gauges of the slab there.
  static Result<std::unique_ptr<Store>> create(const StoreOptions& options, Counters& counters);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  uint32_t block_tokens() const { return options_.block_tokens; }

  // The same keyspace always gives the same root. kInvalidArgument: no payload, or another size than
  // before. kResourceExhausted: one block does not fit the budget, or too many keyspaces.
  Result<Root> open(const Keyspace& keyspace, uint64_t payload_bytes);

  // The longest stored prefix; `locations` is resized to it. Its handle is given back by release(). Waits for nobody. A
  // root that was not opened: kNotCacheable.
  StoredPrefix lookup(Root root, std::span<const Token> prompt, std::vector<Location>& locations);

  // Blocks that lookup() would find; takes no pin and counts as no use.
  uint32_t peek(Root root, std::span<const Token> prompt) const;

  void release(Root root, Handle handle);

  // The payload of block `block` of a prefix, once its checksum agrees with its bytes and its identity
  // with what was asked for. `parent` is the key of the block before. Valid while `handle` is held.
  // kDataLoss: it did not verify; it and all that continues it have been forgotten.
  Result<std::span<const std::byte>> read(Root root, const Handle& handle, std::span<const Token> prompt,
                                          uint32_t block, Location location, const BlockKey& parent);

  // The key before position 0.
  BlockKey root_key_of(Root root) const;

  // Slots for the blocks of `tokens` (whole blocks, from position 0) from `first_block` on, less those
  // stored already; none when all are. Evicts to make room, and reserves fewer when that is not
  // enough. kInvalidArgument: an unknown root, or not a whole number of at least first_block blocks.
  // kFailedPrecondition: a block before `first_block` is not stored. kResourceExhausted: no room for
  // one block, all is pinned.
  Result<BlockDraft> reserve(Root root, std::span<const Token> tokens, uint32_t first_block);

  // Publishes the draft's blocks. Where somebody else was first, theirs stay and ours are given back;
  // the same when a block before them was forgotten meanwhile. Returns how many became visible.
  size_t commit(BlockDraft draft);

  // Forgets everything that nobody pins. Returns how many blocks that was.
  size_t clear();

  SlabUsage slab_usage() const { return slab_->usage(); }
  IndexUsage index_usage() const { return index_.usage(); }

 private:
  friend class BlockDraft;
  friend class StoreTestAccess;

  struct Opened {
    Root root;
    Digest digest{};
    BlockKey root_key;
    uint64_t slot_bytes = 0;
  };

  Store(const StoreOptions& options, std::unique_ptr<Slab> slab, Counters& counters);

  // Null for a root that was not opened.
  Opened* opened(Root root) const;
  Identity identity_of(const Opened& keyspace, std::span<const Token> prompt, uint32_t block,
                       const BlockKey& parent) const;
  BlockKey key_before(const Opened& keyspace, std::span<const Token> tokens, std::span<const Location> stored) const;
  void abort(BlockDraft& draft);
  // Frees one block that nobody pins; false when there is none.
  bool evict_one();
  void free_slots(std::span<const Location> locations);
  void reap();
  void quarantine(const Opened& keyspace, const Handle& handle, uint32_t block, const char* what);
  // What handles pin is counted once for each of them.
  void count_pinned(const Opened& keyspace, uint32_t blocks_before, uint32_t blocks_now);
  void publish_used() EXCLUDES(used_mutex_);

  const StoreOptions options_;
  Counters& counters_;
  const std::unique_ptr<Slab> slab_;
  Index index_;

  Mutex open_mutex_;
  // By root, written once under open_mutex_, read without a lock.
  const std::unique_ptr<std::atomic<Opened*>[]> opened_;
  std::vector<std::unique_ptr<Opened>> owned_ GUARDED_BY(open_mutex_);

  Mutex used_mutex_;
};

}  // namespace rhizome
