#include "block/block_key.h"

#include <array>
#include <string_view>

#include "block/little_endian.h"

namespace rhizome {

BlockKey root_key(const Digest& keyspace) {
  constexpr std::string_view kDomain = "rhizome block key 1";
  Sha256 hash;
  hash.update(std::as_bytes(std::span(kDomain)));
  hash.update(keyspace);
  return {hash.finish()};
}

BlockKey next_key(const BlockKey& parent, std::span<const Token> tokens) {
  std::array<std::byte, sizeof(uint32_t)> count;
  store_little(count.data(), static_cast<uint32_t>(tokens.size()));
  Sha256 hash;
  hash.update(parent.bytes);
  hash.update(count);
  hash.update(std::as_bytes(tokens));  // little endian already, as little_endian.h asserts
  return {hash.finish()};
}

}  // namespace rhizome
