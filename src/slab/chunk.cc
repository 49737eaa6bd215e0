#include "slab/chunk.h"

#include <algorithm>

#include "contract/check.h"

namespace rhizome {

void Writers::add(const Writers& others) {
  if (others.count == Count::kNobody) return;
  if (count == Count::kNobody) {
    *this = others;
  } else if (!others.all_are(tenant)) {
    count = Count::kSeveral;
  }
}

void Chunk::attach(Mapping memory, Slot* slots, const ChunkCut& cut, uint64_t cost, const Writers& writers) {
  RHIZOME_CHECK(!attached() && cut.slots > 0 && cut.slots <= kChunkSlotsMax);
  RHIZOME_CHECK(memory.bytes().size() == cut.memory_bytes && cut.memory_bytes >= cut.stride * cut.slots);
  memory_ = std::move(memory);
  slots_ = slots;
  cut_ = cut;
  cost_ = cost;
  free_count_ = cut.slots;
  free_head_ = 0;
  for (uint32_t i = 0; i < cut.slots; ++i) {
    // Readers with a stale name look at the words all the time, and at nothing else.
    slots_[i].word.publish({.generation = generation_next_, .state = SlotState::kFree});
    slots_[i].next_free = static_cast<uint16_t>(i + 1);
    slots_[i].tenant = writers.tenant;
    slots_[i].writers = writers.count;
  }
}

Chunk::Detached Chunk::detach() {
  RHIZOME_CHECK(attached() && empty());
  Detached detached;
  for (uint32_t i = 0; i < cut_.slots; ++i) {
    generation_next_ = std::max(generation_next_, slots_[i].word.view().generation + 1);
    detached.writers.add({slots_[i].writers, slots_[i].tenant});
  }
  detached.memory = std::move(memory_);
  detached.cost = cost_;
  slots_ = nullptr;
  cut_ = {};
  cost_ = 0;
  free_count_ = 0;
  return detached;
}

uint16_t Chunk::take() {
  RHIZOME_CHECK(!full());
  const uint16_t index = free_head_;
  Slot& taken = slots_[index];
  const SlotView view = taken.word.view();
  RHIZOME_CHECK(view.state == SlotState::kFree && view.pins == 0);
  free_head_ = taken.next_free;
  --free_count_;
  taken.word.publish({.generation = view.generation + 1, .state = SlotState::kReserved});
  return index;
}

void Chunk::give_back(uint16_t slot) {
  Slot& freed = slots_[slot];
  const SlotView view = freed.word.view();
  RHIZOME_CHECK((view.state == SlotState::kReserved || view.state == SlotState::kDoomed) && view.pins == 0);
  freed.word.publish({.generation = view.generation, .state = SlotState::kFree});
  freed.next_free = free_head_;
  free_head_ = slot;
  ++free_count_;
}

}  // namespace rhizome
