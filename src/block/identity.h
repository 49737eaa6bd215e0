// The identity of a block: what its bytes are the KV of. It is stored at the head of the block's
// bytes, under the checksum, and compared with what was asked for on every read.
//
// Encoding (little endian): keyspace digest (32 bytes), parent key (32), u32 position of the first
// token, u32 token count, the tokens (u32 each), zero bytes up to a multiple of 64.
//
// Thread-safety: plain functions over the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "block/block_key.h"
#include "block/sha256.h"
#include "block/token.h"
#include "contract/result.h"

namespace rhizome {

struct Identity {
  Digest keyspace{};
  BlockKey parent;
  uint32_t position = 0;  // of the block's first token in the prompt
  std::span<const Token> tokens;
};

// Encoded size for a block of `tokens_count` tokens: a multiple of 64.
size_t identity_bytes(size_t tokens_count);

// `out` must be exactly identity_bytes(identity.tokens.size()) long; padding is written as zeros.
void encode_identity(const Identity& identity, std::span<std::byte> out);

// True only if `bytes` is exactly the encoding of `expected`.
bool identity_matches(std::span<const std::byte> bytes, const Identity& expected);

// What an encoding says, for those who have nothing to compare it with; the tokens are the reader's own.
struct IdentityRecord {
  Digest keyspace{};
  BlockKey parent;
  uint32_t position = 0;
  std::vector<Token> tokens;

  Identity identity() const { return {keyspace, parent, position, tokens}; }
};

// kDataLoss: not the encoding of a block of 1 to `tokens_max` tokens, or not exactly that long.
Result<IdentityRecord> decode_identity(std::span<const std::byte> bytes, size_t tokens_max);

// The parent key that an encoding claims. `bytes` must be at least identity_bytes(0) long.
BlockKey identity_parent(std::span<const std::byte> bytes);

}  // namespace rhizome
