// The store: where index and slab meet. It keeps the two in step, makes room, checks what it reads,
// and counts what happens.
//
// A slot holds a block's identity (block/identity.h) and behind it the payload, both under one
// checksum. Nothing is found before it is committed; nothing that does not verify is handed out.
//
// With a tier below, memory is one place of two: blocks are written behind, leave memory when it is short, and come
// back when somebody reads them (mover.h). A look-up finds them wherever they are, and never waits.
//
// Thread-safety: everything here may be called from any thread. A StoredPrefix and a BlockDraft belong to one
// thread at a time and must not outlive the store. No call waits for another one's copying or hashing; read() waits for
// a tier, no longer than its deadline.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "block/block_key.h"
#include "block/identity.h"
#include "block/keyspace.h"
#include "concurrency/mutex.h"
#include "index/index.h"
#include "machine/clock.h"
#include "machine/mapping.h"
#include "machine/thread.h"
#include "slab/block_directory.h"
#include "slab/memory_keeper.h"
#include "slab/slab.h"
#include "store/block_draft.h"
#include "store/block_table.h"
#include "store/demotion.h"
#include "store/keyspace_book.h"
#include "store/load_split.h"
#include "store/mover.h"
#include "store/remote_uses.h"
#include "store/stored_prefix.h"
#include "store/tiering_options.h"
#include "store/verify_policy.h"
#include "telemetry/counters.h"
#include "tier/tier.h"

namespace rhizome {

class Recovered;

struct StoreOptions {
  uint64_t memory_bytes = 0;  // hard budget of slots, of what describes them, and of I/O buffers
  uint32_t block_tokens = 16;
  uint32_t keyspaces_max = 4096;         // fewer when the budget is small
  uint64_t index_bytes_max = 0;          // for tests: what the index may use at most; 0: what the budget pays for
  std::unique_ptr<Tier> tier = nullptr;  // below memory; null: there is none
  TieringOptions tiering = {};
  // Who reads from other processes what lies in shared memory then (Store::shared()). Outlives the store; null: nobody.
  RemoteReaders* remote_readers = nullptr;
  // With remote readers: who keeps memory beyond this process, and what a former one has left. The keeper outlives the
  // store; null: nobody.
  MemoryKeeper* keeper = nullptr;
  std::vector<KeptMemory> kept = {};
};

// What a store has taken over of a former process's memory.
struct Adoption {
  uint64_t offered_blocks = 0;
  uint64_t warm_blocks = 0;
  uint64_t warm_bytes = 0;  // of memory
};

// What a store has of one keyspace.
struct KeyspaceUsage {
  Root root;
  const Keyspace* keyspace = nullptr;  // as long as the store
  uint64_t slot_bytes = 0;             // of a block in memory
  KeyspaceCounts blocks;
};

class Store {
 public:
  // kInvalidArgument: a block size that is not offered, or a budget too small for anything.
  // `counters` must outlive the store, which keeps the gauges of the slab there.
  static Result<std::unique_ptr<Store>> create(StoreOptions options, Counters& counters);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  uint32_t block_tokens() const { return options_.block_tokens; }

  // The same keyspace always gives the same root. `geometry` is the shape of a block's payload, opaque where nothing is
  // known but its size. kInvalidArgument: no payload, a shape that makes no sense, or another one than before.
  // kResourceExhausted: one block does not fit the budget, or too many keyspaces. What a tier has of the keyspace from
  // former processes can be found from then on.
  Result<Root> open(const Keyspace& keyspace, const BlockGeometry& geometry);

  // The longest stored prefix, in memory or below. Releases what `prefix` held. Waits for nobody. A root that was not
  // opened: kNotCacheable.
  void lookup(Root root, std::span<const Token> prompt, StoredPrefix& prefix);

  // Blocks that lookup() would find; takes no pin and counts as no use.
  uint32_t peek(Root root, std::span<const Token> prompt) const;

  // Brings blocks [first, end) of a prefix into memory: those in memory are held, loads of the others begin, in order.
  // Returns where the part ends that it pays to read: before `end` when computing the rest is expected to be faster
  // than loading it, or there is no memory for more. read() waits for what is on its way. `prompt` is the look-up's.
  uint32_t promote(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end);

  // The same without that choice: for the part that plan() leaves to loading.
  uint32_t load(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end);

  // Where computing and loading of blocks [first, end) of a prefix would meet. Takes no pin and begins nothing. `end`
  // is less when a block is gone that the prefix had.
  LoadSplit plan(const StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end) const;

  // The payload of block `block` of a prefix, once its identity agrees with `prompt` (the look-up's) and, when `check`
  // says so, its checksum with its bytes. Valid until the prefix is released. Cheapest in ascending order. kOutOfRange:
  // the prefix or the prompt has no such block. kDataLoss: it did not verify; it and all that continues it have been
  // forgotten, and the prefix ends before it. kUnavailable: it is in a tier, and its load failed or was late; the
  // prefix ends before it.
  Result<std::span<const std::byte>> read(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t block,
                                          BlockCheck check = BlockCheck::kIdentityAndChecksum);

  // The engine has computed `tokens` tokens behind `before` others in so many seconds: what loading is weighed against.
  void observe_compute(uint64_t tokens, uint64_t before, double seconds);

  // The key before position 0.
  BlockKey root_key_of(Root root) const;
  // Of a block, identity included. kNotFound: a root that was not opened.
  Result<uint64_t> slot_bytes(Root root) const;

  // Places for the blocks of `tokens` (whole blocks, from position 0) from `first_block` on, less those
  // stored already; none when all are. Evicts to make room in memory; when all of it is pinned and there is a tier,
  // blocks get I/O buffers, as long as there are any, less those that are on their way into the tier already. Reserves
  // fewer when that is not enough. kInvalidArgument: an unknown root, or not a whole number of at least first_block
  // blocks. kFailedPrecondition: a block before `first_block` is not stored, nor on its way into the tier.
  // kResourceExhausted: no room for one block, all is pinned, and all buffers are in use.
  Result<BlockDraft> reserve(Root root, std::span<const Token> tokens, uint32_t first_block);

  // Publishes the draft's blocks. Where somebody else was first, theirs stay and ours are given back;
  // the same when a block before them was forgotten meanwhile. Returns how many became visible. Blocks in buffers are
  // sent to the tier, and are found once it has them and the block before them is there still; else they are lost.
  size_t commit(BlockDraft draft);

  // Takes in what readers in other processes have used since the last time; storing does it, too.
  void note_remote_uses();

  // Forgets everything that nobody pins. Returns how many blocks that was. The tier keeps its images until it needs
  // their place, and the next process may find them.
  size_t clear();
  // The same for one keyspace, which stays open: no block of another one is touched. A root that was not opened: none.
  size_t clear(Root root);

  // Writes what is worth it and waits for it, no longer than until the deadline (of the clock of the options). With the
  // store's own thread it takes no lock: it may be called while a process ends in the middle of something.
  void flush(uint64_t deadline_ns);

  // Moves what can be moved now between memory and the tier; false: nothing. The store's own thread calls it.
  bool step();

  // Copies blocks out of memory that was taken over into memory of its own, about `bytes_max` at most, so that it can
  // be given back. False: nothing is left to do, now or ever.
  bool move_adopted(uint64_t bytes_max);
  const Adoption& adoption() const { return adoption_; }

  BlockCounts block_counts() const { return table_.counts(); }
  // Of all keyspaces that are open, in the order in which they were opened. Looks at all blocks.
  std::vector<KeyspaceUsage> keyspace_usages() const;

  // What readers in other processes map, read-only: the index, the directory of its blocks, and by and by the chunks
  // that this names. Only with StoreOptions::remote_readers.
  struct Shared {
    const Mapping& index;
    const BlockDirectory& directory;
    const Slab& slab;
  };
  Shared shared() const;
  // Where a look-up in the shared index begins. Run 0: the keyspace is not open, or has nothing.
  SharedRoot shared_root(Root root) const { return index_.shared_root(root); }
  // Bytes in memory of all blocks on the paths to these runs, each counted once. Any numbers will do.
  uint64_t bytes_on_paths(std::span<const RunId> runs) const;
  // Blocks that are on their way into the tier and nowhere else, and bytes of the buffers that are lent for such.
  size_t around_blocks() const { return mover_ == nullptr ? 0 : mover_->around().blocks(); }
  uint64_t lent_bytes() const { return mover_ == nullptr ? 0 : mover_->lent_bytes(); }

  SlabUsage slab_usage() const { return slab_->usage(); }
  IndexUsage index_usage() const { return index_.usage(); }

 private:
  friend class BlockDraft;
  friend class StoredPrefix;
  friend class StoreTestAccess;

  struct Opened {
    Keyspace keyspace;
    Root root;
    BlockKey root_key;
    KeyspaceForm form;
  };
  // Of a former process, whose keyspace is not open yet.
  struct LeftBlock {
    IdentityRecord identity;
    SlotRef slot;
  };
  // A chunk of a former process, and the blocks that were in it when it was taken over.
  struct AdoptedBlock {
    Location location = 0;
    SlotRef slot;
    uint32_t keyspace = 0;
  };
  struct AdoptedChunk {
    uint32_t number = 0;
    uint32_t tries = 0;
    std::vector<AdoptedBlock> blocks = {};
  };

  Store(StoreOptions options, std::unique_ptr<Slab> slab, Mapping index_memory, uint64_t charged, Counters& counters);

  // Null for a root that was not opened.
  Opened* opened(Root root) const;
  uint64_t now_ns() const { return clock_.monotonic_ns(); }
  Identity identity_of(const Opened& keyspace, std::span<const Token> prompt, uint32_t block,
                       const BlockKey& parent) const;
  BlockKey key_before(const Opened& keyspace, std::span<const Location> stored) const;
  void release(StoredPrefix& prefix);
  void abort(BlockDraft& draft);
  void take_slots(const Opened& keyspace, BlockDraft& draft, size_t blocks_end);
  // Writes the identity of the draft's block `i`, whose parent has the key `key`, which becomes its own; unless it was
  // filled with its identity.
  uint64_t seal(const Opened& keyspace, const BlockDraft& draft, size_t i, BlockKey& key) const;
  std::span<const std::byte> write_identity(const Opened& keyspace, const BlockDraft& draft, size_t i,
                                            BlockKey& key) const;
  void fill_next(BlockDraft& draft, std::span<const std::byte> from) const;
  std::vector<Location> seal_slots(const Opened& keyspace, BlockDraft& draft);
  // Makes blocks visible; the handle is then one on all of them. Those that somebody else has stored before are
  // forgotten. Returns how many became visible. On an error `blocks` and `handle` are still the caller's.
  Result<size_t> insert(Root root, Handle& handle, std::span<const Token> tokens, uint32_t first_block,
                        std::span<const Location> blocks);

  // store_around.cc
  // The draft, of no blocks so far, begins behind those that are on their way into the tier.
  void skip_around(BlockDraft& draft, std::span<const Token> tokens) const;
  void take_buffers(const Opened& keyspace, BlockDraft& draft, std::span<const Token> tokens);
  void send_around(const Opened& keyspace, BlockDraft& draft);
  bool publish_around();

  // store_adopt.cc
  void adopt(std::vector<KeptMemory> kept);
  void note_adopted(Location location, SlotRef slot, uint32_t keyspace);
  std::optional<AdoptedChunk> take_emptiest_adopted();
  bool empty_adopted(AdoptedChunk& chunk, uint64_t& bytes_left);
  bool make_room_of_adopted();

  // store_open.cc
  static uint64_t opened_bytes(const Keyspace& keyspace);
  void recover(const Opened& keyspace) REQUIRES(open_mutex_);
  void describe_recovered(const Opened& keyspace, Recovered& found, std::vector<SlotRef>& unknown);
  size_t insert_recovered(const Opened& keyspace, Recovered& found);
  void bound_recovered();

  // store_read.cc
  const BlockKey& key_before(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t block) const;
  uint32_t promote(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end, bool weighs);
  bool hold(StoredPrefix& prefix, uint32_t block);
  uint32_t begin_loads(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end,
                       double predicted_seconds);
  bool await(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t block);
  void let_go(StoredPrefix::Held& held);
  void end_before(StoredPrefix& prefix, uint32_t block, Reason reason);
  void quarantine(const Opened& keyspace, const Handle& handle, uint32_t block, const char* what);

  // store_room.cc
  // A slot for a block of that keyspace, for which others may have to leave.
  std::optional<Reserved> take_slot(const Opened& keyspace);
  // Frees at least one slot, or a place in the index; false when there is none that may leave.
  bool make_room();
  size_t evict(size_t blocks, bool resident_only);
  void keep_below_bounded();
  void free_slot(SlotRef ref);
  void forget(std::span<const Location> locations);
  // What was removed and nobody uses any more is free again; false: there was nothing.
  bool reap();
  void forget_gone();
  // What handles pin is counted once for each of them.
  void count_pinned(const Opened& keyspace, uint32_t blocks_before, uint32_t blocks_now);
  void publish_used() EXCLUDES(used_mutex_);
  void run(const std::stop_token& stop);

  StoreOptions options_;  // less the tier, which is the mover's
  Counters& counters_;
  Clock& clock_;
  const std::unique_ptr<Slab> slab_;
  // These three only with readers in other processes.
  const Mapping index_memory_;
  const std::unique_ptr<RemoteUses> remote_uses_;
  std::atomic<uint32_t> reservations_{0};
  const std::unique_ptr<BlockDirectory> directory_;
  const std::unique_ptr<KeyspaceBook> book_;  // null without a keeper
  BlockTable table_;
  Index index_;
  Demotion demotion_;
  uint64_t below_max_ = 0;  // blocks that are described though they are not in memory
  const uint64_t below_block_bytes_;

  Mutex open_mutex_;
  // By root, written once under open_mutex_, read without a lock.
  const std::unique_ptr<std::atomic<Opened*>[]> opened_;
  std::vector<std::unique_ptr<Opened>> owned_ GUARDED_BY(open_mutex_);
  std::unordered_map<BlockKey, std::vector<LeftBlock>, BlockKeyHash> left_in_memory_ GUARDED_BY(open_mutex_);

  Mutex adopted_mutex_;
  std::vector<AdoptedChunk> adopted_ GUARDED_BY(adopted_mutex_);  // less the one that somebody works on
  std::atomic<bool> has_adopted_{false};
  Adoption adoption_;  // written before anybody else knows the store

  Mutex used_mutex_;
  std::atomic<uint64_t> flush_deadline_ns_{0};
  std::atomic<uint64_t> flushes_asked_{0};
  std::atomic<uint64_t> flushes_done_{0};
  std::unique_ptr<Mover> mover_;  // null without a tier
  Thread thread_;                 // last: it uses all of the above
};

}  // namespace rhizome
