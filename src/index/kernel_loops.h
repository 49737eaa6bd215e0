// The loops that the variants with vector instructions share, and comparisons for those with no more than AVX2.
//
// In a namespace without a name: each file that includes this has its own copy, compiled for its own instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "index/kernels.h"

namespace rhizome {
namespace {

inline __m128i load_128(const void* at) {
  return _mm_loadu_si128(static_cast<const __m128i*>(at));
}

inline __m256i load_256(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}

struct CompareAvx2 {
  // How many stretches of 64 bytes, from the first, are the same.
  static size_t match_stripes(const void* stored, const void* given, size_t stripes) {
    const auto* a = static_cast<const std::byte*>(stored);
    const auto* b = static_cast<const std::byte*>(given);
    size_t stripe = 0;
    while (stripe + 4 <= stripes && equal<256>(a + stripe * 64, b + stripe * 64))
      stripe += 4;
    while (stripe < stripes && equal<64>(a + stripe * 64, b + stripe * 64))
      ++stripe;
    return stripe;
  }

  static uint32_t match_words(const uint64_t* stored, const uint64_t* words, uint32_t count) {
    uint32_t at = static_cast<uint32_t>(match_stripes(stored, words, count / 8)) * 8;
    for (; at < count; ++at) {
      const __m128i a = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(stored + at));
      const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(words + at));
      const __m128i difference = _mm_xor_si128(a, b);
      if (_mm_testz_si128(difference, difference) == 0) break;
    }
    return at;
  }

 private:
  template <int kBytes>
  static bool equal(const std::byte* a, const std::byte* b) {
    __m256i sum = _mm256_setzero_si256();
    for (int at = 0; at < kBytes; at += 32)
      sum = _mm256_or_si256(sum, _mm256_xor_si256(load_256(a + at), load_256(b + at)));
    return _mm256_testz_si256(sum, sum) != 0;
  }
};

// Bit i tells whether word i of four differs.
inline uint32_t different_words(__m256i a, __m256i b) {
  return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(a, b)))) ^ 0xf;
}

// Ones in the first `count` words of four.
inline __m256i first_words(uint32_t count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}

// For blocks of `kStripesEach` stripes. An Engine has
//   match_stripes(), match_words()               as CompareAvx2 has them
//   Keys(const FingerprintKey&)                  what it keeps at hand of a key
//   fingerprints<kStripesEach, kBlocksAtOnce>(Keys, tokens)  the fingerprints of one to four blocks, a word each; a
//   word that is left
//                                                has any value. The blocks do not wait for each other, which hides how
//                                                long a round of AES takes: four at a time keep the processor busy.
template <typename Engine, uint32_t kStripesEach>
struct VectorKernels {
  using Keys = typename Engine::Keys;
  static constexpr size_t kBlockTokens = size_t{kStripesEach} * 16;

  static void fingerprint(const FingerprintKey& key, const Token* tokens, uint32_t blocks, uint32_t /*block_tokens*/,
                          uint64_t* out) {
    const Keys keys(key);
    for (; blocks >= 4; blocks -= 4) {
      const __m256i found = Engine::template fingerprints<kStripesEach, 4>(keys, tokens);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), found);
      tokens += 4 * kBlockTokens;
      out += 4;
    }
    if (blocks == 0) return;
    _mm256_maskstore_epi64(reinterpret_cast<long long*>(out), first_words(blocks), fewer(keys, tokens, blocks));
  }

  static uint32_t match_fingerprints(const FingerprintKey& key, const uint64_t* stored, const Token* tokens,
                                     uint32_t blocks, uint32_t /*block_tokens*/) {
    const Keys keys(key);
    uint32_t block = 0;
    for (; blocks - block >= 4; block += 4) {
      const __m256i found = Engine::template fingerprints<kStripesEach, 4>(keys, tokens + block * kBlockTokens);
      const uint32_t different = different_words(found, load_256(stored + block));
      if (different != 0) return block + static_cast<uint32_t>(__builtin_ctz(different));
    }
    const uint32_t rest = blocks - block;
    if (rest == 0) return blocks;
    const __m256i found = fewer(keys, tokens + block * kBlockTokens, rest);
    const __m256i expected =
        _mm256_maskload_epi64(reinterpret_cast<const long long*>(stored + block), first_words(rest));
    // A one behind the last word, so that there is a first one.
    const uint32_t different = different_words(found, expected) | 1u << rest;
    return block + static_cast<uint32_t>(__builtin_ctz(different));
  }

  static uint32_t match_tokens(const Token* stored, const Token* tokens, uint32_t blocks, uint32_t /*block_tokens*/) {
    return static_cast<uint32_t>(Engine::match_stripes(stored, tokens, size_t{blocks} * kStripesEach) / kStripesEach);
  }

  static uint32_t match_words(const uint64_t* stored, const uint64_t* words, uint32_t blocks) {
    return Engine::match_words(stored, words, blocks);
  }

 private:
  static __m256i fewer(const Keys& keys, const Token* tokens, uint32_t blocks) {
    switch (blocks) {
      case 1:
        return Engine::template fingerprints<kStripesEach, 1>(keys, tokens);
      case 2:
        return Engine::template fingerprints<kStripesEach, 2>(keys, tokens);
      default:
        return Engine::template fingerprints<kStripesEach, 3>(keys, tokens);
    }
  }
};

}  // namespace
}  // namespace rhizome
