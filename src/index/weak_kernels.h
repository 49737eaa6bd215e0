// For tests: kernels whose fingerprints have few bits, so that different blocks share one all the time.
#pragma once

#include <cstdint>

#include "index/kernels.h"

namespace rhizome {

template <int kBits>
inline void weak_fingerprint(const FingerprintKey& key, const Token* tokens, uint32_t blocks, uint32_t block_tokens,
                             uint64_t* out) {
  kernels_for(block_tokens).front().fingerprint(key, tokens, blocks, out);
  for (uint32_t i = 0; i < blocks; ++i)
    out[i] &= (uint64_t{1} << kBits) - 1;
}

template <int kBits>
inline uint32_t weak_match(const FingerprintKey& key, const uint64_t* stored, const Token* tokens, uint32_t blocks,
                           uint32_t block_tokens) {
  for (uint32_t i = 0; i < blocks; ++i) {
    uint64_t fingerprint = 0;
    weak_fingerprint<kBits>(key, tokens + i * block_tokens, 1, block_tokens, &fingerprint);
    if (fingerprint != stored[i]) return i;
  }
  return blocks;
}

// With no bits every fingerprint is the same.
template <int kBits>
inline Kernels weak_kernels(uint32_t block_tokens) {
  Kernels kernels = kernels_for(block_tokens).front();
  kernels.name = "weak";
  kernels.functions.fingerprint = &weak_fingerprint<kBits>;
  kernels.functions.match_fingerprints = &weak_match<kBits>;
  return kernels;
}

}  // namespace rhizome
