#include "slab/chunk.h"

#include <algorithm>

#include "contract/check.h"

namespace rhizome {

void Chunk::attach(Mapping memory, uint64_t slot_bytes, uint64_t stride, uint32_t slots_count) {
  RHIZOME_CHECK(!attached() && slots_count > 0 && slots_count <= kSlotsMax);
  RHIZOME_CHECK(memory.bytes().size() >= stride * slots_count && stride >= slot_bytes);
  memory_ = std::move(memory);
  slots_ = std::make_unique<Slot[]>(slots_count);
  slot_bytes_ = slot_bytes;
  stride_ = stride;
  slots_count_ = slots_count;
  free_count_ = slots_count;
  free_head_ = 0;
  for (uint32_t i = 0; i < slots_count; ++i) {
    slots_[i].generation = generation_next_;
    slots_[i].next_free = static_cast<uint16_t>(i + 1);
  }
}

Mapping Chunk::detach() {
  RHIZOME_CHECK(attached() && empty());
  for (uint32_t i = 0; i < slots_count_; ++i)
    generation_next_ = std::max(generation_next_, slots_[i].generation + 1);
  slots_.reset();
  slots_count_ = 0;
  free_count_ = 0;
  return std::move(memory_);
}

uint16_t Chunk::take() {
  RHIZOME_CHECK(!full());
  const uint16_t index = free_head_;
  Slot& taken = slots_[index];
  RHIZOME_CHECK(taken.state == SlotState::kFree && taken.pins == 0);
  free_head_ = taken.next_free;
  --free_count_;
  ++taken.generation;
  taken.state = SlotState::kReserved;
  return index;
}

void Chunk::give_back(uint16_t slot) {
  Slot& freed = slots_[slot];
  RHIZOME_CHECK(freed.state != SlotState::kFree && freed.pins == 0);
  freed.state = SlotState::kFree;
  freed.next_free = free_head_;
  free_head_ = slot;
  ++free_count_;
}

}  // namespace rhizome
