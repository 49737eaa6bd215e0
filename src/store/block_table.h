// What the store knows of each block that the index names: where its bytes are, who holds them there, and what should
// happen to them. The index stores the block's number; blocks move between memory and tiers without the index noticing.
//
//   free -> resident        add(): committed in a slot
//   free -> below           add_below(): recovered from a tier
//   resident -> below       demote(), end_demotion(): only if a tier has a copy, nobody pins the slot, and the epoch is
//                           the one that the demotion began with
//   below -> loading        await(): one load, whoever asks
//   loading -> resident     land(), with the epoch of await()
//   loading -> below        give_up_load()
//   resident -> resident    relocate(): in another slot
//   any -> free             forget(): the index has let go of the number
//
// A block that a tier has forgotten and memory has not is gone: it is found no more, and the store takes it out of the
// index with all that continues it.
//
// The epoch of a number changes whenever another block gets it, so whoever worked without the lock finds out.
//
// Thread-safety: everything here may be called from any thread. Calls nobody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "block/block_key.h"
#include "concurrency/mutex.h"
#include "index/index_types.h"
#include "residency/frequency_sketch.h"
#include "residency/sieve_order.h"
#include "slab/block_directory.h"
#include "slab/slot.h"

namespace rhizome {

// One use of one number.
struct BlockRef {
  Location location = 0;
  uint32_t epoch = 0;
};

enum class BlockState : uint8_t { kFree, kResident, kBelow, kLoading, kGone };

struct BlockCounts {
  uint64_t resident = 0;
  uint64_t pinned = 0;  // resident ones in somebody's hands
  uint64_t below = 0;   // in a tier and not in memory, or on the way
  uint64_t copies = 0;  // resident or not, that a tier has
  uint64_t queued = 0;  // places in the queues of those that wait for a write, used up ones included
};

// The blocks of one keyspace.
struct KeyspaceCounts {
  uint64_t resident = 0;
  uint64_t below = 0;   // as in BlockCounts
  uint64_t copies = 0;  // the same
  uint64_t copies_bytes = 0;
};

class BlockTable {
 public:
  // `sketch_blocks`: how many blocks' uses are remembered beyond their life here (0 without tiers).
  // `directory`: where readers in other processes look blocks up; null: there are none. Outlives the table.
  explicit BlockTable(uint64_t sketch_blocks, BlockDirectory* directory = nullptr)
      : sketch_(sketch_blocks), sketches_(sketch_blocks > 0), directory_(directory) {}

  struct New {
    uint32_t keyspace = 0;  // the root's number
    BlockKey key = {};
    SlotRef slot = {};
    uint64_t now_ns = 0;
    BlockPlace place = {};  // for the directory
  };
  Location add(const New& block);
  Location add_below(uint32_t keyspace, const BlockKey& key, uint32_t image_bytes);
  // A tier has a copy of a resident block that was just added.
  void add_copy(Location location, uint32_t image_bytes);
  // The block's bytes are in the slot `to` as well, at `place`, and that is its slot from now on; `from` is the
  // caller's. False, and nothing has changed: it is not, or no longer, in `from`, is pinned or about to leave.
  bool relocate(Location location, SlotRef from, SlotRef to, const BlockPlace& place);
  // Whether relocate() could work some time.
  bool is_in(Location location, SlotRef slot) const;
  // Another block continues this one.
  void set_has_children(Location location);

  // The slot that it was in, if any, is the caller's to free.
  std::optional<SlotRef> forget(Location location);

  BlockState state(Location location) const;
  BlockKey key(Location location) const;
  // Bytes in the tier; 0 for a block that it does not have.
  uint32_t image_bytes(Location location) const;

  // What a reader needs of a resident block. Counts as a use; the pin is given back by unpin().
  struct Pinned {
    SlotRef slot = {};
    BlockRef ref = {};
  };
  std::optional<Pinned> pin(Location location);
  // A use is not always a read: what is written or demoted is pinned with `is_use` false.
  void unpin(BlockRef ref);

  // Pins a block that is not in memory, so that it stays there once it has landed. `begins`: it was below, and the
  // caller loads it now; else somebody does already. Nothing: it is in memory, or gone.
  struct Awaited {
    BlockRef ref;
    bool begins = false;
  };
  std::optional<Awaited> await(Location location);
  // The slot of a block that the caller has pinned; nothing while it is not in memory. Counts as a use.
  std::optional<SlotRef> slot_of(BlockRef ref);
  // False: the number is another block's now, and the slot stays the caller's.
  bool land(BlockRef ref, SlotRef slot, bool keep_copy, uint64_t now_ns, const BlockPlace& place = {});
  // `is_gone`: the tier does not have it (any more).
  void give_up_load(BlockRef ref, bool is_gone);

  // The next block that leaves memory: resident, in a tier, unpinned. Switched to below; the slot is the caller's.
  struct Demoted {
    BlockRef ref = {};
    SlotRef slot = {};
  };
  std::optional<Demoted> demote(size_t looks_max);
  // The same for one block, if nothing happened to it since `ref`. Nothing for a block that is pinned by others than
  // `own_pins`, has no copy below, or is another one now.
  std::optional<SlotRef> demote(BlockRef ref, uint32_t own_pins);
  // The same in two steps, between which the caller looks for readers in other processes: the block is resident, and
  // leaving. begin_demotion() returns how many.
  size_t begin_demotion(std::span<BlockRef> out, size_t looks_max);
  bool begin_demotion(BlockRef ref);
  // Switched to below unless it `stays` or somebody has pinned it meanwhile; the slot is the caller's.
  std::optional<SlotRef> end_demotion(BlockRef ref, bool stays);
  // Readers in other processes have used them. Any numbers will do.
  void use_all(std::span<const Location> locations);
  // The keyspace of each of them that is in memory. Any numbers will do.
  void collect_keyspaces(std::span<const Location> locations, std::vector<uint32_t>& out) const;
  bool is_resident_and_free(Location location) const;
  bool is_below(Location location) const { return state(location) == BlockState::kBelow; }
  bool is_gone(Location location) const { return state(location) == BlockState::kGone; }

  // Blocks that wait for a write, those used again first. Each is handed out once, pinned, and comes back by
  // written() or by write_later().
  struct Unwritten {
    BlockRef ref = {};
    SlotRef slot = {};
    BlockKey key = {};
    uint32_t keyspace = 0;
    uint64_t age_ns = 0;
    uint32_t uses = 0;
    uint32_t asked_for = 0;
    bool has_children = false;
  };
  std::optional<Unwritten> next_unwritten(uint64_t now_ns, uint64_t age_min_ns);
  void written(BlockRef ref, uint32_t image_bytes);
  // `again` false: only once it is used again.
  void write_later(BlockRef ref, bool again);
  // When next_unwritten() has something that it has not now; UINT64_MAX: never.
  uint64_t next_write_ns(uint64_t age_min_ns) const;
  bool has_unwritten() const;

  // A tier has forgotten the block of that key. True: the block is gone.
  bool forgotten_below(const BlockKey& key);

  BlockCounts counts() const;
  // By the root's number, up to and with `keyspaces_max`. Looks at all blocks, some at a time: what moves meanwhile may
  // be counted at either place, or not at all.
  std::vector<KeyspaceCounts> counts_by_keyspace(uint32_t keyspaces_max) const;
  bool is_of(Location location, uint32_t keyspace) const;

  // Of memory, for each block: here, in the order and in the maps.
  static uint64_t block_bytes();

 private:
  struct Block {
    BlockKey key = {};
    SlotRef slot = {};
    uint64_t stored_ns = 0;
    uint32_t keyspace = 0;
    uint32_t image_bytes = 0;  // 0: no copy in a tier
    uint32_t epoch = 0;
    uint32_t pins = 0;
    uint8_t uses = 0;
    BlockState state = BlockState::kFree;
    bool has_children = false;
    bool is_writing = false;
    bool is_waiting = false;  // in one of the two queues
    bool is_leaving = false;  // between begin_demotion() and end_demotion()
  };

  Location take() REQUIRES(mutex_);
  Block* current(BlockRef ref) REQUIRES(mutex_);
  void enqueue(Location location, bool is_used) REQUIRES(mutex_);
  std::optional<Unwritten> take_unwritten(std::deque<BlockRef>& queue, uint64_t now_ns, uint64_t age_min_ns)
      REQUIRES(mutex_);
  Location next_to_leave(size_t looks_max) REQUIRES(mutex_);
  SlotRef leave_memory(Location location) REQUIRES(mutex_);
  void tell(Location location, const BlockPlace& place) REQUIRES(mutex_);
  void tell_of_failed_load(Location location) REQUIRES(mutex_);
  void begin_leaving(Location location) REQUIRES(mutex_);
  bool waits(BlockRef ref) REQUIRES(mutex_);
  void drop_copy(Location location) REQUIRES(mutex_);
  void add_pin(Block& block) REQUIRES(mutex_);
  void drop_pin(Block& block) REQUIRES(mutex_);
  void use(Location location) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<Block> blocks_ GUARDED_BY(mutex_);
  std::vector<Location> free_ GUARDED_BY(mutex_);
  SieveOrder order_ GUARDED_BY(mutex_);                                            // resident blocks
  std::unordered_map<BlockKey, Location, BlockKeyHash> below_ GUARDED_BY(mutex_);  // those that a tier has
  std::deque<BlockRef> used_ GUARDED_BY(mutex_);                                   // that wait for a write
  std::deque<BlockRef> fresh_ GUARDED_BY(mutex_);  // the same, not used since they were stored, oldest first
  FrequencySketch sketch_ GUARDED_BY(mutex_);
  const bool sketches_;
  BlockDirectory* const directory_;
  BlockCounts counts_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
