#include "residency/sieve_order.h"

#include "contract/check.h"

namespace rhizome {

void SieveOrder::add(uint32_t block) {
  if (block >= entries_.size()) entries_.resize(size_t{block} + 1);
  Entry& entry = entries_[block];
  RHIZOME_CHECK(!entry.is_in);
  entry = {.older = youngest_, .younger = kNone, .is_in = true, .is_used = false};
  (youngest_ == kNone ? oldest_ : entries_[youngest_].younger) = block;
  youngest_ = block;
  ++size_;
}

void SieveOrder::remove(uint32_t block) {
  RHIZOME_CHECK(contains(block));
  Entry& entry = entries_[block];
  if (hand_ == block) hand_ = entry.younger;
  (entry.older == kNone ? oldest_ : entries_[entry.older].younger) = entry.younger;
  (entry.younger == kNone ? youngest_ : entries_[entry.younger].older) = entry.older;
  entry = {};
  --size_;
}

void SieveOrder::use(uint32_t block) {
  if (contains(block)) entries_[block].is_used = true;
}

uint32_t SieveOrder::next(const std::function<bool(uint32_t)>& may_leave, size_t looks_max) {
  for (size_t looks = 0; looks < looks_max && size_ > 0; ++looks) {
    if (hand_ == kNone) hand_ = oldest_;
    const uint32_t block = hand_;
    Entry& entry = entries_[block];
    if (!entry.is_used && may_leave(block)) return block;
    // One that must stay for now keeps its mark: it is no younger for having been in somebody's hands.
    if (entry.is_used) entry.is_used = false;
    hand_ = entry.younger;
  }
  return kNone;
}

}  // namespace rhizome
