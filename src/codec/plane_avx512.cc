#include "codec/plane_variants.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "codec/plane_loops.h"

namespace rhizome {
namespace {

struct Avx512 {
  using Bytes = __m512i;
  struct Maxima {
    __m512i first;
    __m512i second;
  };
  static constexpr uint32_t kGroupsAtOnce = 4;

  static Bytes load(const std::byte* at) { return _mm512_loadu_si512(at); }
  static void store(std::byte* at, Bytes bytes) { _mm512_storeu_si512(at, bytes); }
  static Bytes splat(int byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }

  static void split(const std::byte* at, Bytes& low, Bytes& high) {
    const __m512i first = load(at);
    const __m512i second = load(at + 64);
    const __m512i mask = _mm512_set1_epi16(0xff);
    low = _mm512_packus_epi16(_mm512_and_si512(first, mask), _mm512_and_si512(second, mask));
    high = _mm512_packus_epi16(_mm512_srli_epi16(first, 8), _mm512_srli_epi16(second, 8));
  }
  static void merge(std::byte* at, Bytes low, Bytes high) {
    store(at, _mm512_unpacklo_epi8(low, high));
    store(at + 64, _mm512_unpackhi_epi8(low, high));
  }

  static Bytes add(Bytes a, Bytes b) { return _mm512_add_epi8(a, b); }
  static Bytes sub(Bytes a, Bytes b) { return _mm512_sub_epi8(a, b); }
  static Bytes min(Bytes a, Bytes b) { return _mm512_min_epu8(a, b); }
  static Bytes bit_and(Bytes a, Bytes b) { return _mm512_and_si512(a, b); }
  static Bytes or_and(Bytes a, Bytes b, Bytes c) { return _mm512_ternarylogic_epi64(a, b, c, 0xf8); }
  static Bytes select(Bytes mask, Bytes a, Bytes b) { return _mm512_ternarylogic_epi64(mask, a, b, 0xca); }
  template <int kBits>
  static Bytes shift_left(Bytes bytes) {
    return _mm512_slli_epi16(bytes, kBits);
  }
  template <int kBits>
  static Bytes shift_right(Bytes bytes) {
    return _mm512_srli_epi16(bytes, kBits);
  }
  static uint64_t top_bits(Bytes bytes) { return _mm512_movepi8_mask(bytes); }
  static Bytes or_where(Bytes bytes, uint64_t bits, int byte) {
    return _mm512_mask_blend_epi8(bits, bytes, _mm512_or_si512(bytes, splat(byte)));
  }
  static Bytes sub_where(Bytes bytes, uint64_t bits, int byte) {
    return _mm512_mask_sub_epi8(bytes, bits, bytes, splat(byte));
  }
  static Bytes expand_tiles(const std::byte* at) {
    const __m512i order =
        _mm512_set_epi64(0x0707070707070707, 0x0303030303030303, 0x0606060606060606, 0x0202020202020202,
                         0x0505050505050505, 0x0101010101010101, 0x0404040404040404, 0x0000000000000000);
    return _mm512_shuffle_epi8(_mm512_set1_epi64(static_cast<long long>(load_word(at))), order);
  }
  // In a register first: written straight to memory it is microcode on some processors.
  static void compress(std::byte* at, uint64_t bits, Bytes bytes) {
    store(at, _mm512_maskz_compress_epi8(bits, bytes));
  }
  static Bytes expand(Bytes bytes, uint64_t bits, const std::byte* at) {
    return _mm512_mask_expand_epi8(bytes, bits, load(at));
  }

  static Maxima no_maxima() { return {_mm512_setzero_si512(), _mm512_setzero_si512()}; }
  static Maxima max(Maxima maxima, const std::byte* at) {
    const __m512i first = load(at);
    const __m512i second = load(at + 64);
    return {_mm512_max_epu16(maxima.first, _mm512_add_epi16(first, first)),
            _mm512_max_epu16(maxima.second, _mm512_add_epi16(second, second))};
  }
  template <int kShift>
  static Bytes tile_maxima(Maxima maxima) {
    return _mm512_packus_epi16(_mm512_srli_epi16(lane_maxima(maxima.first), kShift),
                               _mm512_srli_epi16(lane_maxima(maxima.second), kShift));
  }

 private:
  // The largest of each eight elements of 16 bits, eight times.
  static __m512i lane_maxima(__m512i elements) {
    elements = _mm512_max_epu16(elements, _mm512_shuffle_epi32(elements, _MM_PERM_BADC));
    elements = _mm512_max_epu16(elements, _mm512_shuffle_epi32(elements, _MM_PERM_CDAB));
    return _mm512_max_epu16(elements, _mm512_rol_epi32(elements, 16));
  }
};

}  // namespace

PlaneKernels avx512_plane_kernels() {
  return plane_kernels_of<Avx512>("avx512");
}

}  // namespace rhizome
#endif
