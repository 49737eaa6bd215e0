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

Status Chunk::describe() {
  RHIZOME_CHECK(!described());
  Result<Mapping> description = Mapping::anonymous(description_bytes(kChunkSlotsMax));
  if (!description) return fail(description.error());
  description->prefer_small_pages();
  description_ = std::move(*description);
  // Release pairs with the acquire in find().
  slots_.store(reinterpret_cast<Slot*>(description_.bytes().data()), std::memory_order_release);
  return {};
}

uint64_t Chunk::description_bytes(uint64_t slots) {
  return round_up(slots * sizeof(Slot), kMemoryPageBytes);
}

void Chunk::attach(Mapping memory, const ChunkCut& cut, uint64_t cost, const Writers& writers) {
  RHIZOME_CHECK(!attached() && described() && cut.slots > 0 && cut.slots <= kChunkSlotsMax);
  RHIZOME_CHECK(memory.bytes().size() == cut.memory_bytes && cut.memory_bytes >= cut.stride * cut.slots);
  memory_ = std::move(memory);
  cut_ = cut;
  cost_ = cost;
  tail_writers_ = cut.memory_bytes > cut.stride * cut.slots ? writers : Writers{};
  free_count_ = cut.slots;
  free_head_ = 0;
  for (uint32_t i = 0; i < cut.slots; ++i) {
    Slot& described_slot = slot(static_cast<uint16_t>(i));
    // Readers with a stale name look at the words all the time, and at nothing else.
    described_slot.word.publish({.generation = generation_next_, .state = SlotState::kFree});
    described_slot.next_free = static_cast<uint16_t>(i + 1);
    described_slot.tenant = writers.tenant;
    described_slot.writers = writers.count;
  }
}

void Chunk::attach_adopted(Mapping memory, const ChunkCut& cut, uint64_t cost) {
  attach(std::move(memory), cut, cost, {});
  is_adopted_ = true;
}

void Chunk::adopt(uint16_t place, uint8_t slack, uint64_t checksum) {
  Slot& adopted_slot = slot(place);
  const SlotView view = adopted_slot.word.view();
  RHIZOME_CHECK(is_adopted_ && view.state == SlotState::kFree);
  adopted_slot.slack = slack;
  adopted_slot.checksum = checksum;
  --free_count_;
  adopted_slot.word.publish({.generation = view.generation + 1, .state = SlotState::kCommitted});
}

Chunk::Detached Chunk::detach() {
  RHIZOME_CHECK(attached() && empty());
  Detached detached;
  detached.writers = tail_writers_;
  for (uint32_t i = 0; i < cut_.slots; ++i) {
    const Slot& leaving = slot(static_cast<uint16_t>(i));
    generation_next_ = std::max(generation_next_, leaving.word.view().generation + 1);
    detached.writers.add({leaving.writers, leaving.tenant});
  }
  description_.discard(0, description_bytes(cut_.slots));
  detached.memory = std::move(memory_);
  detached.cost = cost_;
  cut_ = {};
  cost_ = 0;
  free_count_ = 0;
  is_adopted_ = false;
  return detached;
}

uint16_t Chunk::take() {
  RHIZOME_CHECK(!full() && !is_adopted_);
  const uint16_t index = free_head_;
  Slot& taken = slot(index);
  const SlotView view = taken.word.view();
  RHIZOME_CHECK(view.state == SlotState::kFree && view.pins == 0);
  free_head_ = taken.next_free;
  --free_count_;
  taken.word.publish({.generation = view.generation + 1, .state = SlotState::kReserved});
  return index;
}

void Chunk::give_back(uint16_t place) {
  Slot& freed = slot(place);
  const SlotView view = freed.word.view();
  RHIZOME_CHECK((view.state == SlotState::kReserved || view.state == SlotState::kDoomed) && view.pins == 0);
  freed.word.publish({.generation = view.generation, .state = SlotState::kFree});
  freed.next_free = free_head_;
  free_head_ = place;
  ++free_count_;
}

}  // namespace rhizome
