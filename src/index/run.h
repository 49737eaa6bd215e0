// A run: consecutive blocks with one continuation. Its header and its payload lie in one allocation of the arena, and
// everything names a run by the number of the 64-byte unit that its header begins at. No pointers: the arena can be
// mapped at another address.
//
//   header (64 bytes) | u32 location[capacity] | payload[capacity]
//
// Of such an allocation a run uses a window [base, base + length). The run that made it is its owner; a run that a
// split cut off in front has a header only, and a window into its owner's payload.
//
// States of a run, told by `ver` and the flags of `word`:
//
//   free       ver odd, kDead           in the arena's free lists. A place that was a header stays one for ever, and
//                                       ver never goes back, so whoever comes late finds out.
//   live       ver even, not kDead      found by look-ups (or kRemoved: only by those who pinned it before).
//   splitting  ver odd, kLocked         start, base, parent, edge and length change; readers wait or give up.
//   dead       ver even, kDead          unlinked, waits in limbo until no reader can look at it any more.
//
//   free -> live        publish(): the filler, who alone knows the run, makes ver even; then it is linked.
//   live -> splitting -> live   the inserter who set kLocked and holds a pin on the run or below it.
//   live -> dead        the evictor, by one compare-and-swap that finds no pin but those of dead children. Racing
//                       pins make it fail; a pin that comes later finds kDead and is taken back.
//   dead -> free        the evictor, when the epoch is past (epochs.h) and all children have gone before.
//
// Pins: one for each handle and one for each child, dead children included. So the path above a pinned run is pinned
// without being touched, and a run can only die when nothing continues it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rhizome {

// 0 is none.
using RunId = uint32_t;

inline constexpr uint32_t kUnitBytes = 64;

// The word that pins, length and flags share, so that one compare-and-swap decides about all of them.
class RunWord {
 public:
  enum Flag : uint64_t {
    kDead = 1ull << 56,
    kQueued = 1ull << 57,   // the evictor knows it as a candidate, or will
    kTrimmed = 1ull << 58,  // lost blocks at its end: what lies behind may still be read, so it does not grow again
    kLocked = 1ull << 59,   // somebody splits it or appends to it
    kHot = 1ull << 60,      // pins are counted in hot_pins.h
    kGrowth = 1ull << 61,   // made for appends of a block or two
    kRemoved = 1ull << 62,  // unreachable, by remove() or because its keyspace was cleared
    kRoot = 1ull << 63,
  };
  static constexpr uint64_t kOnePin = 1;
  static constexpr uint64_t kOneBlock = 1ull << 32;
  static constexpr uint32_t kLengthMax = (1u << 24) - 1;

  constexpr RunWord() = default;
  constexpr explicit RunWord(uint64_t bits) : bits_(bits) {}
  static constexpr RunWord make(uint32_t pins, uint32_t length, uint64_t flags) {
    return RunWord(pins | uint64_t{length} << 32 | flags);
  }

  constexpr uint64_t bits() const { return bits_; }
  constexpr uint32_t pins() const { return static_cast<uint32_t>(bits_); }
  constexpr uint32_t length() const { return static_cast<uint32_t>(bits_ >> 32) & kLengthMax; }
  constexpr bool has(uint64_t flags) const { return (bits_ & flags) != 0; }
  constexpr RunWord with(uint64_t flags) const { return RunWord(bits_ | flags); }
  constexpr RunWord without(uint64_t flags) const { return RunWord(bits_ & ~flags); }
  constexpr RunWord longer(uint32_t blocks) const { return RunWord(bits_ + blocks * kOneBlock); }
  constexpr RunWord shorter(uint32_t blocks) const { return RunWord(bits_ - blocks * kOneBlock); }

 private:
  uint64_t bits_ = 0;
};

struct alignas(kUnitBytes) Run {
  std::atomic<uint64_t> word;   // RunWord
  std::atomic<uint32_t> ver;    // odd while the four below, `edge` and the length change
  std::atomic<uint32_t> start;  // blocks before this run
  std::atomic<RunId> parent;    // 0 for a root
  std::atomic<RunId> owner;     // whose payload this run's window is in
  std::atomic<uint32_t> base;   // the window's first block there
  std::atomic<uint32_t> touch;  // low half of the tick of the last use; of a root: its weight epoch
  std::atomic<RunId> root;
  std::atomic<RunId> hint;              // one child, tried before the edge table
  std::atomic<uint64_t> edge;           // of the edge from the parent; 0 when it is not in the edge table
  std::atomic<uint32_t> capacity;       // of the owner's payload, repeated here
  std::atomic<uint32_t> shares;         // of an owner: runs with a window here
  std::atomic<uint32_t> dead_children;  // in limbo; the evictor's
  uint16_t size_class;                  // of the allocation; never changes
  std::atomic<uint16_t> hot_slot;       // while kHot
};
static_assert(sizeof(Run) == kUnitBytes);
static_assert(offsetof(Run, ver) == 8 && offsetof(Run, edge) == 40 && offsetof(Run, size_class) == 60);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint16_t>::is_always_lock_free);

// A run as it was at one moment.
struct RunView {
  RunId id = 0;
  uint32_t ver = 0;
  RunWord word;
  uint32_t start = 0;
  RunId parent = 0;
  RunId owner = 0;
  uint32_t base = 0;
  uint32_t capacity = 0;

  uint32_t length() const { return word.length(); }
  uint32_t end() const { return start + length(); }
};

}  // namespace rhizome
