// The inner loops of the index: fingerprints of blocks, and how far two stretches of blocks agree.
//
// A fingerprint is 64 bits that depend on every token of a block and on a secret, so that nobody outside the process
// can make two blocks that share one. A block is cut into stripes of 64 bytes, the last one filled up with zeros, and
// a stripe into lanes of 16 bytes:
//
//   lane'       = R(R(R(R(lane ^ mask of the lane) ^ k1) ^ k2) ^ k3)      R: an AES round, its key left out
//   fingerprint = the low 64 bits of AES-128(K, xor of all lane')
//
// The masks (one for each lane of the largest block), k1 to k3 and K are independent and random. R R R R stands for
// four-round AES, whose first key is part of the masks and whose last one would only be added to what AES-128 whitens
// itself. Sources: the sum of masked lanes is that of PMAC (Black, Rogaway 2002); four rounds of AES in such a sum:
// Minematsu, Tsunoo 2006; they take one difference to another with a probability of at most 2^-113 (Keliher, Sui 2007).
// So two blocks, chosen without having seen fingerprints, share the 128 bits of the sum with about that probability,
// and their fingerprints with 2^-64: fingerprints do not stand for the tokens where that is not enough.
//
// Thread-safety: keys and kernels do not change once made; everything here may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "block/token.h"

namespace rhizome {

// The secret. Neither it nor a fingerprint leaves the process.
struct alignas(64) FingerprintKey {
  static constexpr size_t kStripes = 16;
  static constexpr size_t kSecretBytes = kStripes * 64 + 3 * 16 + 16;

  // From the kernel's entropy.
  static FingerprintKey random();
  // The same for the same seed, on every machine and for ever. For tests.
  static FingerprintKey from_seed(uint64_t seed);
  // The masks, k1 to k3 and K, in this order.
  static FingerprintKey from_secret(std::span<const std::byte, kSecretBytes> secret);

  std::byte masks[kStripes][64] = {};
  std::byte lane_keys[3][16] = {};
  std::byte last_keys[11][16] = {};  // K, expanded
};

// What one variant does for one size of block, or, the portable one, for any. All count whole blocks.
struct KernelFunctions {
  void (*fingerprint)(const FingerprintKey& key, const Token* tokens, uint32_t blocks, uint32_t block_tokens,
                      uint64_t* out) = nullptr;
  uint32_t (*match_fingerprints)(const FingerprintKey& key, const uint64_t* stored, const Token* tokens,
                                 uint32_t blocks, uint32_t block_tokens) = nullptr;
  uint32_t (*match_tokens)(const Token* stored, const Token* tokens, uint32_t blocks, uint32_t block_tokens) = nullptr;
  uint32_t (*match_words)(const uint64_t* stored, const uint64_t* words, uint32_t blocks) = nullptr;
};

// The functions for blocks of `block_tokens` tokens. Pointers need no alignment; nothing is read or written beyond
// `blocks` blocks, which may be none. All variants return the same.
struct Kernels {
  const char* name = "";
  uint32_t block_tokens = 0;
  KernelFunctions functions;

  void fingerprint(const FingerprintKey& key, const Token* tokens, uint32_t blocks, uint64_t* out) const {
    functions.fingerprint(key, tokens, blocks, block_tokens, out);
  }
  // How many blocks, from the first, have the stored fingerprint.
  uint32_t match_fingerprints(const FingerprintKey& key, const uint64_t* stored, const Token* tokens,
                              uint32_t blocks) const {
    return functions.match_fingerprints(key, stored, tokens, blocks, block_tokens);
  }
  // How many blocks, from the first, have the stored tokens.
  uint32_t match_tokens(const Token* stored, const Token* tokens, uint32_t blocks) const {
    return functions.match_tokens(stored, tokens, blocks, block_tokens);
  }
  // How many words, from the first, are the stored ones: for blocks that the caller has hashed, a word each.
  uint32_t match_words(const uint64_t* stored, const uint64_t* words, uint32_t blocks) const {
    return functions.match_words(stored, words, blocks);
  }
};

inline constexpr uint32_t kKernelBlockTokensMax = 256;

// Those that this processor can run for blocks of 1 to kKernelBlockTokensMax tokens, the slowest first. The first is
// "portable" and runs everywhere; the others ("aesni", "vaes256", "vaes512") are for 16, 32, 64, 128 and 256 tokens.
std::vector<Kernels> kernels_for(uint32_t block_tokens);
Kernels fastest_kernels(uint32_t block_tokens);

}  // namespace rhizome
