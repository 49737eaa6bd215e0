#include "codec/rans.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "block/little_endian.h"
#include "codec/rans_variants.h"
#include "contract/check.h"

namespace rhizome {
namespace {

struct Bucket {
  uint32_t divider = kRansBucketSlots;
  uint32_t other = 0;
};
using Buckets = std::array<Bucket, kRansSymbols>;

Buckets share_out(const RansFrequencies& frequencies) {
  Buckets buckets;
  uint32_t left[kRansSymbols];
  uint32_t small[kRansSymbols];
  uint32_t large[kRansSymbols];
  uint32_t small_count = 0;
  uint32_t large_count = 0;
  const auto push = [&](uint32_t symbol) {
    (left[symbol] < kRansBucketSlots ? small[small_count++] : large[large_count++]) = symbol;
  };
  for (uint32_t symbol = 0; symbol < kRansSymbols; ++symbol) {
    buckets[symbol].other = symbol;
    left[symbol] = frequencies[symbol];
    push(symbol);
  }
  while (small_count > 0 && large_count > 0) {
    const uint32_t taker = small[--small_count];
    const uint32_t giver = large[--large_count];
    buckets[taker] = {left[taker], giver};
    left[giver] -= kRansBucketSlots - left[taker];
    push(giver);
  }
  return buckets;
}

// Calls visit(symbol, bucket, first slot in the bucket, end, rank of the first), ranks ascending for each symbol.
template <class Visit>
void for_each_piece(const Buckets& buckets, Visit visit) {
  uint32_t ranks[kRansSymbols] = {};
  const auto piece = [&](uint32_t symbol, uint32_t bucket, uint32_t first, uint32_t end) {
    visit(symbol, bucket, first, end, ranks[symbol]);
    ranks[symbol] += end - first;
  };
  for (uint32_t bucket = 0; bucket < kRansSymbols; ++bucket) {
    piece(bucket, bucket, 0, buckets[bucket].divider);
    piece(buckets[bucket].other, bucket, buckets[bucket].divider, kRansBucketSlots);
  }
}

struct EncoderTables {
  uint16_t starts[kRansSymbols];       // of a symbol's ranks in `slots`
  uint64_t reciprocals[kRansSymbols];  // floor(2^64 / frequency) + 1; 0 for a frequency of 1
  uint16_t slots[kRansTotal];

  explicit EncoderTables(const RansFrequencies& frequencies) {
    uint32_t start = 0;
    for (uint32_t symbol = 0; symbol < kRansSymbols; ++symbol) {
      starts[symbol] = static_cast<uint16_t>(start);
      start += frequencies[symbol];
      reciprocals[symbol] = frequencies[symbol] > 1 ? UINT64_MAX / frequencies[symbol] + 1 : 0;
    }
    for_each_piece(share_out(frequencies),
                   [&](uint32_t symbol, uint32_t bucket, uint32_t first, uint32_t end, uint32_t rank) {
                     for (uint32_t slot = first; slot < end; ++slot)
                       slots[starts[symbol] + rank++] = static_cast<uint16_t>(bucket * kRansBucketSlots + slot);
                   });
  }
};

}  // namespace

RansFrequencies rans_frequencies(std::span<const uint32_t, kRansSymbols> counts) {
  RansFrequencies frequencies{};
  const uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  uint32_t sum = 0;
  for (uint32_t symbol = 0; symbol < kRansSymbols && total > 0; ++symbol) {
    if (counts[symbol] == 0) continue;
    const uint64_t share = (counts[symbol] * uint64_t{kRansTotal} + total / 2) / total;
    frequencies[symbol] = static_cast<uint16_t>(std::clamp<uint64_t>(share, 1, kRansTotal - 1));
    sum += frequencies[symbol];
  }
  // Rounding gave too many or too few: the largest bear it, as they notice least.
  while (sum > kRansTotal) {
    uint16_t& largest = *std::max_element(frequencies.begin(), frequencies.end());
    const uint32_t less = std::min<uint32_t>(sum - kRansTotal, largest / 2u);
    largest = static_cast<uint16_t>(largest - less);
    sum -= less;
  }
  if (sum < kRansTotal) {
    const auto largest = std::max_element(frequencies.begin(), frequencies.end());
    const uint32_t more = std::min<uint32_t>(kRansTotal - sum, kRansTotal - 1 - *largest);
    *largest = static_cast<uint16_t>(*largest + more);
    // A symbol alone: one that does not occur gets what is left.
    uint16_t& next = frequencies[static_cast<size_t>(largest - frequencies.begin() + 1) % kRansSymbols];
    next = static_cast<uint16_t>(next + (kRansTotal - sum - more));
  }
  return frequencies;
}

bool rans_frequencies_valid(const RansFrequencies& frequencies) {
  uint32_t sum = 0;
  for (const uint16_t frequency : frequencies) {
    if (frequency >= kRansTotal) return false;
    sum += frequency;
  }
  return sum == kRansTotal;
}

RansTables::RansTables(const RansFrequencies& frequencies) {
  RHIZOME_DCHECK(rans_frequencies_valid(frequencies));
  const Buckets buckets = share_out(frequencies);
  for_each_piece(buckets, [&](uint32_t symbol, uint32_t bucket, uint32_t first, uint32_t /*end*/, uint32_t rank) {
    const uint32_t offset = (rank - first) & (kRansTotal - 1);
    const uint32_t entry = symbol | uint32_t{frequencies[symbol]} << 8 | offset << 20;
    (first == 0 ? own : other)[bucket] = entry;
    if (first == 0) other[bucket] = entry;
  });
  for (uint32_t bucket = 0; bucket < kRansSymbols; ++bucket)
    dividers[bucket] = buckets[bucket].divider;
}

bool RansStream::open(std::span<const std::byte> stream) {
  if (stream.size() < kRansStatesBytes || stream.size() % sizeof(uint16_t) != 0) return false;
  std::memcpy(states, stream.data(), kRansStatesBytes);
  at = stream.data() + kRansStatesBytes;
  end = stream.data() + stream.size();
  return std::ranges::all_of(states, [](uint32_t state) { return state >= kRansStateLeast; });
}

bool RansStream::is_finished() const {
  return at == end && std::ranges::all_of(states, [](uint32_t state) { return state == kRansStateLeast; });
}

std::span<const std::byte> rans_encode(std::span<const std::byte> symbols, const RansFrequencies& frequencies,
                                       std::span<std::byte> out) {
  RHIZOME_CHECK(symbols.size() % kRansLanes == 0 && out.size() >= rans_stream_bytes_max(symbols.size()));
  const EncoderTables tables(frequencies);
  uint32_t states[kRansLanes];
  std::ranges::fill(states, kRansStateLeast);
  // Backwards: what is decoded first is encoded last.
  std::byte* at = out.data() + out.size();
  for (size_t i = symbols.size(); i-- > 0;) {
    const uint32_t symbol = std::to_integer<uint32_t>(symbols[i]);
    const uint32_t frequency = frequencies[symbol];
    uint32_t state = states[i % kRansLanes];
    // Written always, kept where it is needed: which it is, nobody can predict.
    store_little(at - 2, static_cast<uint16_t>(state));
    const bool is_full = state >= uint64_t{frequency} << 20;
    at -= is_full ? 2 : 0;
    state = is_full ? state >> 16 : state;
    const uint64_t high =
        static_cast<uint64_t>(static_cast<unsigned __int128>(state) * tables.reciprocals[symbol] >> 64);
    const uint32_t quotient = frequency == 1 ? state : static_cast<uint32_t>(high);
    const uint32_t rank = state - quotient * frequency;
    states[i % kRansLanes] = (quotient << kRansTotalBits) + tables.slots[tables.starts[symbol] + rank];
  }
  at -= kRansStatesBytes;
  std::memcpy(at, states, kRansStatesBytes);
  return {at, out.data() + out.size()};
}

bool rans_decode_scalar(RansStream& stream, const RansTables& tables, std::span<std::byte> symbols) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    uint32_t& state = stream.states[i % kRansLanes];
    const uint32_t inside = state % kRansBucketSlots;
    const uint32_t bucket = state / kRansBucketSlots % kRansSymbols;
    const uint32_t entry = inside < tables.dividers[bucket] ? tables.own[bucket] : tables.other[bucket];
    symbols[i] = static_cast<std::byte>(entry);
    state = (entry >> 8 & (kRansTotal - 1)) * (state >> kRansTotalBits) + (((entry >> 20) + inside) & (kRansTotal - 1));
    if (state >= kRansStateLeast) continue;
    if (stream.end - stream.at < 2) return false;
    state = state << 16 | load_little<uint16_t>(stream.at);
    stream.at += 2;
  }
  return true;
}

namespace {

struct Runnable {
  std::array<RansKernel, 3> variants;
  size_t count = 0;

  Runnable() {
    add({"scalar", rans_decode_scalar});
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt")) add({"avx2", rans_decode_avx2});
    if (__builtin_cpu_supports("avx512f")) add({"avx512", rans_decode_avx512});
#endif
  }

  void add(const RansKernel& kernel) { variants[count++] = kernel; }
};

const Runnable& runnable() {
  static const Runnable kFound;
  return kFound;
}

}  // namespace

std::span<const RansKernel> rans_kernels() {
  return std::span(runnable().variants).first(runnable().count);
}

const RansKernel& fastest_rans_kernel() {
  return rans_kernels().back();
}

}  // namespace rhizome
