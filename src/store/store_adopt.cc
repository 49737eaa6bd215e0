// Memory that a former process has left: taking it over, and by and by doing without it.
//
// Blocks in it are served where they are. What is freed there can only be used again once all of a chunk is, so chunks
// are emptied one at a time, the emptiest first: the blocks in one are copied into new slots, for which the slab keeps
// room for one chunk. Each chunk is emptied once, so all of this costs no more than one copy of what was taken over.
#include <algorithm>
#include <utility>

#include "contract/check.h"
#include "slab/block_copy.h"
#include "store/adoptable.h"
#include "store/store.h"
#include "telemetry/log.h"

namespace rhizome {

void Store::adopt(std::vector<KeptMemory> kept) {
  Adoptable found = find_adoptable(std::move(kept), options_.block_tokens);
  adoption_.offered_blocks = found.offered_blocks;
  // They are opened once their blocks are there.
  uint64_t keyspaces_bytes = 0;
  for (const RecordedKeyspace& recorded : found.keyspaces)
    keyspaces_bytes += opened_bytes(recorded.keyspace) + KeyspaceBook::kPageBytes;
  uint64_t refused = 0;
  for (AdoptableChunk& chunk : found.chunks) {
    std::vector<AdoptedSlot> slots;
    for (const AdoptableBlock& block : chunk.blocks)
      slots.push_back(block.slot);
    const uint64_t bytes = chunk.memory.bytes().size();
    const Result<std::vector<SlotRef>> refs = slab_->adopt(std::move(chunk.memory), slots, keyspaces_bytes);
    if (!refs) {
      refused += slots.size();
      continue;
    }
    adoption_.warm_bytes += bytes;
    {
      const MutexLock lock(adopted_mutex_);
      adopted_.push_back({.number = refs->front().chunk()});
    }
    const MutexLock lock(open_mutex_);
    for (size_t i = 0; i < refs->size(); ++i) {
      AdoptableBlock& block = chunk.blocks[i];
      left_in_memory_[BlockKey{block.identity.keyspace}].push_back({std::move(block.identity), (*refs)[i]});
    }
  }
  has_adopted_.store(adoption_.warm_bytes > 0, std::memory_order_relaxed);
  for (const RecordedKeyspace& recorded : found.keyspaces) {
    const Result<Root> opened = open(recorded.keyspace, recorded.geometry);
    if (!opened) log_warning("a keyspace of before cannot be opened again: {}", opened.error().reason);
  }
  {
    const MutexLock lock(open_mutex_);
    for (const auto& [digest, blocks] : left_in_memory_) {
      for (const LeftBlock& block : blocks)
        free_slot(block.slot);
    }
    left_in_memory_.clear();
  }
  adoption_.warm_blocks = table_.counts().resident;
  counters_.set(Counter::kBlocksAdopted, adoption_.warm_blocks);
  if (refused > 0) log_info("{} blocks of before do not fit the memory budget", refused);
  publish_used();
}

void Store::note_adopted(Location location, SlotRef slot, uint32_t keyspace) {
  const MutexLock lock(adopted_mutex_);
  const auto chunk = std::ranges::find(adopted_, slot.chunk(), &AdoptedChunk::number);
  RHIZOME_CHECK(chunk != adopted_.end());
  chunk->blocks.push_back({location, slot, keyspace});
}

// What could not be emptied before comes last. Chunks that went by themselves are forgotten.
std::optional<Store::AdoptedChunk> Store::take_emptiest_adopted() {
  const MutexLock lock(adopted_mutex_);
  std::erase_if(adopted_, [this](const AdoptedChunk& chunk) { return slab_->adopted_slots_used(chunk.number) == 0; });
  const auto emptiest = std::ranges::min_element(adopted_, {}, [this](const AdoptedChunk& chunk) {
    return std::pair(chunk.tries, slab_->adopted_slots_used(chunk.number));
  });
  if (emptiest == adopted_.end()) {
    has_adopted_.store(slab_->usage().adopted_chunks > 0, std::memory_order_relaxed);
    return std::nullopt;
  }
  AdoptedChunk taken = std::move(*emptiest);
  adopted_.erase(emptiest);
  return taken;
}

// False: there is no room, or some are in use.
bool Store::empty_adopted(AdoptedChunk& chunk, uint64_t& bytes_left) {
  std::vector<AdoptedBlock> left;
  bool has_room = true;
  bool has_used = false;
  for (const AdoptedBlock& block : chunk.blocks) {
    // What somebody took out of memory is in no slot any more, or in another one.
    if (!table_.is_in(block.location, block.slot)) continue;
    Result<Pinned> pinned = slab_->pin(block.slot);
    if (!pinned) continue;
    const std::span<const std::byte> bytes = pinned->bytes();
    Result<Reserved> room = fail(Code::kResourceExhausted, "");
    if (has_room && bytes_left >= bytes.size()) {
      room = slab_->reserve(bytes.size(), block.keyspace, Slab::Room::kWithHeadroom);
    }
    has_room = room.has_value();
    if (!has_room) {
      left.push_back(block);
      continue;
    }
    bytes_left -= bytes.size();
    copy_block_bytes(room->bytes(), bytes);
    const SlotRef copy = slab_->commit(std::move(*room), pinned->checksum());
    pinned->release();
    const bool is_moved = table_.relocate(block.location, block.slot, copy, slab_->place(copy));
    free_slot(is_moved ? block.slot : copy);
    if (is_moved || !table_.is_in(block.location, block.slot)) continue;
    // Somebody uses it: others first.
    has_used = true;
    left.push_back(block);
  }
  if (has_used) ++chunk.tries;
  chunk.blocks = std::move(left);
  return chunk.blocks.empty();
}

bool Store::move_adopted(uint64_t bytes_max) {
  while (has_adopted_.load(std::memory_order_relaxed) && bytes_max > 0) {
    std::optional<AdoptedChunk> chunk = take_emptiest_adopted();
    if (!chunk) break;
    const bool is_emptied = empty_adopted(*chunk, bytes_max);
    publish_used();
    if (is_emptied && slab_->adopted_slots_used(chunk->number) == 0) continue;
    const MutexLock lock(adopted_mutex_);
    adopted_.push_back(std::move(*chunk));
    break;
  }
  return has_adopted_.load(std::memory_order_relaxed);
}

// Only where something is gained: a chunk that is full would take all of the room that it gives.
bool Store::make_room_of_adopted() {
  if (!has_adopted_.load(std::memory_order_relaxed)) return false;
  const uint64_t retired_before = slab_->usage().retired_chunks;
  std::optional<AdoptedChunk> chunk = take_emptiest_adopted();
  if (!chunk) return false;
  const Result<ChunkLayout> layout = slab_->chunk_layout(chunk->number);
  bool gains = layout && slab_->adopted_slots_used(chunk->number) < layout->bytes / layout->stride;
  uint64_t bytes_left = UINT64_MAX;
  if (gains) gains = empty_adopted(*chunk, bytes_left);
  publish_used();
  if (!gains) {
    const MutexLock lock(adopted_mutex_);
    adopted_.push_back(std::move(*chunk));
  }
  return slab_->usage().retired_chunks > retired_before;
}

}  // namespace rhizome
