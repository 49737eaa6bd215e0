#include "store/demotion.h"

#include <algorithm>
#include <vector>

#include "contract/check.h"

namespace rhizome {

void Demotion::free_slot(SlotRef slot) {
  const Status freed = slab_.free(slot);
  RHIZOME_CHECK(freed.has_value());
  counters_.add(Counter::kDemotions);
}

size_t Demotion::demote(size_t count, size_t looks_max) {
  if (shared_) {
    std::vector<BlockRef> leaving(count);
    leaving.resize(table_.begin_demotion(leaving, looks_max));
    return end(leaving);
  }
  size_t demoted = 0;
  for (; demoted < count; ++demoted) {
    const std::optional<BlockTable::Demoted> block = table_.demote(looks_max);
    if (!block) break;
    free_slot(block->slot);
  }
  return demoted;
}

bool Demotion::demote(BlockRef ref) {
  if (shared_) return table_.begin_demotion(ref) && end(std::span(&ref, 1)) > 0;
  const std::optional<SlotRef> slot = table_.demote(ref, 0);
  if (slot) free_slot(*slot);
  return slot.has_value();
}

size_t Demotion::end(std::span<const BlockRef> leaving) {
  if (leaving.empty()) return 0;
  std::vector<Location> in_use;
  index_.collect_in_use(in_use);
  std::ranges::sort(in_use);
  size_t demoted = 0;
  for (const BlockRef& ref : leaving) {
    const bool stays = std::ranges::binary_search(in_use, ref.location);
    if (const std::optional<SlotRef> slot = table_.end_demotion(ref, stays)) {
      free_slot(*slot);
      ++demoted;
    }
  }
  return demoted;
}

}  // namespace rhizome
