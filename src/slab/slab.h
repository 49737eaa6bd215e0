// The slab: slots for the bytes of blocks, of as many sizes as are asked for, in memory that never
// exceeds a budget.
//
// The life of a slot: free -> reserved (writable, invisible) -> committed (readable, never changes)
// -> free. A slot that is freed while it is pinned is doomed: nobody can pin it any more, and it
// becomes free with its last pin. Every reservation gives the slot a new generation, so whoever still
// names an earlier one is told so (kFailedPrecondition) and never sees, pins or frees a stranger's bytes.
//
// Memory is taken from the kernel a chunk at a time, all of it there at once; all slots of a chunk have one stride: the
// bytes asked for, rounded up to 64. A chunk goes back when its last slot is freed, but for one of each stride. That
// one is cut again for another stride that finds the budget spent, or goes back too. Before a slot is handed out to
// another tenant than the one that wrote into its memory last, its bytes are cleared.
//
// A slab can take over chunks that an earlier process has filled (adopt()). They are mapped read-only and never written
// to or cut again: their slots are read, pinned and freed as others are, but not handed out, and the chunk goes back
// with its last one. Its number is not used again. As long as there are such chunks, room for one is left in the budget
// (the headroom), so that their blocks can be copied into new ones. A slab with a keeper leaves that room from the
// beginning, so that whoever takes its chunks over, under the same budget, has room for all of them; unless it would be
// more than an eighth of the budget.
//
// Thread-safety: everything here may be called from any thread, but a Reserved or a Pinned belongs to
// one thread at a time and must not outlive its Slab. pin(), committed(), pins() and the release of a pin take no lock,
// but for the release that frees a doomed slot.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "concurrency/mutex.h"
#include "contract/result.h"
#include "machine/mapping.h"
#include "slab/block_directory.h"
#include "slab/chunk_cut.h"
#include "slab/memory_keeper.h"
#include "slab/slot.h"

namespace rhizome {

class Chunk;
struct Slot;
struct Writers;

struct SlabOptions {
  uint64_t budget_bytes = 0;
  // What the owner of the slab keeps elsewhere for each slot. It is counted against the budget for
  // every slot there is, so that it needs no accounting of its own.
  uint64_t overhead_bytes = 0;
  // Chunks are memory files, which other processes can be given (chunk_layout()); else memory of this process alone.
  bool shareable = false;
  // Chunks stay for good, cut again as it must be: what somebody else has mapped does not come back.
  bool keeps_chunks = false;
  // Is given each chunk before it is used, and told when an adopted one is gone. Outlives the slab. Null: nobody.
  MemoryKeeper* keeper = nullptr;
  // So many chunks may be adopted.
  uint32_t adopted_chunks_max = 0;
};

struct SlabUsage {
  uint64_t budget_bytes = 0;
  uint64_t used_bytes = 0;    // chunks, what describes them, and what was charged: never above the budget
  uint64_t pinned_bytes = 0;  // of slots with at least one pin
  uint64_t free_bytes = 0;    // of the budget, in slots that are free and in chunks that could be taken
  uint64_t stored_bytes = 0;  // asked for by the reservations of all slots that are not free
  uint64_t reserved_slots = 0;
  uint64_t committed_slots = 0;
  uint64_t doomed_slots = 0;
  uint64_t chunks = 0;
  uint64_t adopted_chunks = 0;    // of those
  uint64_t adopted_bytes = 0;     // of these, with what describes them
  uint64_t retired_chunks = 0;    // adopted ones that went back, since the beginning
  uint64_t chunks_cut_again = 0;  // since the beginning
  uint64_t cleared_bytes = 0;     // since the beginning, because another tenant had written there
};

// Where the slots of a chunk lie: slot i at i * stride.
struct ChunkLayout {
  int descriptor = -1;  // the slab's own, valid while one of the slots is not free; -1 unless shareable
  uint64_t bytes = 0;
  uint64_t stride = 0;
  uint32_t slots = 0;
};

// A committed slot in a chunk that is adopted.
struct AdoptedSlot {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t checksum = 0;
};

// A chunk that can be emptied: what it holds, none of it pinned when it was looked at.
struct SpareChunk {
  uint32_t chunk = 0;
  uint64_t stored_bytes = 0;
  std::vector<SlotRef> slots;
};

enum class FreeOutcome : uint8_t { kFreed, kPinned };

class Slab {
 public:
  // kInvalidArgument: the budget does not even hold the slab's own tables.
  static Result<std::unique_ptr<Slab>> create(const SlabOptions& options);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  enum class Room : uint8_t { kUsual, kWithHeadroom };
  // A slot of exactly `bytes`, 64-byte aligned, with whatever bytes `tenant` left there, or zeros.
  // kInvalidArgument: zero bytes. kResourceExhausted: the budget has no room for it now.
  Result<Reserved> reserve(uint64_t bytes, uint32_t tenant = 0, Room room = Room::kUsual);

  // Takes over a chunk (Mapping::adopt_shared()) with these slots in it, all of one stride. Returns their names, in
  // order. kInvalidArgument: places that no chunk of that stride has, or the same one twice. kResourceExhausted: the
  // budget does not hold it, the headroom and `free_bytes` for the caller, or too many chunks.
  Result<std::vector<SlotRef>> adopt(Mapping memory, std::span<const AdoptedSlot> slots, uint64_t free_bytes = 0);
  // Slots in use in an adopted chunk; 0: it is gone.
  uint32_t adopted_slots_used(uint32_t chunk) const;

  // Makes the slot readable for good. `checksum` is kept for whoever reads it.
  SlotRef commit(Reserved reserved, uint64_t checksum);

  // kFailedPrecondition (stale): not, or no longer, a committed slot of that generation. kResourceExhausted: 2^30 pins.
  Result<Pinned> pin(SlotRef ref);

  // How many pins there are at this moment. kFailedPrecondition (stale) as above.
  Result<uint32_t> pins(SlotRef ref) const;

  // Gives a committed slot back, now or with its last pin. kFailedPrecondition (stale) as above: a
  // second free is refused and changes nothing.
  Status free(SlotRef ref);

  // As free(), but only if there are no pins beside `own_pins` (0 or 1) of the caller's; looking and freeing are one
  // step. With a pin of its own the slot becomes free with that one's release. kPinned: nothing has changed.
  Result<FreeOutcome> free_if_unpinned(SlotRef ref, uint32_t own_pins = 0);

  // The chunk of another stride that holds least, of those that would make room for `bytes` once everything in it is
  // freed: in a chunk returned nothing is reserved, doomed or pinned. Others may pin or free some of it meanwhile, so
  // free_if_unpinned() is what empties it, and reserve() may have to be tried again with the next one.
  std::optional<SpareChunk> emptiest_chunk(uint64_t bytes) const;

  // kNotFound: there is no chunk of that number (SlotRef::chunk()) now.
  Result<ChunkLayout> chunk_layout(uint32_t chunk) const;

  // Where the bytes of a committed slot of ours lie, and their checksum. The caller keeps it from being freed
  // meanwhile.
  BlockPlace place(SlotRef ref) const;

  // The committed slot of that number. kFailedPrecondition: there is none.
  Result<SlotRef> committed(uint32_t index) const;

  // Spends part of the budget, for good, on something that is kept elsewhere. kResourceExhausted.
  Status charge(uint64_t bytes);

  // Whether one slot of that size fits when everything else is freed.
  bool can_ever_hold(uint64_t bytes) const;

  // Gives back the chunks that are kept though they are empty.
  void trim();

  SlabUsage usage() const;

 private:
  friend class Reserved;
  friend class Pinned;
  friend class SlabTestAccess;

  static constexpr uint32_t kNoChunk = UINT32_MAX;

  // Chunks with a free slot, by number: the lowest is filled first, so that the others run empty.
  struct SizeClass {
    std::set<uint32_t> open;
    std::set<uint32_t> empty;  // of those, the ones without a slot in use
    uint32_t chunks = 0;
  };
  // A chunk on its way back to the kernel: its budget is free only after its memory is.
  struct Leaving {
    Mapping memory;
    uint64_t cost = 0;
    uint32_t adopted_chunk = kNoChunk;  // its number, if it is one
  };
  // Budget and a number for a chunk whose memory is not there yet.
  struct Claim {
    uint32_t chunk = kNoChunk;
    ChunkCut cut;
    uint64_t cost = 0;
  };
  // Bytes that are pinned by handles that threads of one stripe took, less those that they released.
  struct alignas(64) PinnedStripe {
    std::atomic<uint64_t> bytes{0};
  };
  static constexpr uint32_t kStripes = 64;

  explicit Slab(const SlabOptions& options);

  void abort(SlotRef ref);
  void unpin(SlotRef ref, uint64_t bytes);
  Result<FreeOutcome> free_up_to(SlotRef ref, uint32_t pins_max) EXCLUDES(mutex_);
  void count_pinned(uint64_t bytes);
  uint64_t pinned_bytes() const;

  // Null when no slot can have that number. The words of all others can be looked at at any time.
  Slot* slot_of(SlotRef ref) const;
  uint64_t cost(const ChunkCut& cut) const;
  uint64_t slot_cost(uint64_t stride) const { return stride + options_.overhead_bytes; }
  // False when no chunk of that stride has a free slot. `unclean`: what has to be cleared before the slot is handed
  // out.
  bool take(uint64_t bytes, uint32_t tenant, Reserved& reserved, std::span<std::byte>& unclean) REQUIRES(mutex_);
  bool cut_an_empty_chunk_again(uint64_t stride) REQUIRES(mutex_);
  // With `full`, only for a chunk of the usual size; else for what is left of the budget.
  bool try_claim(uint64_t stride, bool full, Room room, Claim& claim) REQUIRES(mutex_);
  bool take_chunk_number(uint32_t& number) REQUIRES(mutex_);
  uint64_t left_bytes(Room room) const REQUIRES(mutex_);
  // Before a chunk of that stride is taken.
  void leave_room_for_next(uint64_t stride) REQUIRES(mutex_);
  Leaving retire(uint32_t chunk) REQUIRES(mutex_);
  Result<Mapping> memory_for(const Claim& claim) EXCLUDES(mutex_);
  void give_up(const Claim& claim) REQUIRES(mutex_);
  void attach(uint32_t chunk, Mapping memory, const ChunkCut& cut, uint64_t cost, const Writers& writers)
      REQUIRES(mutex_);
  void slot_freed(SlotRef ref, Leaving& leaving) REQUIRES(mutex_);
  void forget(uint32_t chunk, uint64_t stride) REQUIRES(mutex_);
  Leaving detach(uint32_t chunk) REQUIRES(mutex_);
  bool detach_any_empty(Leaving& leaving) REQUIRES(mutex_);
  void finish(Leaving leaving) EXCLUDES(mutex_);

  const SlabOptions options_;
  const uint64_t chunk_bytes_;
  const uint32_t chunks_max_;
  std::array<PinnedStripe, kStripes> pinned_;

  mutable Mutex mutex_;
  // Written under the mutex; a chunk that the caller has a pin in does not change.
  const std::unique_ptr<Chunk[]> chunks_;
  uint32_t chunks_count_ GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> unused_chunks_ GUARDED_BY(mutex_);
  std::map<uint64_t, SizeClass> classes_ GUARDED_BY(mutex_);  // by stride
  SlabUsage usage_ GUARDED_BY(mutex_);
  uint64_t free_slots_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t own_headroom_bytes_ GUARDED_BY(mutex_) = 0;  // for whoever comes next
  uint64_t headroom_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace rhizome
