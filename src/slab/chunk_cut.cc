#include "slab/chunk_cut.h"

#include <algorithm>

namespace rhizome {
namespace {

constexpr uint64_t kChunkBytesMin = 64 << 10;
constexpr uint64_t kHuge = Mapping::kHugePageBytes;
constexpr uint64_t kHugePagesMax = 8;
constexpr uint64_t kSharedChunksMax = 256;
constexpr uint64_t kChunksMax = 8192;

uint64_t idle(const ChunkCut& cut) {
  return cut.memory_bytes - cut.stride * cut.slots;
}

}  // namespace

// Large enough that page faults come in big steps, small enough that a small budget has many, and
// that a huge one stays below the number of chunks that can be named.
uint64_t usual_chunk_bytes(uint64_t budget_bytes, bool shareable) {
  const uint64_t unhurried = std::clamp(round_up(budget_bytes / 64, kMemoryPageBytes), kChunkBytesMin, kHuge);
  const uint64_t bytes = std::max(unhurried, budget_bytes / (shareable ? kSharedChunksMax : kChunksMax));
  return bytes < kHuge ? bytes : round_up(bytes, kHuge);
}

ChunkCut tight_cut(uint64_t stride, uint32_t slots) {
  return {.memory_bytes = round_up(stride * slots, kMemoryPageBytes), .stride = stride, .slots = slots};
}

ChunkCut full_cut(uint64_t stride, uint64_t chunk_bytes) {
  const uint32_t usual = static_cast<uint32_t>(std::clamp<uint64_t>(chunk_bytes / stride, 1, kChunkSlotsMax));
  const ChunkCut tight = tight_cut(stride, usual);
  if (chunk_bytes < kHuge) return tight;
  ChunkCut best;
  const uint64_t bytes_max = std::max({chunk_bytes, kHugePagesMax * kHuge, round_up(stride, kHuge)});
  for (uint32_t slots = usual; slots <= kChunkSlotsMax && stride * slots <= bytes_max; ++slots) {
    const ChunkCut cut{.memory_bytes = round_up(stride * slots, kHuge), .stride = stride, .slots = slots};
    if (best.slots == 0 || idle(cut) * best.memory_bytes < idle(best) * cut.memory_bytes) best = cut;
    if (idle(best) * 32 <= best.memory_bytes) break;
  }
  return idle(best) * 8 <= best.memory_bytes ? best : tight;
}

ChunkCut cut_again(uint64_t stride, uint64_t memory_bytes) {
  ChunkCut cut{.memory_bytes = memory_bytes, .stride = stride};
  cut.slots = static_cast<uint32_t>(std::min<uint64_t>(memory_bytes / stride, kChunkSlotsMax));
  if (idle(cut) * 8 > memory_bytes) cut.slots = 0;
  return cut;
}

}  // namespace rhizome
