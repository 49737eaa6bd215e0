#include "slab/slab.h"

#include <algorithm>
#include <utility>

#include "concurrency/race_point.h"
#include "concurrency/thread_slot.h"
#include "contract/check.h"
#include "slab/chunk.h"

namespace rhizome {
namespace {

// A slot's number is its chunk's and its place there, 16 bits each.
constexpr uint32_t kChunksMax = 1 << 16;
static_assert(kChunkSlotsMax <= 1 << 16);
// More than any machine has, and far from where sums of sizes wrap.
constexpr uint64_t kBudgetBytesMax = 1ull << 50;

constexpr Error kStale{Code::kFailedPrecondition, "stale slot"};

// Twice as many as full chunks would be: slots just above half a chunk leave the rest of it out.
uint32_t chunks_for(uint64_t budget_bytes, uint64_t chunk_bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(kChunksMax, 2 * (budget_bytes / chunk_bytes) + 16));
}

}  // namespace

Result<std::unique_ptr<Slab>> Slab::create(const SlabOptions& options) {
  if (options.budget_bytes > kBudgetBytesMax) return fail(Code::kInvalidArgument, "memory budget too large");
  std::unique_ptr<Slab> slab(new Slab(options));
  const SlabUsage usage = slab->usage();
  if (usage.used_bytes >= usage.budget_bytes) return fail(Code::kInvalidArgument, "memory budget too small");
  return slab;
}

Slab::Slab(const SlabOptions& options)
    : options_(options),
      chunk_bytes_(usual_chunk_bytes(options.budget_bytes, options.shareable)),
      chunks_max_(std::min(kChunksMax, chunks_for(options.budget_bytes, chunk_bytes_) + options.adopted_chunks_max)),
      chunks_(std::make_unique<Chunk[]>(chunks_max_)) {
  usage_.budget_bytes = options.budget_bytes;
  usage_.used_bytes = sizeof(Slab) + chunks_max_ * (sizeof(Chunk) + sizeof(uint32_t));
  unused_chunks_.reserve(chunks_max_);
}

Slab::~Slab() {
  MutexLock lock(mutex_);
  RHIZOME_CHECK(usage_.reserved_slots == 0 && usage_.doomed_slots == 0 && pinned_bytes() == 0);
}

Result<Reserved> Slab::reserve(uint64_t bytes, uint32_t tenant, Room room) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "a slot of no bytes");
  if (bytes > options_.budget_bytes) return fail(Code::kResourceExhausted, "slot larger than the memory budget");
  const uint64_t stride = stride_of(bytes);
  Reserved reserved;
  std::span<std::byte> unclean;
  // In every round but the last an empty chunk leaves. Who cuts or adds one takes a slot in the same breath.
  for (;;) {
    Leaving leaving;
    Claim claim;
    {
      MutexLock lock(mutex_);
      if (take(bytes, tenant, reserved, unclean)) break;
      if (!try_claim(stride, true, room, claim)) {
        if (cut_an_empty_chunk_again(stride) && take(bytes, tenant, reserved, unclean)) break;
        // When nothing stands empty, what is left of the budget is all there is: a smaller chunk of it.
        if (!detach_any_empty(leaving) && !try_claim(stride, false, room, claim)) {
          return fail(Code::kResourceExhausted, "memory budget spent");
        }
      }
    }
    finish(std::move(leaving));
    if (claim.chunk == kNoChunk) continue;
    // No lock while the kernel finds and clears the pages: others go on. The chunk's number is the claim's alone.
    Result<Mapping> memory = memory_for(claim);
    RHIZOME_RACE_POINT("slab.reserve.before_attach");
    MutexLock lock(mutex_);
    if (!memory) {
      give_up(claim);
      return fail(Code::kResourceExhausted, "the system has no memory");
    }
    attach(claim.chunk, std::move(*memory), claim.cut, claim.cost, {});
    if (take(bytes, tenant, reserved, unclean)) break;
  }
  std::fill(unclean.begin(), unclean.end(), std::byte{0});
  return reserved;
}

SlotRef Slab::commit(Reserved reserved, uint64_t checksum) {
  RHIZOME_CHECK(reserved.slab_ == this);
  const SlotRef ref = reserved.ref_;
  MutexLock lock(mutex_);
  Slot& slot = *slot_of(ref);
  RHIZOME_CHECK(slot.word.view().is(ref.generation, SlotState::kReserved));
  slot.checksum = checksum;
  slot.word.publish({.generation = ref.generation, .state = SlotState::kCommitted});
  --usage_.reserved_slots;
  ++usage_.committed_slots;
  reserved.slab_ = nullptr;
  return ref;
}

Result<Pinned> Slab::pin(SlotRef ref) {
  Slot* const slot = slot_of(ref);
  if (slot == nullptr) return fail(kStale);
  const PinOutcome outcome = slot->word.add_pin(ref.generation);
  if (outcome == PinOutcome::kStale) return fail(kStale);
  if (outcome == PinOutcome::kTooMany) return fail(Code::kResourceExhausted, "too many pins on one slot");
  Pinned pinned;
  pinned.slab_ = this;
  pinned.ref_ = ref;
  pinned.bytes_ = chunks_[ref.chunk()].bytes(static_cast<uint16_t>(ref.place()));
  pinned.checksum_ = slot->checksum;
  if (outcome == PinOutcome::kFirstPin) count_pinned(pinned.bytes_.size());
  return pinned;
}

void Slab::unpin(SlotRef ref, uint64_t bytes) {
  const SlotView before = slot_of(ref)->word.drop_pin();
  // A pin keeps its slot from being reused, so a stale one here would mean a second release.
  RHIZOME_CHECK(before.generation == ref.generation && before.pins > 0);
  if (before.pins > 1) return;
  count_pinned(-bytes);
  if (before.state != SlotState::kDoomed) return;
  RHIZOME_RACE_POINT("slab.release.before_free");
  Leaving leaving;
  {
    MutexLock lock(mutex_);
    --usage_.doomed_slots;
    slot_freed(ref, leaving);
  }
  finish(std::move(leaving));
}

Result<uint32_t> Slab::pins(SlotRef ref) const {
  const Slot* const slot = slot_of(ref);
  if (slot == nullptr) return fail(kStale);
  const SlotView view = slot->word.view();
  if (!view.is(ref.generation, SlotState::kCommitted)) return fail(kStale);
  return view.pins;
}

Status Slab::free(SlotRef ref) {
  const Result<FreeOutcome> outcome = free_up_to(ref, SlotWord::kPinsMax);
  if (!outcome) return fail(outcome.error());
  return {};
}

Result<FreeOutcome> Slab::free_if_unpinned(SlotRef ref, uint32_t own_pins) {
  RHIZOME_CHECK(own_pins <= 1);
  return free_up_to(ref, own_pins);
}

Result<FreeOutcome> Slab::free_up_to(SlotRef ref, uint32_t pins_max) {
  Slot* const slot = slot_of(ref);
  if (slot == nullptr) return fail(kStale);
  Leaving leaving;
  {
    MutexLock lock(mutex_);
    SlotView now = slot->word.view();
    SlotView doomed;
    do {
      if (!now.is(ref.generation, SlotState::kCommitted)) return fail(kStale);
      if (now.pins > pins_max) return FreeOutcome::kPinned;
      RHIZOME_RACE_POINT("slab.free.before_swap");
      doomed = {.generation = now.generation, .state = SlotState::kDoomed, .pins = now.pins};
    } while (!slot->word.exchange(now, doomed));
    --usage_.committed_slots;
    if (doomed.pins > 0) {
      ++usage_.doomed_slots;
    } else {
      slot_freed(ref, leaving);
    }
  }
  finish(std::move(leaving));
  return FreeOutcome::kFreed;
}

Result<SlotRef> Slab::committed(uint32_t index) const {
  SlotRef ref{index, 0};
  const Slot* const slot = slot_of(ref);
  if (slot == nullptr) return fail(kStale);
  const SlotView view = slot->word.view();
  if (view.state != SlotState::kCommitted) return fail(kStale);
  ref.generation = view.generation;
  return ref;
}

Status Slab::charge(uint64_t bytes) {
  for (;;) {
    Leaving leaving;
    {
      MutexLock lock(mutex_);
      if (bytes <= left_bytes(Room::kUsual)) {
        usage_.used_bytes += bytes;
        return {};
      }
      if (!detach_any_empty(leaving)) return fail(Code::kResourceExhausted, "memory budget spent");
    }
    finish(std::move(leaving));
  }
}

SlabUsage Slab::usage() const {
  MutexLock lock(mutex_);
  SlabUsage usage = usage_;
  usage.pinned_bytes = pinned_bytes();
  usage.free_bytes = free_slots_bytes_ + usage.budget_bytes - usage.used_bytes;
  return usage;
}

void Slab::abort(SlotRef ref) {
  Leaving leaving;
  {
    MutexLock lock(mutex_);
    RHIZOME_CHECK(slot_of(ref)->word.view().is(ref.generation, SlotState::kReserved));
    --usage_.reserved_slots;
    slot_freed(ref, leaving);
  }
  finish(std::move(leaving));
}

// A line for each thread: one for all would be the very line that pinning without a lock avoids.
void Slab::count_pinned(uint64_t bytes) {
  const uint32_t own = thread_slot();
  if (own == kThreadSlotShared || own >= kStripes) {
    pinned_[0].bytes.fetch_add(bytes, std::memory_order_relaxed);
  } else {
    std::atomic<uint64_t>& stripe = pinned_[own].bytes;
    stripe.store(stripe.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed);
  }
}

uint64_t Slab::pinned_bytes() const {
  uint64_t bytes = 0;
  // Stripe 0 is everybody's who has none of his own.
  const uint32_t used = std::clamp(thread_slots_end(), 1u, kStripes);
  for (uint32_t i = 0; i < used; ++i)
    bytes += pinned_[i].bytes.load(std::memory_order_relaxed);
  // A pin taken in a stripe already read and released in one read later.
  return static_cast<int64_t>(bytes) < 0 ? 0 : bytes;
}

Slot* Slab::slot_of(SlotRef ref) const {
  return ref.chunk() < chunks_max_ ? chunks_[ref.chunk()].find(ref.place()) : nullptr;
}

}  // namespace rhizome
