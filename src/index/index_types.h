// What all indexes have in common, whatever they compare: locations, roots, handles, results.
//
// Thread-safety: values; a Handle belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "block/reason.h"

namespace rhizome {

class Clock;
class RemoteReaders;
struct Kernels;

// Where a block's bytes are: the number of a slot. The index stores it and gives it back, no more.
using Location = uint32_t;

// A keyspace's own tree. Value zero is none. Once a keyspace is closed its value may name another one, under another
// generation: an old Root is then a miss, never somebody else's tree.
struct Root {
  uint32_t value = 0;
  uint32_t generation = 0;
  friend bool operator==(Root, Root) = default;
};

// A keyspace's tree as a reader in another process names it. Run 0: none. It may change whenever the keyspace is
// cleared or a new epoch begins.
struct SharedRoot {
  uint32_t run = 0;
  uint32_t ver = 0;
  friend bool operator==(SharedRoot, SharedRoot) = default;
};

// A pin on a prefix of at least a block, or empty. Move-only: whoever holds it gives it back once, by release() or
// into insert().
class Handle {
 public:
  Handle() = default;
  ~Handle();
  Handle(Handle&& other) noexcept : run_(std::exchange(other.run_, 0)), depth_(std::exchange(other.depth_, 0)) {}
  Handle& operator=(Handle&& other) noexcept;

  bool empty() const { return run_ == 0; }
  // Blocks of the prefix that the look-up or insert returned.
  uint32_t blocks() const { return depth_; }

  // For those who keep it as a number: the number is the pin from then on. 0 is an empty handle.
  static uint64_t pack(Handle handle);
  static Handle unpack(uint64_t packed);

 private:
  template <class Policy>
  friend class BasicIndex;

  Handle(uint32_t run, uint32_t depth) : run_(run), depth_(depth) {}

  uint32_t run_ = 0;
  uint32_t depth_ = 0;
};

struct Match {
  Handle handle;        // pins the blocks; empty when there are none
  uint32_t blocks = 0;  // found, from the beginning of the prompt
};

// Why a look-up stopped.
struct Explanation {
  // kFull, kPartialBlock (only less than a block is missing), kDiverged (another continuation is stored, or was),
  // kEvicted (lately; an older eviction looks like kNeverStored), kInFlight (somebody has announced that he computes
  // it), kStaleEpoch (the keyspace was cleared by a new weight epoch and nothing was stored since), kNeverStored.
  Reason reason = Reason::kNeverStored;
  // The first token that nothing covers. kDiverged: the first one that differs from the stored continuation that was
  // looked at (of several, it is one); the block's first one where only fingerprints are stored.
  uint64_t stopped_at = 0;
  // kEvicted: how long ago, in ticks of the index's clock.
  uint64_t evicted_ticks_ago = 0;
};

// How a wait for blocks in flight ended.
enum class WaitEnd : uint8_t {
  kMoreBlocks,  // more are stored than before
  kNobody,      // nobody computes the next one (any more): withdrawn, or the owner is late
  kTimeOut,
};

// That the caller computes blocks which are not stored yet. Move-only; gone when it is destroyed.
class Claim {
 public:
  Claim() = default;
  ~Claim() { withdraw(); }
  Claim(Claim&& other) noexcept
      : board_(std::exchange(other.board_, nullptr)), withdraw_(other.withdraw_), id_(other.id_) {}
  Claim& operator=(Claim&& other) noexcept {
    if (this != &other) {
      withdraw();
      board_ = std::exchange(other.board_, nullptr);
      withdraw_ = other.withdraw_;
      id_ = other.id_;
    }
    return *this;
  }

  bool empty() const { return board_ == nullptr; }
  void withdraw() {
    if (void* const board = std::exchange(board_, nullptr)) withdraw_(board, id_);
  }

 private:
  template <class Policy>
  friend class BasicIndex;

  void* board_ = nullptr;
  void (*withdraw_)(void* board, uint64_t id) = nullptr;
  uint64_t id_ = 0;
};

struct Inserted {
  static constexpr uint32_t kNoSplit = UINT32_MAX;

  Handle handle;                 // pins all blocks that were given
  uint32_t stored_before = 0;    // so many of the given blocks, at their beginning, were there already
  uint32_t split_at = kNoSplit;  // the block of the prompt before which a run was cut in two
};

// What "used last" goes by. Ticks: a clock that costs nothing, tenths of a millisecond fine. Exact: a counter that all
// look-ups share, for tests and replays.
enum class Recency : uint8_t { kTicks, kExact };

struct IndexOptions {
  uint32_t block_tokens = 16;  // 1 to 256
  uint32_t roots_max = 4096;
  // Never more than this is used for runs: then insert() says kResourceExhausted. Taken as it is needed; less where the
  // process has not so much address space.
  uint64_t memory_bytes = 1ull << 30;
  Recency recency = Recency::kTicks;
  // For tests and benches: other than the fastest ones of this processor.
  const Kernels* kernels = nullptr;
  // That deadlines go by. Null: the machine's.
  Clock* clock = nullptr;
  // Where the runs lie, so that other processes can read them (index_reader.h): zeros, which outlive the index, in
  // place of memory_bytes. Empty: private memory.
  std::span<std::byte> shared_memory = {};
  // Who reads there. Outlives the index; null: nobody.
  RemoteReaders* remote_readers = nullptr;
};

struct IndexUsage {
  uint64_t blocks = 0;          // that look-ups can find, and those of cleared keyspaces that nobody has met yet
  uint64_t removed_blocks = 0;  // removed, and not reaped yet
  // Evicted or removed, and given to nobody while readers in other processes may use them.
  uint64_t withheld_blocks = 0;
  uint64_t runs = 0;  // roots included
  uint64_t roots = 0;
  uint64_t bytes = 0;  // of runs and of the table that leads to them
};

// What handles keep from being evicted, now or a moment ago.
struct IndexPins {
  uint64_t handles = 0;
  uint64_t blocks = 0;  // at or above a pinned run's end, removed ones included
};

}  // namespace rhizome
