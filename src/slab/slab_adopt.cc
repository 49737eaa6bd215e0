// Chunks that an earlier process has filled: how the slab comes by them, and lets go of them.
#include <algorithm>
#include <utility>

#include "contract/check.h"
#include "slab/chunk.h"
#include "slab/slab.h"

namespace rhizome {
namespace {

// Whether slots of that stride can lie so in a chunk of `bytes`. `places`: receives them.
bool fit_a_chunk(std::span<const AdoptedSlot> slots, uint64_t stride, uint64_t bytes, std::vector<uint16_t>& places) {
  for (const AdoptedSlot& slot : slots) {
    if (slot.bytes == 0 || stride_of(slot.bytes) != stride || slot.offset % stride != 0) return false;
    if (slot.offset > bytes || stride > bytes - slot.offset || slot.offset / stride >= kChunkSlotsMax) return false;
    places.push_back(static_cast<uint16_t>(slot.offset / stride));
  }
  std::vector<uint16_t> sorted = places;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end();
}

}  // namespace

Result<std::vector<SlotRef>> Slab::adopt(Mapping memory, std::span<const AdoptedSlot> slots, uint64_t free_bytes) {
  const uint64_t bytes = memory.bytes().size();
  if (slots.empty() || slots[0].bytes == 0 || slots[0].bytes > bytes) {
    return fail(Code::kInvalidArgument, "no slot of a chunk");
  }
  const uint64_t stride = stride_of(slots[0].bytes);
  std::vector<uint16_t> places;
  if (!fit_a_chunk(slots, stride, bytes, places)) return fail(Code::kInvalidArgument, "slots that no chunk has");
  ChunkCut cut{.memory_bytes = bytes, .stride = stride};
  // Those that are free are never handed out: what described them costs nothing.
  cut.slots = uint32_t{*std::ranges::max_element(places)} + 1;
  MutexLock lock(mutex_);
  const uint64_t cost_bytes = cost(cut);
  const uint64_t headroom = std::max({headroom_bytes_, cost_bytes, cost(full_cut(stride, chunk_bytes_))});
  uint32_t number = 0;
  if (cost_bytes + headroom + free_bytes > usage_.budget_bytes - usage_.used_bytes || !take_chunk_number(number)) {
    return fail(Code::kResourceExhausted, "memory budget spent");
  }
  Chunk& chunk = chunks_[number];
  if (!chunk.described()) {
    const Status described = chunk.describe();
    if (!described) {
      unused_chunks_.push_back(number);
      return fail(described.error());
    }
  }
  // Before it is given away: until the former name of it is dropped the keeper has it under both.
  if (options_.keeper != nullptr) options_.keeper->keep(KeptKind::kChunk, number, memory);
  usage_.used_bytes += cost_bytes;
  headroom_bytes_ = headroom;
  chunk.attach_adopted(std::move(memory), cut, cost_bytes);
  ++usage_.chunks;
  ++usage_.adopted_chunks;
  usage_.adopted_bytes += cost_bytes;
  std::vector<SlotRef> refs;
  for (size_t i = 0; i < slots.size(); ++i) {
    chunk.adopt(places[i], static_cast<uint8_t>(stride - slots[i].bytes), slots[i].checksum);
    usage_.stored_bytes += slots[i].bytes;
    ++usage_.committed_slots;
    refs.push_back({number << 16 | places[i], chunk.slot(places[i]).word.view().generation});
  }
  return refs;
}

uint32_t Slab::adopted_slots_used(uint32_t number) const {
  MutexLock lock(mutex_);
  return number < chunks_count_ && chunks_[number].adopted() ? chunks_[number].used_count() : 0;
}

// Readers in other processes may have it mapped under its number, so that is never another chunk's.
Slab::Leaving Slab::retire(uint32_t number) {
  Chunk::Detached detached = chunks_[number].detach();
  --usage_.chunks;
  ++usage_.retired_chunks;
  usage_.adopted_bytes -= detached.cost;
  if (--usage_.adopted_chunks == 0) headroom_bytes_ = own_headroom_bytes_;
  return {.memory = std::move(detached.memory), .cost = detached.cost, .adopted_chunk = number};
}

}  // namespace rhizome
