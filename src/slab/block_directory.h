// Where the bytes of blocks are, for readers in other processes: an entry for each number of a block, in segments of
// shared memory that such a process maps read-only. What it points to are places in chunks (SlabOptions::shareable).
//
// States of an entry's word, which only the owner of the store changes:
//
//   absent    -> resident  put(): the bytes are there and do not change; the checksum is stored before
//   resident  -> leaving   begin_leaving(): whoever comes now takes it for absent
//   leaving   -> resident  stay(): somebody who came before uses it
//   resident  -> resident  put(): the same bytes are in another place, too
//   leaving   -> absent    remove(), as resident -> absent: nobody uses it any more
//
// Beside its state a word counts the loads that brought nothing: who waits for an absent block to come sees that this
// one does not.
//
// A reader first makes known what it is going to use (a hazard slot, index/remote_readers.h), fences, and looks here.
// The owner begins, fences, and looks at the hazard slots: one of the two sees the other, so what a reader has found
// resident stays until it lets go. Entries of blocks that the index does not name any more are nobody's business.
//
// Pairs: the release in put() with the acquire in find(): checksum and bytes are there.
//
// Thread-safety: what changes one number is called by one thread at a time; the rest from any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "concurrency/mutex.h"
#include "contract/result.h"
#include "machine/mapping.h"
#include "slab/memory_keeper.h"

namespace rhizome {

// A place in a chunk, in units of 64 bytes from its beginning.
struct BlockPlace {
  static constexpr uint32_t kUnitBytes = 64;

  uint32_t chunk = 0;  // below 2^16
  uint32_t unit = 0;   // below 2^32: chunks end before 256 GiB
  uint64_t checksum = 0;
  friend bool operator==(const BlockPlace&, const BlockPlace&) = default;
};

struct DirectoryEntry {
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> checksum;

  static constexpr uint64_t kLeaving = uint64_t{1} << 49;
  static constexpr uint64_t kResident = uint64_t{1} << 48;
  static constexpr uint32_t kLoadsFailedShift = 50;
  static constexpr uint64_t kOneLoadFailed = uint64_t{1} << kLoadsFailedShift;
  static constexpr uint64_t kLoadsFailed = ~uint64_t{0} << kLoadsFailedShift;

  std::optional<BlockPlace> find() const {
    const uint64_t seen = word.load(std::memory_order_acquire);
    if ((seen & (kResident | kLeaving)) != kResident) return std::nullopt;
    return place(seen);
  }
  // For who finds the entry after its owner's end: the bytes of a block that was leaving are there still.
  std::optional<BlockPlace> find_or_leaving() const {
    const uint64_t seen = word.load(std::memory_order_acquire);
    return (seen & kResident) == 0 ? std::nullopt : std::optional(place(seen));
  }
  // Modulo 2^14.
  uint32_t loads_failed() const {
    return static_cast<uint32_t>(word.load(std::memory_order_acquire) >> kLoadsFailedShift);
  }

 private:
  BlockPlace place(uint64_t seen) const {
    return BlockPlace{static_cast<uint32_t>(seen >> 32 & 0xFFFF), static_cast<uint32_t>(seen),
                      checksum.load(std::memory_order_relaxed)};
  }
};
static_assert(sizeof(DirectoryEntry) == 16);

class BlockDirectory {
 public:
  static constexpr uint32_t kEntriesOfASegment = 1 << 16;
  static constexpr uint64_t kSegmentBytes = uint64_t{kEntriesOfASegment} * sizeof(DirectoryEntry);

  // `keeper` is given each segment before it is used; null: nobody keeps them. Outlives the directory.
  explicit BlockDirectory(MemoryKeeper* keeper = nullptr) : keeper_(keeper) {}

  // Room for the numbers below `count`. kResourceExhausted: the system has no memory for it; there is as much as
  // before.
  Status make_room(uint32_t count);
  uint32_t room() const { return room_.load(std::memory_order_acquire); }

  // `number` below room().
  void put(uint32_t number, const BlockPlace& place);
  void begin_leaving(uint32_t number);
  void stay(uint32_t number);
  void remove(uint32_t number);
  // What was absent and on its way does not come.
  void give_up_load(uint32_t number);

  std::optional<BlockPlace> find(uint32_t number) const { return entry(number).find(); }

  // The directory's own, valid as long as it is. kNotFound: there are not so many.
  Result<int> descriptor(uint32_t segment) const;

  static constexpr uint32_t kSegmentsMax = 1 << 12;

 private:
  DirectoryEntry& entry(uint32_t number) const;

  MemoryKeeper* const keeper_;
  // Segments are added and stay; who knows of one by room() reads it without the lock.
  std::vector<DirectoryEntry*> segments_ = std::vector<DirectoryEntry*>(kSegmentsMax);
  std::atomic<uint32_t> room_{0};
  mutable Mutex mutex_;
  std::vector<Mapping> memory_ GUARDED_BY(mutex_);
};

// The same in a process that maps segments read-only, as it comes to need them.
//
// Thread-safety: everything here may be called from any thread.
class DirectoryReader {
 public:
  // The segment stays mapped as long as the reader is used. kInvalidArgument: not of kSegmentBytes, or a number that
  // no segment has.
  Status add(uint32_t segment, std::span<const std::byte> memory);

  static constexpr uint32_t segment_of(uint32_t number) { return number / BlockDirectory::kEntriesOfASegment; }
  // Whether the number's segment is there.
  bool knows(uint32_t number) const { return first_of(number) != nullptr; }
  // `number` may be anything.
  std::optional<BlockPlace> find(uint32_t number) const {
    const DirectoryEntry* const first = first_of(number);
    return first == nullptr ? std::nullopt : first[number % BlockDirectory::kEntriesOfASegment].find();
  }
  uint32_t loads_failed(uint32_t number) const {
    const DirectoryEntry* const first = first_of(number);
    return first == nullptr ? 0 : first[number % BlockDirectory::kEntriesOfASegment].loads_failed();
  }

 private:
  const DirectoryEntry* first_of(uint32_t number) const {
    const uint32_t segment = segment_of(number);
    return segment < segments_.size() ? segments_[segment].load(std::memory_order_acquire) : nullptr;  // pairs: add()
  }

  std::array<std::atomic<const DirectoryEntry*>, BlockDirectory::kSegmentsMax> segments_{};
};

}  // namespace rhizome
