#include "index/kernel_variants.h"

#if defined(__x86_64__)
#include "index/kernel_loops.h"

#if !defined(__AVX2__) || !defined(__VAES__)
#error "this file is not compiled for the instructions that it is named after"
#endif

namespace rhizome {
namespace {

struct Vaes256Engine : CompareAvx2 {
  struct Keys {
    explicit Keys(const FingerprintKey& key)
        : secret(key), whitening(_mm256_zextsi128_si256(load_128(key.last_keys[0]))) {
      for (int i = 0; i < 3; ++i)
        lane[i] = _mm256_broadcastsi128_si256(load_128(key.lane_keys[i]));
    }

    const FingerprintKey& secret;
    __m256i whitening;  // of one lane
    __m256i lane[3];
  };

  template <uint32_t kStripesEach, uint32_t kBlocksAtOnce>
  static __m256i fingerprints(const Keys& keys, const Token* tokens) {
    // The sum of one block alone is made of two, since each waits for the round before.
    constexpr uint32_t kParts = kBlocksAtOnce == 1 ? 2 : 1;
    __m256i sums[kBlocksAtOnce * kParts] = {};
    // Added before the sum instead of after it, which takes no instruction.
    for (uint32_t block = 0; block < kBlocksAtOnce; ++block)
      sums[block * kParts] = keys.whitening;
    for (uint32_t half = 0; half < kStripesEach * 2; half += kParts) {
      __m256i states[kBlocksAtOnce * kParts];
      for (uint32_t i = 0; i < kBlocksAtOnce * kParts; ++i) {
        const uint32_t own = half + i % kParts;
        states[i] = _mm256_xor_si256(load_256(keys.secret.masks[own / 2] + own % 2 * 32),
                                     load_256(tokens + (i / kParts * kStripesEach * 2 + own) * 8));
      }
      for (const __m256i& key : keys.lane) {
        for (__m256i& state : states)
          state = _mm256_aesenc_epi128(state, key);
      }
      // The sum stands where a round has its key: the instruction adds it too.
      for (uint32_t i = 0; i < kBlocksAtOnce * kParts; ++i)
        sums[i] = _mm256_aesenc_epi128(states[i], sums[i]);
    }
    if constexpr (kBlocksAtOnce == 1) sums[0] = _mm256_xor_si256(sums[0], sums[1]);
    // kBlocksAtOnce 0 and 1 in the one, 2 and 3 in the other.
    __m256i front = fold(sums[0], sums[kBlocksAtOnce > 1 ? 1 : 0]);
    __m256i back = kBlocksAtOnce > 2 ? fold(sums[kBlocksAtOnce > 2 ? 2 : 0], sums[kBlocksAtOnce - 1]) : front;
    for (int i = 1; i < 10; ++i) {
      const __m256i key = _mm256_broadcastsi128_si256(load_128(keys.secret.last_keys[i]));
      front = _mm256_aesenc_epi128(front, key);
      if (kBlocksAtOnce > 2) back = _mm256_aesenc_epi128(back, key);
    }
    const __m256i key = _mm256_broadcastsi128_si256(load_128(keys.secret.last_keys[10]));
    front = _mm256_aesenclast_epi128(front, key);
    if (kBlocksAtOnce > 2) back = _mm256_aesenclast_epi128(back, key);
    return _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(front, back), 0xd8);
  }

 private:
  // The xor of both lanes of `a`, and that of `b`.
  static __m256i fold(__m256i a, __m256i b) {
    return _mm256_xor_si256(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
  }
};

template <uint32_t kStripesEach>
using Vaes256 = VectorKernels<Vaes256Engine, kStripesEach>;

}  // namespace

const KernelFunctions* vaes256_kernels(uint32_t block_tokens) {
  return functions_for<Vaes256>(block_tokens);
}

}  // namespace rhizome
#endif
