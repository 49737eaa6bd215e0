// The slab: slots for the bytes of blocks, of as many sizes as are asked for, in memory that never
// exceeds a budget.
//
// The life of a slot: free -> reserved (writable, invisible) -> committed (readable, never changes)
// -> free. A slot that is freed while it is pinned is doomed: nobody can pin it any more, and it
// becomes free with its last pin. Every reservation gives the slot a new generation, so whoever still
// names an earlier one is told so (kFailedPrecondition) and never sees, pins or frees a stranger's bytes.
//
// Memory is taken from the kernel a chunk at a time, with its pages touched in one go; all slots of a
// chunk have one size. A chunk goes back when its last slot is freed, but for one of each size,
// and that one too as soon as another size needs the memory.
//
// Thread-safety: everything here may be called from any thread, but a Reserved or a Pinned belongs to
// one thread at a time and must not outlive its Slab.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "concurrency/mutex.h"
#include "contract/result.h"
#include "machine/mapping.h"
#include "slab/slot.h"

namespace rhizome {

class Chunk;

struct SlabOptions {
  uint64_t budget_bytes = 0;
  // What the owner of the slab keeps elsewhere for each slot. It is counted against the budget for
  // every slot there is, so that it needs no accounting of its own.
  uint64_t overhead_bytes = 0;
};

struct SlabUsage {
  uint64_t budget_bytes = 0;
  uint64_t used_bytes = 0;    // chunks, what describes them, and what was charged: never above the budget
  uint64_t pinned_bytes = 0;  // of slots with at least one pin
  uint64_t stored_bytes = 0;  // asked for by the reservations of all slots that are not free
  uint64_t reserved_slots = 0;
  uint64_t committed_slots = 0;
  uint64_t doomed_slots = 0;
  uint64_t chunks = 0;
};

class Slab {
 public:
  // kInvalidArgument: the budget does not even hold the slab's own tables.
  static Result<std::unique_ptr<Slab>> create(const SlabOptions& options);
  ~Slab();
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // A slot of exactly `bytes`, 64-byte aligned, with whatever bytes were there before.
  // kInvalidArgument: zero bytes. kResourceExhausted: the budget has no room for it now.
  Result<Reserved> reserve(uint64_t bytes);

  // Makes the slot readable for good. `checksum` is kept for whoever reads it.
  SlotRef commit(Reserved reserved, uint64_t checksum);

  // kFailedPrecondition (stale): not, or no longer, a committed slot of that generation.
  Result<Pinned> pin(SlotRef ref);

  // Gives a committed slot back, now or with its last pin. kFailedPrecondition (stale) as above: a
  // second free is refused and changes nothing.
  Status free(SlotRef ref);

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

  // Chunks with a free slot, by number: the lowest is filled first, so that the others run empty.
  struct SizeClass {
    std::set<uint32_t> open;
    uint32_t chunks = 0;
    uint32_t empty = kNoChunk;
  };
  // A chunk on its way back to the kernel: its budget is free only after its memory is.
  struct Leaving {
    Mapping memory;
    uint64_t cost = 0;
  };
  struct Claim {
    uint32_t chunk = 0;
    uint32_t slots = 0;
    uint64_t cost = 0;
  };
  static constexpr uint32_t kNoChunk = UINT32_MAX;

  explicit Slab(const SlabOptions& options);

  void abort(SlotRef ref);
  void unpin(SlotRef ref);

  uint64_t stride(uint64_t bytes) const;
  uint64_t cost(uint64_t bytes, uint64_t slots) const;
  uint32_t slots_that_fit(uint64_t bytes, uint64_t budget_bytes) const;
  Result<Claim> claim(uint64_t bytes) EXCLUDES(mutex_);
  bool try_claim(uint64_t bytes, uint32_t slots_min, Claim& claim) REQUIRES(mutex_);
  Reserved take(uint64_t bytes, SizeClass& size_class) REQUIRES(mutex_);
  // The chunk of a slot that is committed (or doomed) in that generation, else null.
  Chunk* find(SlotRef ref) REQUIRES(mutex_);
  void slot_freed(SlotRef ref, Leaving& leaving) REQUIRES(mutex_);
  Leaving detach(uint32_t chunk) REQUIRES(mutex_);
  bool detach_any_empty(Leaving& leaving) REQUIRES(mutex_);
  void finish(Leaving leaving) EXCLUDES(mutex_);

  const SlabOptions options_;
  const uint64_t chunk_bytes_;
  const uint32_t chunks_max_;

  mutable Mutex mutex_;
  std::vector<Chunk> chunks_ GUARDED_BY(mutex_);
  std::vector<uint32_t> unused_chunks_ GUARDED_BY(mutex_);
  std::map<uint64_t, SizeClass> classes_ GUARDED_BY(mutex_);  // by slot size
  SlabUsage usage_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
