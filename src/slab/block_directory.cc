#include "slab/block_directory.h"

#include <utility>

#include "contract/check.h"

namespace rhizome {

Status BlockDirectory::make_room(uint32_t count) {
  const MutexLock lock(mutex_);
  while (room_.load(std::memory_order_relaxed) < count) {
    if (memory_.size() == kSegmentsMax) return fail(Code::kResourceExhausted, "too many blocks");
    Result<Mapping> segment = Mapping::shareable(kSegmentBytes);
    if (!segment) return fail(segment.error());
    if (keeper_ != nullptr) keeper_->keep(KeptKind::kDirectory, static_cast<uint32_t>(memory_.size()), *segment);
    // Zeros are absent entries.
    segments_[memory_.size()] = reinterpret_cast<DirectoryEntry*>(segment->bytes().data());
    memory_.push_back(std::move(*segment));
    // Pairs with room(): the segment is known.
    room_.store(static_cast<uint32_t>(memory_.size()) * kEntriesOfASegment, std::memory_order_release);
  }
  return {};
}

DirectoryEntry& BlockDirectory::entry(uint32_t number) const {
  RHIZOME_DCHECK(number < room());
  return segments_[number / kEntriesOfASegment][number % kEntriesOfASegment];
}

void BlockDirectory::put(uint32_t number, const BlockPlace& place) {
  RHIZOME_DCHECK(place.chunk < 1 << 16);
  DirectoryEntry& to = entry(number);
  to.checksum.store(place.checksum, std::memory_order_relaxed);
  const uint64_t failed = to.word.load(std::memory_order_relaxed) & DirectoryEntry::kLoadsFailed;
  const uint64_t word = failed | DirectoryEntry::kResident | uint64_t{place.chunk} << 32 | place.unit;
  to.word.store(word, std::memory_order_release);  // pairs with find()
}

void BlockDirectory::begin_leaving(uint32_t number) {
  entry(number).word.fetch_or(DirectoryEntry::kLeaving, std::memory_order_acq_rel);
}

void BlockDirectory::stay(uint32_t number) {
  entry(number).word.fetch_and(~DirectoryEntry::kLeaving, std::memory_order_acq_rel);
}

void BlockDirectory::remove(uint32_t number) {
  entry(number).word.fetch_and(DirectoryEntry::kLoadsFailed, std::memory_order_acq_rel);
}

void BlockDirectory::give_up_load(uint32_t number) {
  entry(number).word.fetch_add(DirectoryEntry::kOneLoadFailed, std::memory_order_acq_rel);
}

Result<int> BlockDirectory::descriptor(uint32_t segment) const {
  const MutexLock lock(mutex_);
  if (segment >= memory_.size()) return fail(Code::kNotFound, "no such segment of the directory");
  return memory_[segment].descriptor();
}

Status DirectoryReader::add(uint32_t segment, std::span<const std::byte> memory) {
  if (segment >= segments_.size() || memory.size() != BlockDirectory::kSegmentBytes) {
    return fail(Code::kInvalidArgument, "not a segment of a directory");
  }
  segments_[segment].store(reinterpret_cast<const DirectoryEntry*>(memory.data()), std::memory_order_release);
  return {};
}

}  // namespace rhizome
