// The oracle: a payload for tests and benches whose bytes derive from the keyspace and from all
// tokens up to the block's end, so that any mix-up of blocks shows as a byte that differs.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <span>

#include "block/sha256.h"
#include "block/token.h"

namespace rhizome {

// `prefix` is the prompt from position 0 to the end of the block that `out` is the payload of.
void fill_oracle(std::span<std::byte> out, const Digest& keyspace, std::span<const Token> prefix);

bool oracle_matches(std::span<const std::byte> bytes, const Digest& keyspace, std::span<const Token> prefix);

}  // namespace rhizome
