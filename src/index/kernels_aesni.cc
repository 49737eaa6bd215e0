#include "index/kernel_variants.h"

#if defined(__x86_64__)
#include "index/kernel_loops.h"

#if !defined(__AVX2__) || !defined(__AES__)
#error "this file is not compiled for the instructions that it is named after"
#endif

namespace rhizome {
namespace {

struct AesniEngine : CompareAvx2 {
  struct Keys {
    explicit Keys(const FingerprintKey& key) : secret(key) {
      for (int i = 0; i < 3; ++i)
        lane[i] = load_128(key.lane_keys[i]);
    }

    const FingerprintKey& secret;
    __m128i lane[3];
  };

  template <uint32_t kStripesEach, uint32_t kBlocksAtOnce>
  static __m256i fingerprints(const Keys& keys, const Token* tokens) {
    // The sum of one block alone is made of two, since each waits for the round before.
    constexpr uint32_t kParts = kBlocksAtOnce == 1 ? 2 : 1;
    __m128i sums[kBlocksAtOnce * kParts] = {};
    // Added before the sum instead of after it, which takes no instruction.
    for (uint32_t block = 0; block < kBlocksAtOnce; ++block)
      sums[block * kParts] = load_128(keys.secret.last_keys[0]);
    for (uint32_t lane = 0; lane < kStripesEach * 4; lane += kParts) {
      __m128i states[kBlocksAtOnce * kParts];
      for (uint32_t i = 0; i < kBlocksAtOnce * kParts; ++i) {
        const uint32_t own = lane + i % kParts;
        states[i] = _mm_xor_si128(load_128(keys.secret.masks[own / 4] + own % 4 * 16),
                                  load_128(tokens + (i / kParts * kStripesEach * 4 + own) * 4));
      }
      for (const __m128i& key : keys.lane) {
        for (__m128i& state : states)
          state = _mm_aesenc_si128(state, key);
      }
      // The sum stands where a round has its key: the instruction adds it too.
      for (uint32_t i = 0; i < kBlocksAtOnce * kParts; ++i)
        sums[i] = _mm_aesenc_si128(states[i], sums[i]);
    }
    if constexpr (kBlocksAtOnce == 1) sums[0] = _mm_xor_si128(sums[0], sums[1]);
    for (int i = 1; i < 10; ++i) {
      for (uint32_t block = 0; block < kBlocksAtOnce; ++block)
        sums[block] = _mm_aesenc_si128(sums[block], load_128(keys.secret.last_keys[i]));
    }
    for (uint32_t block = 0; block < kBlocksAtOnce; ++block)
      sums[block] = _mm_aesenclast_si128(sums[block], load_128(keys.secret.last_keys[10]));
    const __m128i front = _mm_unpacklo_epi64(sums[0], sums[kBlocksAtOnce > 1 ? 1 : 0]);
    const __m128i back =
        kBlocksAtOnce > 2 ? _mm_unpacklo_epi64(sums[kBlocksAtOnce > 2 ? 2 : 0], sums[kBlocksAtOnce - 1]) : front;
    return _mm256_inserti128_si256(_mm256_castsi128_si256(front), back, 1);
  }
};

template <uint32_t kStripesEach>
using Aesni = VectorKernels<AesniEngine, kStripesEach>;

}  // namespace

const KernelFunctions* aesni_kernels(uint32_t block_tokens) {
  return functions_for<Aesni>(block_tokens);
}

}  // namespace rhizome
#endif
