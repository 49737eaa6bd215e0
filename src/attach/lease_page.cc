#include "attach/lease_page.h"

#include <algorithm>
#include <bit>

namespace rhizome {

Result<LeaseWriter> LeaseWriter::attach(std::span<std::byte> memory) {
  const Result<LeasePage*> page = find_shared_page<LeasePage>(memory);
  if (!page) return fail(page.error());
  return LeaseWriter(**page);
}

std::optional<uint32_t> LeaseWriter::acquire_slot() {
  uint64_t taken = taken_->load(std::memory_order_relaxed);
  uint32_t slot = 0;
  do {
    slot = static_cast<uint32_t>(std::countr_one(taken));
    if (slot == kLeaseSlots) return std::nullopt;
    // Acquire pairs with the release in give_back(): the slot's last owner is done with it.
  } while (!taken_->compare_exchange_weak(taken, taken | uint64_t{1} << slot, std::memory_order_acquire,
                                          std::memory_order_relaxed));
  uint32_t end = page_->slots_end.load(std::memory_order_relaxed);
  while (end <= slot && !page_->slots_end.compare_exchange_weak(end, slot + 1, std::memory_order_relaxed)) {
  }
  return slot;
}

void LeaseWriter::give_back(uint32_t slot) {
  RHIZOME_CHECK(slot < kLeaseSlots);
  clear(slot);
  const uint64_t bit = uint64_t{1} << slot;
  const uint64_t before = taken_->fetch_and(~bit, std::memory_order_release);  // pairs with acquire_slot()
  RHIZOME_CHECK((before & bit) != 0);
}

void LeaseReader::collect_slots(uint32_t runs_end, std::vector<uint32_t>& out) const {
  const uint32_t end = std::min(page_->slots_end.load(std::memory_order_relaxed), kLeaseSlots);
  for (uint32_t slot = 0; slot < end; ++slot) {
    const uint32_t run = page_->slots[slot].load(std::memory_order_acquire);  // pairs with clear()
    if (run > 0 && run < runs_end) out.push_back(run);
  }
}

void LeaseReader::take_touches(uint32_t runs_end, uint32_t now_tick, std::vector<LeaseTouch>& out) {
  for (uint32_t entry = 0; entry < kLeaseTouches; ++entry) {
    const uint64_t value = page_->touches[entry].load(std::memory_order_relaxed);
    if (value == (*seen_)[entry]) continue;
    (*seen_)[entry] = value;
    const LeaseTouch touch = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
    const bool is_past = now_tick - touch.tick <= uint32_t{INT32_MAX};
    if (touch.run > 0 && touch.run < runs_end && is_past) out.push_back(touch);
  }
}

void collect_pinned_runs(std::span<const LeaseReader* const> readers, uint32_t runs_end, std::vector<uint32_t>& out) {
  out.clear();
  std::atomic_thread_fence(std::memory_order_seq_cst);  // pairs with protect(): see the head of the header
  for (const LeaseReader* const reader : readers)
    reader->collect_slots(runs_end, out);
}

}  // namespace rhizome
