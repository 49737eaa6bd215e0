#include "store/block_table.h"

#include <algorithm>
#include <utility>

#include "contract/check.h"

namespace rhizome {
namespace {

constexpr uint8_t kUsesMax = 255;
constexpr size_t kQueueSlack = 1024;
// Others wait as long as that many blocks take.
constexpr size_t kCountedAtOnce = 4096;

uint64_t hash_of(const BlockKey& key) {
  return BlockKeyHash()(key);
}

}  // namespace

uint64_t BlockTable::block_bytes() {
  constexpr uint64_t queue = 2 * sizeof(BlockRef);
  constexpr uint64_t map = sizeof(BlockKey) + 4 * sizeof(void*);
  // Vectors double.
  return sizeof(Block) + sizeof(Location) + 2 * SieveOrder::bytes_for(1) + queue + map;
}

Location BlockTable::take() {
  if (free_.empty()) {
    RHIZOME_CHECK(blocks_.size() < UINT32_MAX);
    blocks_.emplace_back();
    return static_cast<Location>(blocks_.size() - 1);
  }
  const Location location = free_.back();
  free_.pop_back();
  return location;
}

BlockTable::Block* BlockTable::current(BlockRef ref) {
  if (ref.location >= blocks_.size()) return nullptr;
  Block& block = blocks_[ref.location];
  return block.state != BlockState::kFree && block.epoch == ref.epoch ? &block : nullptr;
}

Location BlockTable::add(const New& added) {
  const MutexLock lock(mutex_);
  const Location location = take();
  Block& block = blocks_[location];
  block = Block{.key = added.key,
                .slot = added.slot,
                .stored_ns = added.now_ns,
                .keyspace = added.keyspace,
                .epoch = block.epoch + 1,
                .state = BlockState::kResident};
  order_.add(location);
  tell(location, added.place);
  ++counts_.resident;
  if (sketches_) {
    sketch_.add(hash_of(added.key));
    enqueue(location, false);
  }
  return location;
}

Location BlockTable::add_below(uint32_t keyspace, const BlockKey& key, uint32_t image_bytes) {
  const MutexLock lock(mutex_);
  const Location location = take();
  Block& block = blocks_[location];
  block = Block{.key = key,
                .keyspace = keyspace,
                .image_bytes = image_bytes,
                .epoch = block.epoch + 1,
                .state = BlockState::kBelow};
  below_.try_emplace(key, location);  // the same block may be here twice for a moment
  ++counts_.below;
  ++counts_.copies;
  return location;
}

void BlockTable::add_copy(Location location, uint32_t image_bytes) {
  const MutexLock lock(mutex_);
  Block& block = blocks_[location];
  RHIZOME_CHECK(block.state == BlockState::kResident && block.image_bytes == 0);
  block.image_bytes = image_bytes;
  ++counts_.copies;
  below_.try_emplace(block.key, location);
}

bool BlockTable::relocate(Location location, SlotRef from, SlotRef to, const BlockPlace& place) {
  const MutexLock lock(mutex_);
  Block& block = blocks_[location];
  if (block.state != BlockState::kResident || block.slot != from || block.pins > 0 || block.is_leaving) return false;
  block.slot = to;
  tell(location, place);
  return true;
}

bool BlockTable::is_in(Location location, SlotRef slot) const {
  const MutexLock lock(mutex_);
  return blocks_[location].state == BlockState::kResident && blocks_[location].slot == slot;
}

void BlockTable::set_has_children(Location location) {
  const MutexLock lock(mutex_);
  blocks_[location].has_children = true;
}

std::optional<SlotRef> BlockTable::forget(Location location) {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(location < blocks_.size());
  Block& block = blocks_[location];
  RHIZOME_CHECK(block.state != BlockState::kFree);
  std::optional<SlotRef> slot;
  if (block.image_bytes > 0) drop_copy(location);
  // Whoever writes it still reads the slot; the slab keeps it for him.
  while (block.pins > 0)
    drop_pin(block);
  if (block.state == BlockState::kResident) {
    slot = leave_memory(location);
  } else {
    if (block.state != BlockState::kGone) --counts_.below;
    tell_of_failed_load(location);
  }
  block.state = BlockState::kFree;
  ++block.epoch;
  free_.push_back(location);
  return slot;
}

BlockState BlockTable::state(Location location) const {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(location < blocks_.size());
  return blocks_[location].state;
}

BlockKey BlockTable::key(Location location) const {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(location < blocks_.size());
  return blocks_[location].key;
}

uint32_t BlockTable::image_bytes(Location location) const {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(location < blocks_.size());
  return blocks_[location].image_bytes;
}

std::optional<BlockTable::Pinned> BlockTable::pin(Location location) {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(location < blocks_.size());
  Block& block = blocks_[location];
  if (block.state != BlockState::kResident) return std::nullopt;
  add_pin(block);
  use(location);
  return Pinned{block.slot, BlockRef{location, block.epoch}};
}

void BlockTable::use(Location location) {
  Block& block = blocks_[location];
  block.uses = std::min<uint8_t>(block.uses, kUsesMax - 1) + 1;
  order_.use(location);
  if (!sketches_) return;
  sketch_.add(hash_of(block.key));
  if (block.image_bytes == 0 && !block.is_writing) enqueue(location, true);
}

void BlockTable::unpin(BlockRef ref) {
  const MutexLock lock(mutex_);
  Block* const block = current(ref);
  if (block != nullptr && block->pins > 0) drop_pin(*block);
}

void BlockTable::add_pin(Block& block) {
  if (block.pins++ == 0 && block.state == BlockState::kResident) ++counts_.pinned;
}

void BlockTable::drop_pin(Block& block) {
  if (--block.pins == 0 && block.state == BlockState::kResident) --counts_.pinned;
}

std::optional<BlockTable::Awaited> BlockTable::await(Location location) {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(location < blocks_.size());
  Block& block = blocks_[location];
  if (block.state != BlockState::kBelow && block.state != BlockState::kLoading) return std::nullopt;
  const bool begins = block.state == BlockState::kBelow;
  block.state = BlockState::kLoading;
  add_pin(block);
  return Awaited{{location, block.epoch}, begins};
}

std::optional<SlotRef> BlockTable::slot_of(BlockRef ref) {
  const MutexLock lock(mutex_);
  const Block* const block = current(ref);
  if (block == nullptr || block->state != BlockState::kResident) return std::nullopt;
  use(ref.location);
  return block->slot;
}

bool BlockTable::land(BlockRef ref, SlotRef slot, bool keep_copy, uint64_t now_ns, const BlockPlace& place) {
  const MutexLock lock(mutex_);
  Block* const block = current(ref);
  if (block == nullptr || block->state != BlockState::kLoading) return false;
  block->state = BlockState::kResident;
  block->slot = slot;
  block->stored_ns = now_ns;
  block->uses = 0;
  block->is_leaving = false;
  order_.add(ref.location);
  tell(ref.location, place);
  --counts_.below;
  ++counts_.resident;
  if (block->pins > 0) ++counts_.pinned;
  if (!keep_copy && block->image_bytes > 0) drop_copy(ref.location);
  // Nobody else has it now; or the tier has forgotten it while it was on the way.
  if (block->image_bytes == 0) enqueue(ref.location, false);
  return true;
}

void BlockTable::give_up_load(BlockRef ref, bool is_gone) {
  const MutexLock lock(mutex_);
  Block* const block = current(ref);
  if (block == nullptr || block->state != BlockState::kLoading) return;
  tell_of_failed_load(ref.location);
  // The tier may have forgotten it while it was on the way.
  if (!is_gone && block->image_bytes > 0) {
    block->state = BlockState::kBelow;
    return;
  }
  if (block->image_bytes > 0) drop_copy(ref.location);
  block->state = BlockState::kGone;
  --counts_.below;
}

Location BlockTable::next_to_leave(size_t looks_max) {
  const auto may_leave = [this](uint32_t location) NO_THREAD_SAFETY_ANALYSIS {
    const Block& block = blocks_[location];
    return block.pins == 0 && block.image_bytes > 0 && !block.is_leaving;
  };
  return order_.next(may_leave, looks_max);
}

std::optional<BlockTable::Demoted> BlockTable::demote(size_t looks_max) {
  const MutexLock lock(mutex_);
  const Location location = next_to_leave(looks_max);
  if (location == SieveOrder::kNone) return std::nullopt;
  const BlockRef ref{location, blocks_[location].epoch};
  blocks_[location].state = BlockState::kBelow;
  ++counts_.below;
  return Demoted{ref, leave_memory(location)};
}

std::optional<SlotRef> BlockTable::demote(BlockRef ref, uint32_t own_pins) {
  const MutexLock lock(mutex_);
  Block* const block = current(ref);
  if (block == nullptr || block->state != BlockState::kResident) return std::nullopt;
  if (block->pins > own_pins || block->image_bytes == 0) return std::nullopt;
  block->state = BlockState::kBelow;
  ++counts_.below;
  return leave_memory(ref.location);
}

void BlockTable::begin_leaving(Location location) {
  blocks_[location].is_leaving = true;
  if (directory_ != nullptr && location < directory_->room()) directory_->begin_leaving(location);
}

size_t BlockTable::begin_demotion(std::span<BlockRef> out, size_t looks_max) {
  const MutexLock lock(mutex_);
  size_t count = 0;
  for (; count < out.size(); ++count) {
    const Location location = next_to_leave(looks_max);
    if (location == SieveOrder::kNone) break;
    begin_leaving(location);
    out[count] = {location, blocks_[location].epoch};
  }
  return count;
}

bool BlockTable::begin_demotion(BlockRef ref) {
  const MutexLock lock(mutex_);
  const Block* const block = current(ref);
  if (block == nullptr || block->state != BlockState::kResident || block->is_leaving) return false;
  if (block->pins > 0 || block->image_bytes == 0) return false;
  begin_leaving(ref.location);
  return true;
}

std::optional<SlotRef> BlockTable::end_demotion(BlockRef ref, bool stays) {
  const MutexLock lock(mutex_);
  Block* const block = current(ref);
  if (block == nullptr || !block->is_leaving) return std::nullopt;
  block->is_leaving = false;
  // The tier may have forgotten it meanwhile.
  if (stays || block->pins > 0 || block->image_bytes == 0) {
    if (directory_ != nullptr && ref.location < directory_->room()) directory_->stay(ref.location);
    if (stays) use(ref.location);
    return std::nullopt;
  }
  block->state = BlockState::kBelow;
  ++counts_.below;
  return leave_memory(ref.location);
}

void BlockTable::use_all(std::span<const Location> locations) {
  const MutexLock lock(mutex_);
  for (const Location location : locations) {
    if (location < blocks_.size() && blocks_[location].state == BlockState::kResident) use(location);
  }
}

void BlockTable::collect_keyspaces(std::span<const Location> locations, std::vector<uint32_t>& out) const {
  const MutexLock lock(mutex_);
  for (const Location location : locations) {
    if (location >= blocks_.size()) continue;
    const Block& block = blocks_[location];
    if (block.state == BlockState::kResident) out.push_back(block.keyspace);
  }
}

// What there is no room for in the directory is in memory for this process alone.
void BlockTable::tell(Location location, const BlockPlace& place) {
  if (directory_ == nullptr) return;
  if (location >= directory_->room() && !directory_->make_room(location + 1)) return;
  directory_->put(location, place);
}

void BlockTable::tell_of_failed_load(Location location) {
  if (directory_ != nullptr && location < directory_->room()) directory_->give_up_load(location);
}

bool BlockTable::is_resident_and_free(Location location) const {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(location < blocks_.size());
  return blocks_[location].state == BlockState::kResident && blocks_[location].pins == 0;
}

SlotRef BlockTable::leave_memory(Location location) {
  order_.remove(location);
  if (directory_ != nullptr && location < directory_->room()) directory_->remove(location);
  --counts_.resident;
  return std::exchange(blocks_[location].slot, SlotRef{});
}

void BlockTable::drop_copy(Location location) {
  blocks_[location].image_bytes = 0;
  --counts_.copies;
  const auto found = below_.find(blocks_[location].key);
  if (found != below_.end() && found->second == location) below_.erase(found);
}

void BlockTable::enqueue(Location location, bool is_used) {
  Block& block = blocks_[location];
  if (is_used && block.uses > 1 && block.is_waiting) return;  // it is among the used ones already
  block.is_waiting = true;
  std::deque<BlockRef>& queue = is_used ? used_ : fresh_;
  // Nobody takes from the queues while the tier stands still, and places of blocks that are gone are used up.
  if (queue.size() > 2 * blocks_.size() + kQueueSlack) {
    std::erase_if(queue, [this](BlockRef ref) NO_THREAD_SAFETY_ANALYSIS { return !waits(ref); });
  }
  queue.push_back({location, block.epoch});
}

bool BlockTable::waits(BlockRef ref) {
  const Block* const block = current(ref);
  return block != nullptr && block->state == BlockState::kResident && block->image_bytes == 0 && !block->is_writing &&
         block->is_waiting;
}

std::optional<BlockTable::Unwritten> BlockTable::take_unwritten(std::deque<BlockRef>& queue, uint64_t now_ns,
                                                                uint64_t age_min_ns) {
  while (!queue.empty()) {
    const BlockRef ref = queue.front();
    const bool is_stale = !waits(ref);
    Block* const block = current(ref);
    if (!is_stale && now_ns < block->stored_ns + age_min_ns) return std::nullopt;
    queue.pop_front();
    if (is_stale) continue;
    block->is_writing = true;
    block->is_waiting = false;
    add_pin(*block);
    return Unwritten{.ref = ref,
                     .slot = block->slot,
                     .key = block->key,
                     .keyspace = block->keyspace,
                     .age_ns = now_ns - std::min(now_ns, block->stored_ns),
                     .uses = block->uses,
                     .asked_for = sketch_.count(hash_of(block->key)),
                     .has_children = block->has_children};
  }
  return std::nullopt;
}

std::optional<BlockTable::Unwritten> BlockTable::next_unwritten(uint64_t now_ns, uint64_t age_min_ns) {
  const MutexLock lock(mutex_);
  auto taken = take_unwritten(used_, now_ns, 0);
  return taken ? taken : take_unwritten(fresh_, now_ns, age_min_ns);
}

void BlockTable::written(BlockRef ref, uint32_t image_bytes) {
  const MutexLock lock(mutex_);
  Block* const block = current(ref);
  if (block == nullptr) return;
  block->is_writing = false;
  if (block->pins > 0) drop_pin(*block);
  if (block->image_bytes == 0) ++counts_.copies;
  block->image_bytes = image_bytes;
  below_.try_emplace(block->key, ref.location);  // the same block may be here twice for a moment
}

void BlockTable::write_later(BlockRef ref, bool again) {
  const MutexLock lock(mutex_);
  Block* const block = current(ref);
  if (block == nullptr) return;
  block->is_writing = false;
  if (block->pins > 0) drop_pin(*block);
  if (!again) {
    block->uses = 0;
    return;
  }
  block->is_waiting = true;
  (block->uses > 0 ? used_ : fresh_).push_back(ref);
}

uint64_t BlockTable::next_write_ns(uint64_t age_min_ns) const {
  const MutexLock lock(mutex_);
  if (!used_.empty()) return 0;
  if (fresh_.empty()) return UINT64_MAX;
  return blocks_[fresh_.front().location].stored_ns + age_min_ns;
}

bool BlockTable::has_unwritten() const {
  const MutexLock lock(mutex_);
  return !used_.empty() || !fresh_.empty();
}

bool BlockTable::forgotten_below(const BlockKey& key) {
  const MutexLock lock(mutex_);
  const auto found = below_.find(key);
  if (found == below_.end()) return false;
  const Location location = found->second;
  Block& block = blocks_[location];
  drop_copy(location);
  if (block.state == BlockState::kResident) {
    enqueue(location, block.uses > 0);
    return false;
  }
  if (block.state != BlockState::kBelow) return false;  // on its way; whoever loads it finds out
  block.state = BlockState::kGone;
  --counts_.below;
  return true;
}

BlockCounts BlockTable::counts() const {
  const MutexLock lock(mutex_);
  BlockCounts counts = counts_;
  counts.queued = used_.size() + fresh_.size();
  return counts;
}

std::vector<KeyspaceCounts> BlockTable::counts_by_keyspace(uint32_t keyspaces_max) const {
  std::vector<KeyspaceCounts> counts(size_t{keyspaces_max} + 1);
  for (size_t next = 0, end = 1; next < end;) {
    const MutexLock lock(mutex_);
    end = blocks_.size();
    for (const size_t stop = std::min(next + kCountedAtOnce, end); next < stop; ++next) {
      const Block& block = blocks_[next];
      if (block.state == BlockState::kFree || block.state == BlockState::kGone) continue;
      if (block.keyspace > keyspaces_max) continue;
      KeyspaceCounts& of = counts[block.keyspace];
      ++(block.state == BlockState::kResident ? of.resident : of.below);
      if (block.image_bytes == 0) continue;
      ++of.copies;
      of.copies_bytes += block.image_bytes;
    }
  }
  return counts;
}

bool BlockTable::is_of(Location location, uint32_t keyspace) const {
  const MutexLock lock(mutex_);
  return location < blocks_.size() && blocks_[location].keyspace == keyspace;
}

}  // namespace rhizome
