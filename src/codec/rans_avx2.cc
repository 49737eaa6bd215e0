#include <array>

#include "codec/rans_variants.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace rhizome {
namespace {

constexpr int kVectorLanes = 8;
constexpr int kVectors = kRansLanes / kVectorLanes;
// What one round may take.
constexpr ptrdiff_t kRoundBytes = kRansLanes * 2;

// For each set of lanes that take a word: which of the next words each lane takes, a byte a lane.
constexpr std::array<uint64_t, 256> kWordOfLane = [] {
  std::array<uint64_t, 256> table{};
  for (uint32_t lanes = 0; lanes < table.size(); ++lanes) {
    uint64_t next = 0;
    for (uint32_t lane = 0; lane < kVectorLanes; ++lane) {
      table[lanes] |= next << (8 * lane);
      next += lanes >> lane & 1;
    }
  }
  return table;
}();

__m256i load(const uint32_t* from) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(from));
}

// By the sign bit of each lane of `mask`.
__m256i choose(__m256i otherwise, __m256i when_set, __m256i mask) {
  return _mm256_castps_si256(
      _mm256_blendv_ps(_mm256_castsi256_ps(otherwise), _mm256_castsi256_ps(when_set), _mm256_castsi256_ps(mask)));
}

// Entries by bucket; not gathered, which is slow on many processors.
__m256i entries_at(const uint32_t* table, __m256i bucket, __m256i bit_3, __m256i bit_4) {
  const __m256i first = choose(_mm256_permutevar8x32_epi32(load(table), bucket),
                               _mm256_permutevar8x32_epi32(load(table + 8), bucket), bit_3);
  const __m256i second = choose(_mm256_permutevar8x32_epi32(load(table + 16), bucket),
                                _mm256_permutevar8x32_epi32(load(table + 24), bucket), bit_3);
  return choose(first, second, bit_4);
}

// Dividers are 128 at most: a byte each.
class Dividers {
 public:
  explicit Dividers(const RansTables& tables) {
    alignas(16) std::array<uint8_t, kRansSymbols> bytes;
    for (uint32_t bucket = 0; bucket < kRansSymbols; ++bucket)
      bytes[bucket] = static_cast<uint8_t>(tables.dividers[bucket]);
    first_ = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes.data())));
    second_ = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes.data() + 16)));
  }

  // Which of the two is the fifth bit of a bucket.
  __m256i at(__m256i bucket) const {
    const __m256i found = _mm256_blendv_epi8(_mm256_shuffle_epi8(first_, bucket), _mm256_shuffle_epi8(second_, bucket),
                                             _mm256_slli_epi32(bucket, 3));
    return _mm256_and_si256(found, _mm256_set1_epi32(0xff));
  }

 private:
  __m256i first_;
  __m256i second_;
};

// The lowest byte of each of eight.
void store_symbols(__m256i entry, std::byte* out) {
  const __m256i lowest = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1,
                                          -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i bytes = _mm256_shuffle_epi8(entry, lowest);
  const __m128i all = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), all);
}

}  // namespace

bool rans_decode_avx2(RansStream& stream, const RansTables& tables, std::span<std::byte> symbols) {
  const Dividers dividers(tables);
  const __m256i slot_mask = _mm256_set1_epi32(kRansBucketSlots - 1);
  const __m256i bucket_mask = _mm256_set1_epi32(kRansSymbols - 1);
  const __m256i total_mask = _mm256_set1_epi32(kRansTotal - 1);
  std::byte* out = symbols.data();
  std::byte* const out_end = out + symbols.size();
  const std::byte* at = stream.at;
  while (out != out_end && stream.end - at >= kRoundBytes) {
    for (int i = 0; i < kVectors; ++i) {
      auto* const place = reinterpret_cast<__m256i*>(stream.states + kVectorLanes * i);
      __m256i state = _mm256_load_si256(place);
      const __m256i bucket = _mm256_and_si256(_mm256_srli_epi32(state, 7), bucket_mask);
      const __m256i inside = _mm256_and_si256(state, slot_mask);
      const __m256i is_own = _mm256_cmpgt_epi32(dividers.at(bucket), inside);
      const __m256i bit_3 = _mm256_slli_epi32(bucket, 28);
      const __m256i bit_4 = _mm256_slli_epi32(bucket, 27);
      const __m256i entry =
          choose(entries_at(tables.other, bucket, bit_3, bit_4), entries_at(tables.own, bucket, bit_3, bit_4), is_own);
      store_symbols(entry, out);
      out += kVectorLanes;
      const __m256i rank = _mm256_and_si256(_mm256_add_epi32(_mm256_srli_epi32(entry, 20), inside), total_mask);
      const __m256i frequency = _mm256_and_si256(_mm256_srli_epi32(entry, 8), total_mask);
      state = _mm256_add_epi32(_mm256_mullo_epi32(frequency, _mm256_srli_epi32(state, kRansTotalBits)), rank);
      const __m256i is_low = _mm256_cmpeq_epi32(_mm256_srli_epi32(state, 16), _mm256_setzero_si256());
      const auto lanes = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(is_low)));
      const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
      const __m256i places = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(kWordOfLane[lanes])));
      const __m256i filled = _mm256_or_si256(_mm256_slli_epi32(state, 16), _mm256_permutevar8x32_epi32(words, places));
      _mm256_store_si256(place, _mm256_blendv_epi8(state, filled, is_low));
      at += 2 * __builtin_popcount(lanes);
    }
  }
  stream.at = at;
  return rans_decode_scalar(stream, tables, {out, out_end});
}

}  // namespace rhizome
#endif
