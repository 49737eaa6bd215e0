// How much memory a chunk takes, and into how many slots it is cut.
//
// A class is a stride: the bytes asked for, rounded up to 64. Few layouts of blocks are alive at a time and each has
// one size, so exact strides waste next to nothing where coarser classes would waste up to their step in every slot.
//
// Thread-safety: plain values and pure functions.
#pragma once

#include <cstdint>

#include "machine/mapping.h"

namespace rhizome {

inline constexpr uint64_t kSlotAlignment = 64;
inline constexpr uint64_t kMemoryPageBytes = 4096;
inline constexpr uint32_t kChunkSlotsMax = 4096;

struct ChunkCut {
  uint64_t memory_bytes = 0;
  uint64_t stride = 0;
  uint32_t slots = 0;
};

inline uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

inline uint64_t stride_of(uint64_t bytes) {
  return round_up(bytes, kSlotAlignment);
}

// The usual size of a chunk under a budget. With `shareable` each chunk costs a descriptor, so there are fewer.
uint64_t usual_chunk_bytes(uint64_t budget_bytes, bool shareable);

// A chunk of that many slots and no more memory than whole pages for them.
ChunkCut tight_cut(uint64_t stride, uint32_t slots);

// A chunk of about the usual size, at least one slot. Where that is of huge pages, so is the chunk, unless more than an
// eighth of it would lie idle; it may then grow to eight times the size of a huge page to waste less.
ChunkCut full_cut(uint64_t stride, uint64_t chunk_bytes);

// Memory that was cut otherwise before. No slots when more than an eighth of it would lie idle.
ChunkCut cut_again(uint64_t stride, uint64_t memory_bytes);

}  // namespace rhizome
