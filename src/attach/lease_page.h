// The lease page: how a client pins runs in the node's index, and says what it uses, without a call. One memory file a
// client, made by the node as Sharing::kWritable; the client maps it Access::kWrite, and the node only reads.
//
// Slots (hazard pointers, Michael 2004). States: 0 (free or not pinning), or the number of the run that is pinned, and
// with it, through its own pins on its ancestors, all of its path. Only the client writes.
//   pin      protect(): 0 -> run, then a full fence, then the client checks in the index that the run is alive and its
//            path unchanged, and else clears.
//   release  clear(): run -> 0, after the last read of what it pins.
// The node marks a run dead, makes a full fence, and then reads the slots: of the two at least one sees the other's
// store, so either the client's check fails, or the node finds the run in the slot and leaves it alone. The release in
// clear() pairs with the acquire in collect_slots(): the client's reads are over when its slot is seen free.
// slots_end only goes up, and before a slot is used for the first time; the same fences cover it.
//
// Touches: the index is read-only for clients, so what they use travels back here. One lossy entry for several runs,
// written with the run and a tick of the coarse clock; a lost one costs a little recency. Which entry is a hash, since
// numbers of runs are strided.
//
// The node trusts nothing that it reads: a client that writes nonsense loses its own pins, or keeps runs alive that it
// could have pinned anyway.
//
// Thread-safety: a LeaseWriter may be used from any thread, a slot by one at a time; a LeaseReader belongs to one
// thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "attach/shared_page.h"
#include "contract/check.h"
#include "contract/result.h"

namespace rhizome {

inline constexpr uint32_t kLeaseSlots = 64;
inline constexpr uint32_t kLeaseTouches = 256;

// One use of a run; the tick is the low half of coarse_now_ticks().
struct LeaseTouch {
  uint32_t run = 0;
  uint32_t tick = 0;

  friend bool operator==(const LeaseTouch&, const LeaseTouch&) = default;
};

struct LeasePage {
  static constexpr uint64_t kMagic = 0x45'53'41'45'4c'5a'52;  // "RZLEASE"
  static constexpr uint32_t kVersion = 1;

  SharedPageHead head;
  std::atomic<uint32_t> slots_end{0};           // no slot from here on was ever used
  std::atomic<uint32_t> unmap_acknowledged{0};  // the generation up to which retired chunks are unmapped
  std::array<std::byte, 40> unused{};           // the slots begin at a cache line
  std::array<std::atomic<uint32_t>, kLeaseSlots> slots{};
  std::array<std::atomic<uint64_t>, kLeaseTouches> touches{};  // run | tick << 32
  std::array<std::byte, kSharedPageBytes - 64 - 4 * kLeaseSlots - 8 * kLeaseTouches> unused_end{};
};
static_assert(sizeof(LeasePage) == kSharedPageBytes && offsetof(LeasePage, slots_end) == 16 &&
              offsetof(LeasePage, slots) == 64 && offsetof(LeasePage, touches) == 64 + 4 * kLeaseSlots);

// The entry of a run: as good as thrown at random, whatever the numbers' stride (the finalizer of MurmurHash3, whose
// every bit depends on all).
inline uint32_t lease_touch_entry(uint32_t run) {
  run = (run ^ run >> 16) * 0x85eb'ca6bu;
  run = (run ^ run >> 13) * 0xc2b2'ae35u;
  return (run ^ run >> 16) % kLeaseTouches;
}

class LeaseWriter {
 public:
  // As find_shared_page(); the memory outlives the writer. At most one in all processes for one page.
  static Result<LeaseWriter> attach(std::span<std::byte> memory);

  // A slot for the caller, until give_back(). None: all are taken.
  std::optional<uint32_t> acquire_slot();
  // Clears it, too.
  void give_back(uint32_t slot);

  // Pins `run`, which is not 0, once the caller has checked it after this call.
  void protect(uint32_t slot, uint32_t run) {
    RHIZOME_DCHECK(slot < kLeaseSlots && run != 0);
    // An exchange is a full fence on x86; elsewhere later loads may pass its store.
    page_->slots[slot].exchange(run, std::memory_order_seq_cst);
#if !defined(__x86_64__)
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }
  void clear(uint32_t slot) {
    RHIZOME_DCHECK(slot < kLeaseSlots);
    page_->slots[slot].store(0, std::memory_order_release);  // pairs with collect_slots()
  }

  // The word itself, for who pins and fences by his own rules (index/index_reader.h).
  std::atomic<uint32_t>& word(uint32_t slot) {
    RHIZOME_DCHECK(slot < kLeaseSlots);
    return page_->slots[slot];
  }

  void note_touch(uint32_t run, uint32_t tick) {
    std::atomic<uint64_t>& entry = page_->touches[lease_touch_entry(run)];
    const uint64_t touch = run | uint64_t{tick} << 32;
    // A line that need not change stays with those who read it.
    if (entry.load(std::memory_order_relaxed) != touch) entry.store(touch, std::memory_order_relaxed);
  }

  void acknowledge_unmap(uint32_t generation) {
    page_->unmap_acknowledged.store(generation, std::memory_order_release);  // pairs with unmap_acknowledged()
  }

 private:
  explicit LeaseWriter(LeasePage& page) : page_(&page), taken_(std::make_unique<std::atomic<uint64_t>>(0)) {}

  LeasePage* page_;
  std::unique_ptr<std::atomic<uint64_t>> taken_;  // a bit a slot; private, so that nobody else can confuse it
};

class LeaseReader {
 public:
  // Makes the page in kSharedPageBytes of zeros, which outlive the reader.
  explicit LeaseReader(std::span<std::byte> memory)
      : page_(&make_shared_page<LeasePage>(memory)), seen_(std::make_unique<Seen>()) {}

  // Appends what the slots pin: every number is above 0 and below `runs_end`.
  void collect_slots(uint32_t runs_end, std::vector<uint32_t>& out) const;

  // Appends the entries that have changed since the last call: runs above 0 and below `runs_end`, ticks not after
  // `now_tick` and less than half of their range before it.
  void take_touches(uint32_t runs_end, uint32_t now_tick, std::vector<LeaseTouch>& out);

  uint32_t unmap_acknowledged() const {
    return page_->unmap_acknowledged.load(std::memory_order_acquire);  // pairs with acknowledge_unmap()
  }

 private:
  using Seen = std::array<uint64_t, kLeaseTouches>;

  const LeasePage* page_;
  std::unique_ptr<Seen> seen_;
};

// What all of these clients pin, behind the one fence that a batch of dead runs needs. `out` is emptied first.
void collect_pinned_runs(std::span<const LeaseReader* const> readers, uint32_t runs_end, std::vector<uint32_t>& out);

}  // namespace rhizome
