// The entropy coder of the codec "E-rANS": 64 interleaved range coders (asymmetric numeral systems, Duda 2013) over at
// most 32 symbols, whose tables fit the registers of a processor.
//
// States have 32 bits and stay at or above 2^16; frequencies add up to 2^12. Symbol i of a stream belongs to lane i
// % 64. A stream is 64 states (u32) and, behind them, the words (u16) that the lanes take, all little-endian; decoding
// ends with every state back at 2^16 and no word left, which is a check of its own.
//
// Where a state's slots lie is the alias method (Walker 1977, Vose 1991): 32 buckets of 128 slots, each with a divider,
// below which slots are its own symbol's and from which on they are another's. Which one is part of the format: symbols
// with fewer than 128 slots and the others are two stacks, filled in ascending order; the top of the first takes what
// its bucket lacks from the top of the second, which goes back on the stack it then belongs to, until one of them is
// empty. Ranks of a symbol are counted through the buckets in ascending order, in each first below the divider and then
// above.
//
// Thread-safety: pure functions over the caller's memory; tables do not change once made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "contract/result.h"

namespace rhizome {

inline constexpr uint32_t kRansSymbols = 32;
inline constexpr uint32_t kRansLanes = 64;
inline constexpr uint32_t kRansTotalBits = 12;
inline constexpr uint32_t kRansTotal = 1u << kRansTotalBits;
inline constexpr uint32_t kRansBucketSlots = kRansTotal / kRansSymbols;
inline constexpr uint32_t kRansStateLeast = 1u << 16;
inline constexpr uint32_t kRansStatesBytes = kRansLanes * sizeof(uint32_t);

using RansFrequencies = std::array<uint16_t, kRansSymbols>;

// Each below kRansTotal, at least 1 where the count is not 0, and together kRansTotal.
RansFrequencies rans_frequencies(std::span<const uint32_t, kRansSymbols> counts);
bool rans_frequencies_valid(const RansFrequencies& frequencies);

// What decoding looks up; an entry is symbol | frequency << 8 | (rank of the slot - slot) mod 2^12 << 20, the slot
// counted inside its bucket.
struct alignas(64) RansTables {
  uint32_t dividers[kRansSymbols];
  uint32_t own[kRansSymbols];
  uint32_t other[kRansSymbols];

  // The frequencies must be valid.
  explicit RansTables(const RansFrequencies& frequencies);
};

// What is left of a stream.
struct alignas(64) RansStream {
  uint32_t states[kRansLanes];
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;

  // False when it is too short or a state is too small.
  bool open(std::span<const std::byte> stream);
  // Whether it ended as it should.
  bool is_finished() const;
};

// The most that a stream of so many symbols has.
constexpr uint64_t rans_stream_bytes_max(uint64_t symbols_count) {
  return kRansStatesBytes + 2 * symbols_count;
}

// Symbols have a frequency above 0, their number is a multiple of 64. The stream is the end of `out`, which has
// rans_stream_bytes_max().
std::span<const std::byte> rans_encode(std::span<const std::byte> symbols, const RansFrequencies& frequencies,
                                       std::span<std::byte> out);

struct RansKernel {
  const char* name = "";
  // The next symbols, a multiple of 64. False when the stream is at its end before.
  bool (*decode)(RansStream& stream, const RansTables& tables, std::span<std::byte> symbols) = nullptr;
};

// As plane_kernels(): "scalar", "avx2", and "avx512" (F alone).
std::span<const RansKernel> rans_kernels();
const RansKernel& fastest_rans_kernel();

}  // namespace rhizome
