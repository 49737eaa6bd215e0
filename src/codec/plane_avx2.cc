#include "codec/plane_variants.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "codec/plane_loops.h"

namespace rhizome {
namespace {

struct Avx2 {
  struct Bytes {
    __m256i first;
    __m256i second;
  };
  struct Maxima {
    __m256i quarters[4];
  };
  static constexpr uint32_t kGroupsAtOnce = 2;

  static Bytes load(const std::byte* at) { return {load_256(at), load_256(at + 32)}; }
  static void store(std::byte* at, Bytes bytes) {
    store_256(at, bytes.first);
    store_256(at + 32, bytes.second);
  }
  static Bytes splat(int byte) {
    const __m256i bytes = _mm256_set1_epi8(static_cast<char>(byte));
    return {bytes, bytes};
  }

  static void split(const std::byte* at, Bytes& low, Bytes& high) {
    split_half(load_256(at), load_256(at + 64), low.first, high.first);
    split_half(load_256(at + 32), load_256(at + 96), low.second, high.second);
  }
  static void merge(std::byte* at, Bytes low, Bytes high) {
    store_256(at, _mm256_unpacklo_epi8(low.first, high.first));
    store_256(at + 32, _mm256_unpacklo_epi8(low.second, high.second));
    store_256(at + 64, _mm256_unpackhi_epi8(low.first, high.first));
    store_256(at + 96, _mm256_unpackhi_epi8(low.second, high.second));
  }

  static Bytes add(Bytes a, Bytes b) {
    return {_mm256_add_epi8(a.first, b.first), _mm256_add_epi8(a.second, b.second)};
  }
  static Bytes sub(Bytes a, Bytes b) {
    return {_mm256_sub_epi8(a.first, b.first), _mm256_sub_epi8(a.second, b.second)};
  }
  static Bytes min(Bytes a, Bytes b) {
    return {_mm256_min_epu8(a.first, b.first), _mm256_min_epu8(a.second, b.second)};
  }
  static Bytes bit_and(Bytes a, Bytes b) {
    return {_mm256_and_si256(a.first, b.first), _mm256_and_si256(a.second, b.second)};
  }
  static Bytes or_and(Bytes a, Bytes b, Bytes c) {
    const Bytes both = bit_and(b, c);
    return {_mm256_or_si256(a.first, both.first), _mm256_or_si256(a.second, both.second)};
  }
  static Bytes select(Bytes mask, Bytes a, Bytes b) {
    const Bytes kept = {_mm256_andnot_si256(mask.first, b.first), _mm256_andnot_si256(mask.second, b.second)};
    return or_and(kept, mask, a);
  }
  template <int kBits>
  static Bytes shift_left(Bytes bytes) {
    return {_mm256_slli_epi16(bytes.first, kBits), _mm256_slli_epi16(bytes.second, kBits)};
  }
  template <int kBits>
  static Bytes shift_right(Bytes bytes) {
    return {_mm256_srli_epi16(bytes.first, kBits), _mm256_srli_epi16(bytes.second, kBits)};
  }
  static uint64_t top_bits(Bytes bytes) {
    const uint64_t second = static_cast<uint32_t>(_mm256_movemask_epi8(bytes.second));
    return second << 32 | static_cast<uint32_t>(_mm256_movemask_epi8(bytes.first));
  }
  static Bytes or_where(Bytes bytes, uint64_t bits, int byte) { return or_and(bytes, ones(bits), splat(byte)); }
  static Bytes sub_where(Bytes bytes, uint64_t bits, int byte) { return sub(bytes, bit_and(ones(bits), splat(byte))); }
  static Bytes expand_tiles(const std::byte* at) {
    const __m256i tiles = _mm256_set1_epi64x(static_cast<long long>(load_word(at)));
    const __m256i first = _mm256_set_epi64x(0x0505050505050505, 0x0101010101010101, 0x0404040404040404, 0);
    const __m256i second =
        _mm256_set_epi64x(0x0707070707070707, 0x0303030303030303, 0x0606060606060606, 0x0202020202020202);
    return {_mm256_shuffle_epi8(tiles, first), _mm256_shuffle_epi8(tiles, second)};
  }
  static void compress(std::byte* at, uint64_t bits, Bytes bytes) {
    alignas(32) std::byte all[kGroupChannels];
    store(all, bytes);
    for (uint32_t i = 0; i < kGroupChannels; i += 8, bits >>= 8) {
      store_word(at, _pext_u64(load_word(all + i), byte_mask(bits)));
      at += __builtin_popcountll(bits & 0xff);
    }
  }
  static Bytes expand(Bytes bytes, uint64_t bits, const std::byte* at) {
    alignas(32) std::byte all[kGroupChannels];
    uint64_t left = bits;
    for (uint32_t i = 0; i < kGroupChannels; i += 8, left >>= 8) {
      store_word(all + i, _pdep_u64(load_word(at), byte_mask(left)));
      at += __builtin_popcountll(left & 0xff);
    }
    return select(ones(bits), load(all), bytes);
  }

  static Maxima no_maxima() {
    const __m256i zero = _mm256_setzero_si256();
    return {{zero, zero, zero, zero}};
  }
  static Maxima max(Maxima maxima, const std::byte* at) {
    for (int i = 0; i < 4; ++i) {
      const __m256i elements = load_256(at + 32 * i);
      maxima.quarters[i] = _mm256_max_epu16(maxima.quarters[i], _mm256_add_epi16(elements, elements));
    }
    return maxima;
  }
  template <int kShift>
  static Bytes tile_maxima(Maxima maxima) {
    for (__m256i& quarter : maxima.quarters)
      quarter = _mm256_srli_epi16(lane_maxima(quarter), kShift);
    return {_mm256_packus_epi16(maxima.quarters[0], maxima.quarters[2]),
            _mm256_packus_epi16(maxima.quarters[1], maxima.quarters[3])};
  }

 private:
  static __m256i load_256(const std::byte* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
  static void store_256(std::byte* at, __m256i bytes) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), bytes); }

  static void split_half(__m256i first, __m256i second, __m256i& low, __m256i& high) {
    const __m256i mask = _mm256_set1_epi16(0xff);
    low = _mm256_packus_epi16(_mm256_and_si256(first, mask), _mm256_and_si256(second, mask));
    high = _mm256_packus_epi16(_mm256_srli_epi16(first, 8), _mm256_srli_epi16(second, 8));
  }

  // Ones in each byte of eight whose bit is set.
  static uint64_t byte_mask(uint64_t bits) { return _pdep_u64(bits, 0x0101010101010101) * 0xff; }

  static __m256i ones_half(uint32_t bits) {
    const __m256i order = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    const __m256i each = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
    const __m256i mine = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), order), each);
    return _mm256_cmpeq_epi8(mine, each);
  }
  static Bytes ones(uint64_t bits) {
    return {ones_half(static_cast<uint32_t>(bits)), ones_half(static_cast<uint32_t>(bits >> 32))};
  }

  static __m256i lane_maxima(__m256i elements) {
    elements = _mm256_max_epu16(elements, _mm256_shuffle_epi32(elements, 0x4e));
    elements = _mm256_max_epu16(elements, _mm256_shuffle_epi32(elements, 0xb1));
    return _mm256_max_epu16(elements,
                            _mm256_or_si256(_mm256_slli_epi32(elements, 16), _mm256_srli_epi32(elements, 16)));
  }
};

}  // namespace

PlaneKernels avx2_plane_kernels() {
  return plane_kernels_of<Avx2>("avx2");
}

}  // namespace rhizome
#endif
