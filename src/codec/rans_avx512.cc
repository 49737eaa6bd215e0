#include "codec/rans_variants.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace rhizome {
namespace {

constexpr int kVectors = kRansLanes / 16;
// What one round may take.
constexpr ptrdiff_t kRoundBytes = kRansLanes * 2;

struct Registers {
  __m512i first;
  __m512i second;

  explicit Registers(const uint32_t* table) : first(_mm512_load_si512(table)), second(_mm512_load_si512(table + 16)) {}
  // By the low five bits of each index.
  __m512i at(__m512i index) const { return _mm512_permutex2var_epi32(first, index, second); }
};

}  // namespace

bool rans_decode_avx512(RansStream& stream, const RansTables& tables, std::span<std::byte> symbols) {
  const Registers dividers(tables.dividers);
  const Registers own(tables.own);
  const Registers other(tables.other);
  const __m512i slot_mask = _mm512_set1_epi32(kRansBucketSlots - 1);
  const __m512i total_mask = _mm512_set1_epi32(kRansTotal - 1);
  const __m512i least = _mm512_set1_epi32(kRansStateLeast);
  __m512i states[kVectors];
  for (int i = 0; i < kVectors; ++i)
    states[i] = _mm512_load_si512(stream.states + 16 * i);

  std::byte* out = symbols.data();
  std::byte* const out_end = out + symbols.size();
  const std::byte* at = stream.at;
  while (out != out_end && stream.end - at >= kRoundBytes) {
    for (__m512i& state : states) {
      const __m512i bucket = _mm512_srli_epi32(state, 7);
      const __m512i inside = _mm512_and_si512(state, slot_mask);
      const __mmask16 is_other = _mm512_cmpge_epu32_mask(inside, dividers.at(bucket));
      const __m512i entry = _mm512_mask_mov_epi32(own.at(bucket), is_other, other.at(bucket));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(entry));
      out += 16;
      const __m512i rank = _mm512_and_si512(_mm512_add_epi32(_mm512_srli_epi32(entry, 20), inside), total_mask);
      const __m512i frequency = _mm512_and_si512(_mm512_srli_epi32(entry, 8), total_mask);
      state = _mm512_add_epi32(_mm512_mullo_epi32(frequency, _mm512_srli_epi32(state, kRansTotalBits)), rank);
      const __mmask16 is_low = _mm512_cmplt_epu32_mask(state, least);
      const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
      state =
          _mm512_mask_or_epi32(state, is_low, _mm512_slli_epi32(state, 16), _mm512_maskz_expand_epi32(is_low, words));
      at += 2 * __builtin_popcount(is_low);
    }
  }
  for (int i = 0; i < kVectors; ++i)
    _mm512_store_si512(stream.states + 16 * i, states[i]);
  stream.at = at;
  return rans_decode_scalar(stream, tables, {out, out_end});
}

}  // namespace rhizome
#endif
