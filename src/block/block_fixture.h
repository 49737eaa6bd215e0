// What the tests of this layer share: a complete keyspace to start from, and bytes as text.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "block/keyspace.h"

namespace rhizome {

inline std::string hex_of(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

inline Digest counting_digest(unsigned first = 0) {
  Digest digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(first + i);
  return digest;
}

// The keyspace whose encoding, digest and keys are written out in the tests.
inline KeyspaceBuilder golden_builder() {
  KeyspaceBuilder builder;
  builder.set(KeyspaceTag::kEngine, "llama.cpp/seq-3")
      .set(KeyspaceTag::kWeights, counting_digest())
      .set(KeyspaceTag::kLayout, "L")
      .set(KeyspaceTag::kMemoryClass, "dense")
      .set(KeyspaceTag::kRope, "neox,1e6")
      .set(KeyspaceTag::kAttention, "causal")
      .set(KeyspaceTag::kTenant, "");
  return builder;
}

inline constexpr std::string_view kGoldenDigest = "3c70ccebf18a19a65a09fdad504870374b5e748a3fe2b8d37e12874b3ecdb4f2";

}  // namespace rhizome
