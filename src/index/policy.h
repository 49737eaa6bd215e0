// What an index compares blocks by. A policy says what a prompt consists of, what is stored of a block, and how far
// stored blocks and a prompt agree.
//
//   ExactPolicy      tokens; they are stored and compared. 4 bytes a token.
//   FingerprintPolicy  tokens; a keyed 64-bit fingerprint a block is stored (kernels.h): two different blocks are taken
//                    for the same with probability 2^-64 a comparison. 8 bytes a block.
//   PrehashedPolicy  a 64-bit hash a block, made by the caller, who answers for it. 8 bytes a block.
//
// Thread-safety: immutable once made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "block/token.h"
#include "index/index_types.h"
#include "index/kernels.h"
#include "machine/random.h"

namespace rhizome {

class TokenPolicy {
 public:
  using Element = Token;

  explicit TokenPolicy(const IndexOptions& options)
      : kernels_(options.kernels != nullptr ? *options.kernels : fastest_kernels(options.block_tokens)),
        key_(FingerprintKey::random()) {}
  // What another process made.
  TokenPolicy(uint32_t block_tokens, const FingerprintKey& key) : kernels_(fastest_kernels(block_tokens)), key_(key) {}

  uint32_t block_elements() const { return kernels_.block_tokens; }
  const FingerprintKey& key() const { return key_; }
  // What edges are told by.
  uint64_t word(const Token* block) const {
    uint64_t fingerprint = 0;
    kernels_.fingerprint(key_, block, 1, &fingerprint);
    return fingerprint;
  }

 protected:
  const Kernels kernels_;
  const FingerprintKey key_;
};

class ExactPolicy : public TokenPolicy {
 public:
  static constexpr bool kStoresElements = true;
  using TokenPolicy::TokenPolicy;

  static uint64_t payload_bytes(uint32_t block_tokens) { return uint64_t{block_tokens} * sizeof(Token); }

  uint32_t match(const std::byte* stored, const Token* prompt, uint32_t blocks) const {
    return kernels_.match_tokens(reinterpret_cast<const Token*>(stored), prompt, blocks);
  }
  void store(std::byte* payload, const Token* prompt, uint32_t blocks) const {
    std::memcpy(payload, prompt, payload_bytes(block_elements()) * blocks);
  }
  uint64_t stored_word(const std::byte* block) const { return word(reinterpret_cast<const Token*>(block)); }
};

class FingerprintPolicy : public TokenPolicy {
 public:
  static constexpr bool kStoresElements = false;
  using TokenPolicy::TokenPolicy;

  static uint64_t payload_bytes(uint32_t) { return sizeof(uint64_t); }

  uint32_t match(const std::byte* stored, const Token* prompt, uint32_t blocks) const {
    return kernels_.match_fingerprints(key_, reinterpret_cast<const uint64_t*>(stored), prompt, blocks);
  }
  void store(std::byte* payload, const Token* prompt, uint32_t blocks) const {
    kernels_.fingerprint(key_, prompt, blocks, reinterpret_cast<uint64_t*>(payload));
  }
  uint64_t stored_word(const std::byte* block) const {
    uint64_t fingerprint = 0;
    std::memcpy(&fingerprint, block, sizeof fingerprint);
    return fingerprint;
  }
};

// Whether an index can lie in shared memory: its readers find a key in the header.
template <class Policy>
inline constexpr bool kIsShareable = std::is_base_of_v<TokenPolicy, Policy>;

class PrehashedPolicy {
 public:
  using Element = uint64_t;
  static constexpr bool kStoresElements = false;

  explicit PrehashedPolicy(const IndexOptions& options)
      : kernels_(options.kernels != nullptr ? *options.kernels : fastest_kernels(options.block_tokens)),
        secret_(random_u64()) {}

  static uint64_t payload_bytes(uint32_t) { return sizeof(uint64_t); }

  uint32_t block_elements() const { return 1; }
  // With a secret, so that nobody can choose hashes whose edges crowd one bucket.
  uint64_t word(const uint64_t* block) const { return (*block ^ secret_) * 0xff51afd7ed558ccdu; }
  uint32_t match(const std::byte* stored, const uint64_t* prompt, uint32_t blocks) const {
    return kernels_.match_words(reinterpret_cast<const uint64_t*>(stored), prompt, blocks);
  }
  void store(std::byte* payload, const uint64_t* prompt, uint32_t blocks) const {
    std::memcpy(payload, prompt, uint64_t{blocks} * sizeof(uint64_t));
  }
  uint64_t stored_word(const std::byte* block) const {
    uint64_t hash = 0;
    std::memcpy(&hash, block, sizeof hash);
    return word(&hash);
  }

 private:
  const Kernels kernels_;
  const uint64_t secret_;
};

}  // namespace rhizome
