// The block key: a SHA-256 chain over the keyspace and all tokens to the block's end.
//
//   key(-1)  = SHA-256("rhizome block key 1" || keyspace digest)
//   key(n)   = SHA-256(key(n-1) || u32 token count || tokens of block n, u32 little endian each)
//
// A key names a block outside a process. It is a hint: whoever receives bytes under a key compares
// the identity that travels with them, token by token.
#pragma once

#include <span>
#include <string>

#include "block/little_endian.h"
#include "block/sha256.h"
#include "block/token.h"

namespace rhizome {

struct BlockKey {
  Digest bytes{};

  // The first 128 bits in hexadecimal: the name under which tiers and peers know the block.
  std::string name() const { return hex(bytes, 16); }

  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};

// For tables: a key is a digest already.
struct BlockKeyHash {
  size_t operator()(const BlockKey& key) const { return load_little<uint64_t>(key.bytes.data()); }
};

// The key "before position 0" of a keyspace.
BlockKey root_key(const Digest& keyspace);

BlockKey next_key(const BlockKey& parent, std::span<const Token> tokens);

}  // namespace rhizome
