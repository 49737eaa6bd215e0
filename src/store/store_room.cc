// Room: who leaves when memory is short, and what happens to what left.
#include <algorithm>
#include <array>
#include <vector>

#include "contract/check.h"
#include "store/store.h"

namespace rhizome {
namespace {

// Blocks that a search for one that may be demoted looks at.
constexpr size_t kLooksMax = 1024;
// Looking for readers in other processes is done for some blocks at a time.
constexpr size_t kSharedDemotions = 16;
// Blocks that leave the index at once because only memory was short and nothing in memory could leave before them.
constexpr size_t kBelowAtOnce = 16;

}  // namespace

// A keyspace is its tenant's alone, so what the slab clears between keyspaces it clears between tenants.
std::optional<Reserved> Store::take_slot(const Opened& keyspace) {
  for (;;) {
    Result<Reserved> slot = slab_->reserve(keyspace.form.slot_bytes, keyspace.root.value);
    if (slot) return std::move(*slot);
    if (slot.error().code != Code::kResourceExhausted || !make_room()) return std::nullopt;
  }
}

// What the tier has leaves first: nothing is lost. Then what only memory has, ends first.
bool Store::make_room() {
  // What readers in other processes held when it was removed: nobody tells when they let go.
  if (remote_uses_ != nullptr && reap()) return true;
  if (make_room_of_adopted()) return true;
  if (mover_ == nullptr) return evict(1, false) > 0;
  note_remote_uses();
  if (demotion_.demote(remote_uses_ == nullptr ? 1 : kSharedDemotions, kLooksMax) > 0) return true;
  mover_->press();
  mover_->wake();
  if (evict(1, true) > 0) return true;
  // All ends are below: they go, so that what they hang from can. Not when all of that is in somebody's hands.
  const BlockCounts counts = table_.counts();
  return counts.resident > counts.pinned && evict(kBelowAtOnce, false) > 0;
}

void Store::note_remote_uses() {
  if (remote_uses_ == nullptr) return;
  index_.take_touches();
  std::vector<Location> used;
  for (const RunId run : remote_uses_->take())
    index_.collect_path(run, used);
  if (!used.empty()) table_.use_all(used);
}

uint64_t Store::bytes_on_paths(std::span<const RunId> runs) const {
  std::vector<Location> locations;
  for (const RunId run : runs)
    index_.collect_path(run, locations);
  std::ranges::sort(locations);
  locations.erase(std::unique(locations.begin(), locations.end()), locations.end());
  std::vector<uint32_t> keyspaces;
  table_.collect_keyspaces(locations, keyspaces);
  uint64_t bytes = 0;
  for (const uint32_t keyspace : keyspaces) {
    const Opened* const found = opened_[keyspace].load(std::memory_order_acquire);
    if (found != nullptr) bytes += found->form.slot_bytes;
  }
  return bytes;
}

std::vector<KeyspaceUsage> Store::keyspace_usages() const {
  const std::vector<KeyspaceCounts> counts = table_.counts_by_keyspace(options_.keyspaces_max);
  std::vector<KeyspaceUsage> usages;
  for (uint32_t number = 1; number <= options_.keyspaces_max; ++number) {
    const Opened* const found = opened_[number].load(std::memory_order_acquire);  // pairs with the release in open()
    if (found == nullptr) continue;
    usages.push_back({found->root, &found->keyspace, found->form.slot_bytes, counts[number]});
  }
  return usages;
}

size_t Store::evict(size_t blocks, bool resident_only) {
  std::array<Location, kBelowAtOnce> victims;
  const auto out = std::span(victims).first(std::min(blocks, victims.size()));
  const size_t count = resident_only
                           ? index_.evict_if(out, [this](Location at) { return table_.is_resident_and_free(at); })
                           : index_.evict(out);
  if (count == 0) return 0;
  counters_.add(Counter::kEvictions, count);
  forget(out.first(count));
  return count;
}

// What describes blocks in the tier is bounded, too; the tier may keep what nobody can find any more, until it needs
// the place.
void Store::keep_below_bounded() {
  std::array<Location, 64> victims;
  while (table_.counts().below > below_max_) {
    const size_t count = index_.evict_if(victims, [this](Location at) { return table_.is_below(at); });
    if (count == 0) return;
    counters_.add(Counter::kEvictions, count);
    forget(std::span(victims).first(count));
  }
}

void Store::free_slot(SlotRef ref) {
  const Status freed = slab_->free(ref);
  RHIZOME_CHECK(freed.has_value());
}

void Store::forget(std::span<const Location> locations) {
  for (const Location location : locations) {
    if (const std::optional<SlotRef> slot = table_.forget(location)) free_slot(*slot);
  }
}

bool Store::reap() {
  std::array<Location, 32> gone;
  bool any = false;
  while (const size_t count = index_.reap(gone)) {
    forget(std::span(gone).first(count));
    any = true;
  }
  if (any) publish_used();
  return any;
}

// What the tier has forgotten and memory has not is found no more, nor is what continues it.
void Store::forget_gone() {
  index_.remove_if([this](Location at) { return table_.is_gone(at); });
  reap();
}

void Store::count_pinned(const Opened& keyspace, uint32_t blocks_before, uint32_t blocks_now) {
  const uint64_t bytes = keyspace.form.slot_bytes;
  if (blocks_now > blocks_before) {
    counters_.add(Counter::kMemoryPinned, (blocks_now - blocks_before) * bytes);
  } else if (blocks_now < blocks_before) {
    counters_.sub(Counter::kMemoryPinned, (blocks_before - blocks_now) * bytes);
  }
}

void Store::publish_used() {
  // Held across the calls below: what is read and what the gauges then say must be one step, else an older value could
  // overwrite a newer one and stay. Slab and table do not call up.
  MutexLock lock(used_mutex_);
  const SlabUsage slab = slab_->usage();
  counters_.set(Counter::kMemoryUsed, slab.used_bytes);
  counters_.set(Counter::kMemoryAdopted, slab.adopted_bytes);
  counters_.set(Counter::kBlocksStored, table_.counts().resident);
}

}  // namespace rhizome
