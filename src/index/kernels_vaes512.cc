#include "index/kernel_variants.h"

#if defined(__x86_64__)
#include "index/kernel_loops.h"

#if !defined(__AVX512F__) || !defined(__AVX512VL__) || !defined(__VAES__)
#error "this file is not compiled for the instructions that it is named after"
#endif

namespace rhizome {
namespace {

struct CompareAvx512 {
  static size_t match_stripes(const void* stored, const void* given, size_t stripes) {
    const auto* a = static_cast<const std::byte*>(stored);
    const auto* b = static_cast<const std::byte*>(given);
    size_t stripe = 0;
    while (stripe + 4 <= stripes && equal_256(a + stripe * 64, b + stripe * 64))
      stripe += 4;
    for (; stripe < stripes; ++stripe) {
      if (_mm512_cmpneq_epi64_mask(load_512(a + stripe * 64), load_512(b + stripe * 64)) != 0) break;
    }
    return stripe;
  }

  static uint32_t match_words(const uint64_t* stored, const uint64_t* words, uint32_t count) {
    uint32_t at = static_cast<uint32_t>(match_stripes(stored, words, count / 8)) * 8;
    const uint32_t rest = count - at < 8 ? count - at : 8;
    const __mmask8 wanted = static_cast<__mmask8>((1u << rest) - 1);
    const __m512i a = _mm512_maskz_loadu_epi64(wanted, stored + at);
    const __m512i b = _mm512_maskz_loadu_epi64(wanted, words + at);
    // A one behind the last word, so that there is a first one.
    const uint32_t different = _mm512_cmpneq_epi64_mask(a, b) | 1u << rest;
    return at + static_cast<uint32_t>(__builtin_ctz(different));
  }

 private:
  static __m512i load_512(const void* at) { return _mm512_loadu_si512(at); }

  static bool equal_256(const std::byte* a, const std::byte* b) {
    __m512i sum = _mm512_xor_si512(load_512(a), load_512(b));
    for (int at = 64; at < 256; at += 64) {
      // 0xf6: first | (second ^ third).
      sum = _mm512_ternarylogic_epi64(sum, load_512(a + at), load_512(b + at), 0xf6);
    }
    return _mm512_test_epi64_mask(sum, sum) == 0;
  }
};

struct Vaes512Engine : CompareAvx512 {
  struct Keys {
    explicit Keys(const FingerprintKey& key) : masks(key.masks) {
      for (int i = 0; i < 3; ++i)
        lane[i] = _mm512_broadcast_i32x4(load_128(key.lane_keys[i]));
      whitening = _mm512_zextsi128_si512(load_128(key.last_keys[0]));
      for (int i = 0; i < 10; ++i)
        last[i] = _mm512_broadcast_i32x4(load_128(key.last_keys[i + 1]));
    }

    const std::byte (&masks)[FingerprintKey::kStripes][64];
    __m512i lane[3];
    __m512i whitening;  // of one lane
    __m512i last[10];
  };

  template <uint32_t kStripesEach, uint32_t kBlocksAtOnce>
  static __m256i fingerprints(const Keys& keys, const Token* tokens) {
    __m512i sums[kBlocksAtOnce];
    // Added before the sum instead of after it, which takes no instruction.
    for (__m512i& sum : sums)
      sum = keys.whitening;
    for (uint32_t stripe = 0; stripe < kStripesEach; ++stripe) {
      const __m512i mask = _mm512_load_si512(keys.masks[stripe]);
      __m512i states[kBlocksAtOnce];
      for (uint32_t i = 0; i < kBlocksAtOnce; ++i)
        states[i] = _mm512_xor_si512(mask, _mm512_loadu_si512(tokens + (i * kStripesEach + stripe) * 16));
      for (const __m512i& key : keys.lane) {
        for (__m512i& state : states)
          state = _mm512_aesenc_epi128(state, key);
      }
      // The sum stands where a round has its key: the instruction adds it too.
      for (uint32_t i = 0; i < kBlocksAtOnce; ++i)
        sums[i] = _mm512_aesenc_epi128(states[i], sums[i]);
    }
    __m512i last = fold(sums);
    for (int i = 0; i < 9; ++i)
      last = _mm512_aesenc_epi128(last, keys.last[i]);
    last = _mm512_aesenclast_epi128(last, keys.last[9]);
    return _mm512_castsi512_si256(_mm512_permutexvar_epi64(_mm512_set_epi64(0, 0, 0, 0, 6, 4, 2, 0), last));
  }

 private:
  // The xor of the four lanes of each sum, in the lane of the sum's number.
  template <uint32_t kBlocksAtOnce>
  static __m512i fold(const __m512i (&sums)[kBlocksAtOnce]) {
    if constexpr (kBlocksAtOnce == 1) {
      const __m512i halves = _mm512_xor_si512(sums[0], _mm512_shuffle_i32x4(sums[0], sums[0], 0x4e));
      return _mm512_xor_si512(halves, _mm512_shuffle_i32x4(halves, halves, 0xb1));
    } else if constexpr (kBlocksAtOnce == 2) {
      const __m512i halves = halves_of(sums[0], sums[1]);
      return quarters_of(halves, halves);
    } else {
      return quarters_of(halves_of(sums[0], sums[1]), halves_of(sums[2], sums[kBlocksAtOnce - 1]));
    }
  }

  // Two lanes for each of two sums, and one lane for each of four.
  static __m512i halves_of(__m512i a, __m512i b) {
    return _mm512_xor_si512(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee));
  }
  static __m512i quarters_of(__m512i a, __m512i b) {
    return _mm512_xor_si512(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
  }
};

template <uint32_t kStripesEach>
using Vaes512 = VectorKernels<Vaes512Engine, kStripesEach>;

}  // namespace

const KernelFunctions* vaes512_kernels(uint32_t block_tokens) {
  return functions_for<Vaes512>(block_tokens);
}

}  // namespace rhizome
#endif
