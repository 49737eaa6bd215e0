// The memory of an index: its arena, its edge table and what every reader of the two has to know. In private memory, or
// in memory that other processes map read-only (index_reader.h):
//
//   header, filled up to a page | edge table | arena
//
// Nothing in it depends on where it is mapped. Whoever maps it can read the tokens of all blocks, and the secret that
// edges are made with: memory is shared only within one trust domain, and each index has a secret of its own.
//
// Thread-safety: as Arena and EdgeTable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "contract/result.h"
#include "index/arena.h"
#include "index/edge_table.h"
#include "index/index_types.h"
#include "index/kernels.h"

namespace rhizome {

struct SharedIndexHeader {
  static constexpr uint64_t kMagic = 0x78646e697a6872'01;  // the last byte is the version
  static constexpr uint64_t kPageBytes = 4096;

  FingerprintKey key;
  uint64_t magic;
  uint64_t bytes;  // of all
  uint64_t edges_offset;
  uint64_t arena_offset;
  uint32_t units;
  uint32_t block_tokens;
  uint32_t payload_bytes;  // of a block
  std::atomic<uint32_t> epoch;
};
static_assert(sizeof(SharedIndexHeader) <= SharedIndexHeader::kPageBytes);

class IndexMemory {
 public:
  // In `shared`, which consists of zeros and outlives this; in private memory when that is empty. Aborts when there is
  // not even room for a few runs.
  IndexMemory(uint64_t arena_bytes, std::span<std::byte> shared);

  // What an arena of so many bytes takes in shared memory.
  static uint64_t shared_bytes(uint64_t arena_bytes);
  // What a reader needs to know, from a header that fits `memory`. What is there may be anything, and may change.
  struct Layout {
    const std::byte* edges = nullptr;
    const std::byte* arena = nullptr;
    uint32_t units = 0;
    uint32_t block_tokens = 0;
    uint32_t payload_bytes = 0;
  };
  // kFailedPrecondition: not the memory of an index, or of another version. kInvalidArgument: it does not fit.
  static Result<Layout> layout_of(std::span<const std::byte> memory);

  // Says what readers have to know, last of all that they may read.
  void publish(const FingerprintKey& key, uint32_t block_tokens, uint64_t payload_bytes);

  Arena& arena() { return arena_; }
  const Arena& arena() const { return arena_; }
  EdgeTable& edges() { return edges_; }
  const EdgeTable& edges() const { return edges_; }
  // Of weights: what was stored in an earlier one is found no more.
  std::atomic<uint32_t>& epoch() { return header_ == nullptr ? epoch_ : header_->epoch; }
  const std::atomic<uint32_t>& epoch() const { return header_ == nullptr ? epoch_ : header_->epoch; }

 private:
  struct Parts;
  IndexMemory(uint64_t arena_bytes, const Parts& parts);

  SharedIndexHeader* header_ = nullptr;  // null: private
  std::atomic<uint32_t> epoch_{1};
  Arena arena_;
  EdgeTable edges_;
};

}  // namespace rhizome
