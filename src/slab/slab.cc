#include "slab/slab.h"

#include <algorithm>
#include <utility>

#include "contract/check.h"
#include "slab/chunk.h"

namespace rhizome {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kChunkBytesMin = 64 << 10;
constexpr uint64_t kChunkBytesMax = 2 << 20;
// A slot's number is its chunk's and its place there, 16 bits each.
constexpr uint32_t kChunksMax = 1 << 16;
// What std::map and std::set keep for a chunk that is alone in its size.
constexpr uint64_t kBookkeepingBytes = 256;

constexpr Error kStale{Code::kFailedPrecondition, "stale slot"};

uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Large enough that page faults come in big steps, small enough that a small budget has many, and
// that a huge one stays below the number of chunks that can be named.
uint64_t choose_chunk_bytes(uint64_t budget_bytes) {
  const uint64_t usual = std::clamp(round_up(budget_bytes / 64, kPageBytes), kChunkBytesMin, kChunkBytesMax);
  return std::max(usual, round_up(budget_bytes / 8192, kPageBytes));
}

uint16_t place(SlotRef ref) {
  return static_cast<uint16_t>(ref.index & 0xFFFF);
}
uint32_t chunk_of(SlotRef ref) {
  return ref.index >> 16;
}

}  // namespace

Result<std::unique_ptr<Slab>> Slab::create(const SlabOptions& options) {
  std::unique_ptr<Slab> slab(new Slab(options));
  const SlabUsage usage = slab->usage();
  if (usage.used_bytes >= usage.budget_bytes) return fail(Code::kInvalidArgument, "memory budget too small");
  return slab;
}

Slab::Slab(const SlabOptions& options)
    : options_(options),
      chunk_bytes_(choose_chunk_bytes(options.budget_bytes)),
      // Twice as many as full chunks would be: slots just above half a chunk leave the rest of it out.
      chunks_max_(
          static_cast<uint32_t>(std::min<uint64_t>(kChunksMax, 2 * (options.budget_bytes / chunk_bytes_) + 16))) {
  usage_.budget_bytes = options.budget_bytes;
  usage_.used_bytes = sizeof(Slab) + chunks_max_ * (sizeof(Chunk) + sizeof(uint32_t));
  chunks_.reserve(chunks_max_);
  unused_chunks_.reserve(chunks_max_);
}

Slab::~Slab() {
  MutexLock lock(mutex_);
  RHIZOME_CHECK(usage_.reserved_slots == 0 && usage_.pinned_bytes == 0);
}

Result<Reserved> Slab::reserve(uint64_t bytes) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "a slot of no bytes");
  if (bytes > options_.budget_bytes) return fail(Code::kResourceExhausted, "slot larger than the memory budget");
  {
    MutexLock lock(mutex_);
    const auto found = classes_.find(bytes);
    if (found != classes_.end() && !found->second.open.empty()) return take(bytes, found->second);
  }
  const Result<Claim> claimed = claim(bytes);
  if (!claimed) return fail(claimed.error());
  // No lock while the kernel finds and clears the pages: readers go on.
  Result<Mapping> memory =
      Mapping::anonymous(round_up(stride(bytes) * claimed->slots, kPageBytes), Mapping::Pages::kPrefault);
  MutexLock lock(mutex_);
  if (!memory) {
    usage_.used_bytes -= claimed->cost;
    unused_chunks_.push_back(claimed->chunk);
    return fail(Code::kResourceExhausted, "the system has no memory");
  }
  chunks_[claimed->chunk].attach(std::move(*memory), bytes, stride(bytes), claimed->slots);
  ++usage_.chunks;
  SizeClass& size_class = classes_[bytes];
  ++size_class.chunks;
  size_class.open.insert(claimed->chunk);
  return take(bytes, size_class);
}

SlotRef Slab::commit(Reserved reserved, uint64_t checksum) {
  RHIZOME_CHECK(reserved.slab_ == this);
  const SlotRef ref = reserved.ref_;
  MutexLock lock(mutex_);
  Slot& slot = chunks_[chunk_of(ref)].slot(place(ref));
  RHIZOME_CHECK(slot.state == SlotState::kReserved && slot.generation == ref.generation);
  slot.checksum = checksum;
  slot.state = SlotState::kCommitted;
  --usage_.reserved_slots;
  ++usage_.committed_slots;
  reserved.slab_ = nullptr;
  return ref;
}

Result<Pinned> Slab::pin(SlotRef ref) {
  MutexLock lock(mutex_);
  Chunk* chunk = find(ref);
  if (chunk == nullptr || chunk->slot(place(ref)).state != SlotState::kCommitted) return fail(kStale);
  Slot& slot = chunk->slot(place(ref));
  if (slot.pins++ == 0) usage_.pinned_bytes += chunk->slot_bytes();
  Pinned pinned;
  pinned.slab_ = this;
  pinned.ref_ = ref;
  pinned.bytes_ = chunk->bytes(place(ref));
  pinned.checksum_ = slot.checksum;
  return pinned;
}

Status Slab::free(SlotRef ref) {
  Leaving leaving;
  {
    MutexLock lock(mutex_);
    Chunk* chunk = find(ref);
    if (chunk == nullptr || chunk->slot(place(ref)).state != SlotState::kCommitted) return fail(kStale);
    Slot& slot = chunk->slot(place(ref));
    --usage_.committed_slots;
    if (slot.pins > 0) {
      slot.state = SlotState::kDoomed;
      ++usage_.doomed_slots;
      return {};
    }
    slot_freed(ref, leaving);
  }
  finish(std::move(leaving));
  return {};
}

Result<SlotRef> Slab::committed(uint32_t index) const {
  MutexLock lock(mutex_);
  const SlotRef ref{index, 0};
  if (chunk_of(ref) >= chunks_.size()) return fail(kStale);
  const Chunk& chunk = chunks_[chunk_of(ref)];
  if (!chunk.attached() || place(ref) >= chunk.slots_count()) return fail(kStale);
  const Slot& slot = chunk.slot(place(ref));
  if (slot.state != SlotState::kCommitted) return fail(kStale);
  return SlotRef{index, slot.generation};
}

Status Slab::charge(uint64_t bytes) {
  for (;;) {
    Leaving leaving;
    {
      MutexLock lock(mutex_);
      if (bytes <= usage_.budget_bytes - usage_.used_bytes) {
        usage_.used_bytes += bytes;
        return {};
      }
      if (!detach_any_empty(leaving)) return fail(Code::kResourceExhausted, "memory budget spent");
    }
    finish(std::move(leaving));
  }
}

bool Slab::can_ever_hold(uint64_t bytes) const {
  if (bytes == 0 || bytes > options_.budget_bytes) return false;
  MutexLock lock(mutex_);
  uint64_t chunks_cost = 0;
  for (const Chunk& chunk : chunks_) {
    if (chunk.attached()) chunks_cost += cost(chunk.slot_bytes(), chunk.slots_count());
  }
  // A chunk that is claimed and not attached yet makes this too small by one chunk for a moment.
  return cost(bytes, 1) <= usage_.budget_bytes - (usage_.used_bytes - chunks_cost);
}

void Slab::trim() {
  for (;;) {
    Leaving leaving;
    {
      MutexLock lock(mutex_);
      if (!detach_any_empty(leaving)) return;
    }
    finish(std::move(leaving));
  }
}

SlabUsage Slab::usage() const {
  MutexLock lock(mutex_);
  return usage_;
}

void Slab::abort(SlotRef ref) {
  Leaving leaving;
  {
    MutexLock lock(mutex_);
    const Slot& slot = chunks_[chunk_of(ref)].slot(place(ref));
    RHIZOME_CHECK(slot.state == SlotState::kReserved && slot.generation == ref.generation);
    --usage_.reserved_slots;
    slot_freed(ref, leaving);
  }
  finish(std::move(leaving));
}

void Slab::unpin(SlotRef ref) {
  Leaving leaving;
  {
    MutexLock lock(mutex_);
    Chunk* chunk = find(ref);
    // A pin keeps its slot from being reused, so a stale one here would mean a second release.
    RHIZOME_CHECK(chunk != nullptr);
    Slot& slot = chunk->slot(place(ref));
    RHIZOME_CHECK(slot.pins > 0);
    if (--slot.pins > 0) return;
    usage_.pinned_bytes -= chunk->slot_bytes();
    if (slot.state != SlotState::kDoomed) return;
    --usage_.doomed_slots;
    slot_freed(ref, leaving);
  }
  finish(std::move(leaving));
}

uint64_t Slab::stride(uint64_t bytes) const {
  return round_up(bytes, kAlignment);
}

uint64_t Slab::cost(uint64_t bytes, uint64_t slots) const {
  return round_up(stride(bytes) * slots, kPageBytes) + slots * (sizeof(Slot) + options_.overhead_bytes) +
         kBookkeepingBytes;
}

// As many slots as a chunk of the usual size has, at least one, and fewer where the budget is short.
uint32_t Slab::slots_that_fit(uint64_t bytes, uint64_t budget_bytes) const {
  const uint64_t usual = std::clamp<uint64_t>(chunk_bytes_ / stride(bytes), 1, Chunk::kSlotsMax);
  const uint64_t each = stride(bytes) + sizeof(Slot) + options_.overhead_bytes;
  uint64_t slots = std::min(usual, budget_bytes / each);
  while (slots > 0 && cost(bytes, slots) > budget_bytes)
    --slots;
  return static_cast<uint32_t>(slots);
}

Result<Slab::Claim> Slab::claim(uint64_t bytes) {
  for (;;) {
    Leaving leaving;
    {
      MutexLock lock(mutex_);
      Claim claim;
      if (try_claim(bytes, slots_that_fit(bytes, UINT64_MAX), claim)) return claim;
      if (!detach_any_empty(leaving)) {
        // Nothing stands empty, so what is left of the budget is all there is: a smaller chunk of it.
        if (try_claim(bytes, 1, claim)) return claim;
        return fail(Code::kResourceExhausted, "memory budget spent");
      }
    }
    finish(std::move(leaving));
  }
}

bool Slab::try_claim(uint64_t bytes, uint32_t slots_min, Claim& claim) {
  const uint32_t slots = slots_that_fit(bytes, usage_.budget_bytes - usage_.used_bytes);
  if (slots < slots_min) return false;
  if (!unused_chunks_.empty()) {
    claim.chunk = unused_chunks_.back();
    unused_chunks_.pop_back();
  } else if (chunks_.size() < chunks_max_) {
    claim.chunk = static_cast<uint32_t>(chunks_.size());
    chunks_.emplace_back();
  } else {
    return false;
  }
  claim.slots = slots;
  claim.cost = cost(bytes, slots);
  usage_.used_bytes += claim.cost;
  return true;
}

Reserved Slab::take(uint64_t bytes, SizeClass& size_class) {
  const uint32_t number = *size_class.open.begin();
  Chunk& chunk = chunks_[number];
  if (size_class.empty == number) size_class.empty = kNoChunk;
  const uint16_t slot = chunk.take();
  if (chunk.full()) size_class.open.erase(number);
  ++usage_.reserved_slots;
  usage_.stored_bytes += bytes;
  Reserved reserved;
  reserved.slab_ = this;
  reserved.ref_ = {number << 16 | slot, chunk.slot(slot).generation};
  reserved.bytes_ = chunk.bytes(slot);
  return reserved;
}

Chunk* Slab::find(SlotRef ref) {
  if (chunk_of(ref) >= chunks_.size()) return nullptr;
  Chunk& chunk = chunks_[chunk_of(ref)];
  if (!chunk.attached() || place(ref) >= chunk.slots_count()) return nullptr;
  const Slot& slot = chunk.slot(place(ref));
  const bool live = slot.state == SlotState::kCommitted || slot.state == SlotState::kDoomed;
  return live && slot.generation == ref.generation ? &chunk : nullptr;
}

void Slab::slot_freed(SlotRef ref, Leaving& leaving) {
  const uint32_t number = chunk_of(ref);
  Chunk& chunk = chunks_[number];
  usage_.stored_bytes -= chunk.slot_bytes();
  chunk.give_back(place(ref));
  SizeClass& size_class = classes_.at(chunk.slot_bytes());
  size_class.open.insert(number);
  if (!chunk.empty()) return;
  // One empty chunk stays: a cache that is full frees a slot and takes it again all the time.
  if (size_class.empty == kNoChunk) {
    size_class.empty = number;
  } else {
    leaving = detach(number);
  }
}

Slab::Leaving Slab::detach(uint32_t number) {
  Chunk& chunk = chunks_[number];
  const uint64_t bytes = chunk.slot_bytes();
  Leaving leaving;
  leaving.cost = cost(bytes, chunk.slots_count());
  leaving.memory = chunk.detach();
  unused_chunks_.push_back(number);
  --usage_.chunks;
  SizeClass& size_class = classes_.at(bytes);
  size_class.open.erase(number);
  if (size_class.empty == number) size_class.empty = kNoChunk;
  if (--size_class.chunks == 0) classes_.erase(bytes);
  return leaving;
}

bool Slab::detach_any_empty(Leaving& leaving) {
  for (const auto& [bytes, size_class] : classes_) {
    if (size_class.empty == kNoChunk) continue;
    leaving = detach(size_class.empty);
    return true;
  }
  return false;
}

void Slab::finish(Leaving leaving) {
  if (leaving.cost == 0) return;
  leaving.memory.reset();
  MutexLock lock(mutex_);
  usage_.used_bytes -= leaving.cost;
}

}  // namespace rhizome
