// The layout: the shape of one block's KV. A block's payload is its parts one behind the other, in
// the order given; a part holds, for each of the block's tokens in order, `row_bytes` bytes.
//
// Thread-safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rhizome {

struct LayoutPart {
  enum class Kind : uint8_t { kKey = 0, kValue = 1 };

  Kind kind = Kind::kKey;
  uint8_t window = 0;         // 1: rows are only needed inside the sliding window
  uint8_t transposed = 0;     // 1: the engine keeps it element by element, so it computes otherwise; a payload does not
  uint32_t layer = 0;         // counted among the parts of the same kind and window
  uint32_t element_type = 0;  // the engine's own type number
  uint64_t row_bytes = 0;     // bytes a token

  friend bool operator==(const LayoutPart&, const LayoutPart&) = default;
};

struct Layout {
  uint32_t block_tokens = 0;
  std::vector<LayoutPart> parts;

  // Bytes of one block's payload.
  uint64_t payload_bytes() const;

  // Canonical bytes for KeyspaceTag::kLayout: block size, then every field of every part.
  std::vector<std::byte> encoding() const;

  friend bool operator==(const Layout&, const Layout&) = default;
};

// KV bytes of one token of a transformer with grouped-query attention: K and V for every layer and KV
// head. `bits` is the width of one element (quantised formats: their average width).
uint64_t kv_bytes_per_token(uint32_t layers, uint32_t kv_heads, uint32_t key_width, uint32_t value_width, double bits);

}  // namespace rhizome
