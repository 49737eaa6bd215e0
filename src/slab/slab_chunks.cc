// How the slab comes by its chunks and gives them up again.
#include <algorithm>
#include <utility>

#include "contract/check.h"
#include "slab/chunk.h"
#include "slab/slab.h"

namespace rhizome {
namespace {

// What std::map and std::set keep for a chunk that is alone in its stride.
constexpr uint64_t kBookkeepingBytes = 256;
// No more of a budget than one of so many parts is left to whoever takes the chunks over.
constexpr uint64_t kShareOfHeadroom = 8;

}  // namespace

bool Slab::can_ever_hold(uint64_t bytes) const {
  if (bytes == 0 || bytes > options_.budget_bytes) return false;
  MutexLock lock(mutex_);
  uint64_t chunks_cost = 0;
  for (uint32_t i = 0; i < chunks_count_; ++i)
    chunks_cost += chunks_[i].cost();
  // A chunk that is claimed and not attached yet makes this too small by one chunk for a moment.
  const uint64_t left = usage_.budget_bytes - (usage_.used_bytes - chunks_cost);
  return cost(tight_cut(stride_of(bytes), 1)) + own_headroom_bytes_ <= left;
}

std::optional<SpareChunk> Slab::emptiest_chunk(uint64_t bytes) const {
  if (bytes == 0 || bytes > options_.budget_bytes) return std::nullopt;
  const uint64_t stride = stride_of(bytes);
  const uint64_t cost_wanted = cost(tight_cut(stride, 1));
  std::vector<std::pair<uint64_t, uint32_t>> candidates;  // bytes in use, chunk
  MutexLock lock(mutex_);
  const uint64_t left = usage_.budget_bytes - usage_.used_bytes;
  for (uint32_t i = 0; i < chunks_count_; ++i) {
    const Chunk& chunk = chunks_[i];
    if (!chunk.attached() || chunk.adopted() || chunk.stride() == stride || chunk.cost() + left < cost_wanted) continue;
    candidates.emplace_back(chunk.used_count() * chunk.stride(), i);
  }
  std::sort(candidates.begin(), candidates.end());
  for (const auto& [used, number] : candidates) {
    const Chunk& chunk = chunks_[number];
    SpareChunk spare;
    spare.chunk = number;
    bool movable = true;
    for (uint32_t place = 0; place < chunk.slots_count() && movable; ++place) {
      const SlotView view = chunk.slot(static_cast<uint16_t>(place)).word.view();
      if (view.state == SlotState::kFree) continue;
      movable = view.state == SlotState::kCommitted && view.pins == 0;
      spare.slots.push_back({number << 16 | place, view.generation});
      spare.stored_bytes += chunk.bytes(static_cast<uint16_t>(place)).size();
    }
    if (movable) return spare;
  }
  return std::nullopt;
}

Result<ChunkLayout> Slab::chunk_layout(uint32_t number) const {
  MutexLock lock(mutex_);
  if (number >= chunks_count_ || !chunks_[number].attached()) return fail(Code::kNotFound, "no such chunk");
  const Chunk& chunk = chunks_[number];
  return ChunkLayout{.descriptor = chunk.descriptor(),
                     .bytes = chunk.memory_bytes(),
                     .stride = chunk.stride(),
                     .slots = chunk.slots_count()};
}

BlockPlace Slab::place(SlotRef ref) const {
  const Slot* const slot = slot_of(ref);
  RHIZOME_CHECK(slot != nullptr && slot->word.view().is(ref.generation, SlotState::kCommitted));
  const uint64_t offset = ref.place() * chunks_[ref.chunk()].stride();
  return {ref.chunk(), static_cast<uint32_t>(offset / BlockPlace::kUnitBytes), slot->checksum};
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

uint64_t Slab::cost(const ChunkCut& cut) const {
  return cut.memory_bytes + Chunk::description_bytes(cut.slots) + cut.slots * options_.overhead_bytes +
         kBookkeepingBytes;
}

bool Slab::take(uint64_t bytes, uint32_t tenant, Reserved& reserved, std::span<std::byte>& unclean) {
  const uint64_t stride = stride_of(bytes);
  const auto found = classes_.find(stride);
  if (found == classes_.end() || found->second.open.empty()) return false;
  SizeClass& size_class = found->second;
  const uint32_t number = *size_class.open.begin();
  Chunk& chunk = chunks_[number];
  size_class.empty.erase(number);
  const uint16_t place = chunk.take();
  free_slots_bytes_ -= slot_cost(stride);
  if (chunk.full()) size_class.open.erase(number);
  Slot& slot = chunk.slot(place);
  slot.slack = static_cast<uint8_t>(stride - bytes);
  const Writers before{slot.writers, slot.tenant};
  if (!before.all_are(tenant)) {
    unclean = chunk.room(place);
    usage_.cleared_bytes += stride;
  }
  slot.writers = Writers::Count::kOne;
  slot.tenant = tenant;
  ++usage_.reserved_slots;
  usage_.stored_bytes += bytes;
  reserved.slab_ = this;
  reserved.ref_ = {number << 16 | place, slot.word.view().generation};
  reserved.bytes_ = chunk.bytes(place);
  return true;
}

// The headroom may be in use already, by who may use it.
uint64_t Slab::left_bytes(Room room) const {
  const uint64_t left = usage_.budget_bytes - usage_.used_bytes;
  return room == Room::kWithHeadroom ? left : left - std::min(left, headroom_bytes_);
}

// What takes its chunks over needs a table of them besides.
void Slab::leave_room_for_next(uint64_t stride) {
  if (options_.keeper == nullptr) return;
  const uint64_t bytes = cost(full_cut(stride, chunk_bytes_)) + chunks_max_ * (sizeof(Chunk) + sizeof(uint32_t));
  if (bytes > usage_.budget_bytes / kShareOfHeadroom) return;
  own_headroom_bytes_ = std::max(own_headroom_bytes_, bytes);
  headroom_bytes_ = std::max(headroom_bytes_, own_headroom_bytes_);
}

bool Slab::take_chunk_number(uint32_t& number) {
  if (!unused_chunks_.empty()) {
    number = unused_chunks_.back();
    unused_chunks_.pop_back();
    return true;
  }
  if (chunks_count_ == chunks_max_) return false;
  number = chunks_count_++;
  return true;
}

bool Slab::try_claim(uint64_t stride, bool full, Room room, Claim& claim) {
  leave_room_for_next(stride);
  const uint64_t left = left_bytes(room);
  ChunkCut cut = full_cut(stride, chunk_bytes_);
  if (cost(cut) > left) {
    if (full) return false;
    const uint64_t fit = left / (stride + sizeof(Slot) + options_.overhead_bytes);
    cut = tight_cut(stride, static_cast<uint32_t>(std::min<uint64_t>(fit, cut.slots)));
    while (cut.slots > 0 && cost(cut) > left)
      cut = tight_cut(stride, cut.slots - 1);
    if (cut.slots == 0) return false;
  }
  if (!take_chunk_number(claim.chunk)) return false;
  claim.cut = cut;
  claim.cost = cost(cut);
  usage_.used_bytes += claim.cost;
  return true;
}

Result<Mapping> Slab::memory_for(const Claim& claim) {
  Chunk& chunk = chunks_[claim.chunk];
  if (!chunk.described()) {
    const Status described = chunk.describe();
    if (!described) return fail(described.error());
  }
  if (!options_.shareable) return Mapping::resident(claim.cut.memory_bytes);
  Result<Mapping> memory = Mapping::shareable(claim.cut.memory_bytes);
  if (memory && options_.keeper != nullptr) options_.keeper->keep(KeptKind::kChunk, claim.chunk, *memory);
  return memory;
}

void Slab::give_up(const Claim& claim) {
  usage_.used_bytes -= claim.cost;
  unused_chunks_.push_back(claim.chunk);
}

bool Slab::cut_an_empty_chunk_again(uint64_t stride) {
  const uint64_t left = usage_.budget_bytes - usage_.used_bytes;
  for (const auto& [other, size_class] : classes_) {
    if (size_class.empty.empty()) continue;
    const uint32_t number = *size_class.empty.begin();
    const ChunkCut cut = cut_again(stride, chunks_[number].memory_bytes());
    const uint64_t cost_before = chunks_[number].cost();
    if (cut.slots == 0 || cost(cut) > cost_before + left) continue;
    free_slots_bytes_ -= chunks_[number].slots_count() * slot_cost(other);
    Chunk::Detached detached = chunks_[number].detach();
    forget(number, other);  // `other` and `size_class` may be gone now
    usage_.used_bytes = usage_.used_bytes - cost_before + cost(cut);
    ++usage_.chunks_cut_again;
    attach(number, std::move(detached.memory), cut, cost(cut), detached.writers);
    return true;
  }
  return false;
}

void Slab::attach(uint32_t number, Mapping memory, const ChunkCut& cut, uint64_t cost_bytes, const Writers& writers) {
  chunks_[number].attach(std::move(memory), cut, cost_bytes, writers);
  free_slots_bytes_ += cut.slots * slot_cost(cut.stride);
  ++usage_.chunks;
  SizeClass& size_class = classes_[cut.stride];
  ++size_class.chunks;
  size_class.open.insert(number);
  // Whom it was taken for may find a slot in another one by now.
  size_class.empty.insert(number);
}

void Slab::slot_freed(SlotRef ref, Leaving& leaving) {
  const uint32_t number = ref.chunk();
  const uint16_t place = static_cast<uint16_t>(ref.place());
  Chunk& chunk = chunks_[number];
  usage_.stored_bytes -= chunk.bytes(place).size();
  chunk.give_back(place);
  if (chunk.adopted()) {
    if (chunk.empty()) leaving = retire(number);
    return;
  }
  free_slots_bytes_ += slot_cost(chunk.stride());
  SizeClass& size_class = classes_.at(chunk.stride());
  size_class.open.insert(number);
  if (!chunk.empty()) return;
  // One empty chunk stays: a cache that is full frees a slot and takes it again all the time.
  if (size_class.empty.empty() || options_.keeps_chunks) {
    size_class.empty.insert(number);
  } else {
    leaving = detach(number);
  }
}

void Slab::forget(uint32_t number, uint64_t stride) {
  --usage_.chunks;
  SizeClass& size_class = classes_.at(stride);
  size_class.open.erase(number);
  size_class.empty.erase(number);
  if (--size_class.chunks == 0) classes_.erase(stride);
}

Slab::Leaving Slab::detach(uint32_t number) {
  Chunk& chunk = chunks_[number];
  const uint64_t stride = chunk.stride();
  free_slots_bytes_ -= chunk.slots_count() * slot_cost(stride);
  Chunk::Detached detached = chunk.detach();
  unused_chunks_.push_back(number);
  forget(number, stride);
  return {.memory = std::move(detached.memory), .cost = detached.cost};
}

bool Slab::detach_any_empty(Leaving& leaving) {
  if (options_.keeps_chunks) return false;
  for (const auto& [stride, size_class] : classes_) {
    if (size_class.empty.empty()) continue;
    leaving = detach(*size_class.empty.begin());
    return true;
  }
  return false;
}

void Slab::finish(Leaving leaving) {
  if (leaving.cost == 0) return;
  leaving.memory.reset();
  if (leaving.adopted_chunk != kNoChunk && options_.keeper != nullptr) {
    options_.keeper->drop(KeptKind::kChunk, leaving.adopted_chunk);
  }
  MutexLock lock(mutex_);
  usage_.used_bytes -= leaving.cost;
}

}  // namespace rhizome
