// The geometry of a block's KV as the wire image states it: one shape formula for multi-head, grouped-query and latent
// attention. Sections, in which the codecs work, are the K or the V of one layer.
//
// Thread-safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rhizome {

// The values are part of the format: never reuse or renumber one.
enum class ElementType : uint8_t { kBf16 = 0, kF16 = 1, kF32 = 2, kF8E4M3 = 3, kF8E5M2 = 4, kI8 = 5, kOpaque = 255 };
enum class ImageLayout : uint8_t {
  kLayerHalfToken = 0,  // [layer][K, V][token][head][width]: the canonical one
  kLayerTokenHalf = 1,  // [layer][token][K, V][head][width]
  kHalfLayerToken = 2,  // [K, V][layer][token][head * width]
  kLatent = 3,          // [layer][token][rope + latent]: multi-head latent attention
  kOpaque = 255,        // bytes that only their engine understands
};

// Where a section lies in a block: `rows_count` rows (tokens) of `channels` elements, `row_stride_bytes` apart.
struct SectionShape {
  uint64_t offset_bytes = 0;
  uint32_t rows_count = 0;
  uint32_t channels = 0;
  uint64_t row_stride_bytes = 0;
  uint32_t element_bytes = 0;

  uint64_t row_bytes() const { return uint64_t{channels} * element_bytes; }
  uint64_t raw_bytes() const { return rows_count * row_bytes(); }
};

struct BlockGeometry {
  static constexpr uint32_t kLayersMax = 1024;
  static constexpr uint32_t kTokensMax = 4096;
  static constexpr uint32_t kHeadsMax = 256;

  ElementType element_type = ElementType::kBf16;
  ImageLayout layout = ImageLayout::kLayerHalfToken;
  bool keys_before_rope = false;
  uint16_t layers_count = 0;
  uint16_t tokens_count = 0;
  uint16_t kv_heads_count = 0;  // of this shard; 1 for latent attention
  uint16_t key_width = 0;       // latent attention: of the rope part
  uint16_t value_width = 0;     // latent attention: of the latent part
  uint32_t opaque_bytes = 0;    // only for kOpaque: what its engine says a block has

  // A block of which nothing but the size is known.
  static BlockGeometry opaque(uint16_t tokens, uint32_t bytes) {
    BlockGeometry geometry;
    geometry.element_type = ElementType::kOpaque;
    geometry.layout = ImageLayout::kOpaque;
    geometry.tokens_count = tokens;
    geometry.opaque_bytes = bytes;
    return geometry;
  }

  bool is_opaque() const { return layout == ImageLayout::kOpaque; }
  bool is_latent() const { return layout == ImageLayout::kLatent; }

  // Within the format's ranges, and raw_bytes() fits the header. The functions below are for such geometries only.
  bool is_valid() const;
  uint64_t raw_bytes() const;

  // Two for each layer, K (or rope) and V (or latent); none for what is opaque.
  uint32_t sections_count() const { return is_opaque() ? 0 : 2u * layers_count; }
  // Section 2 * layer is K, 2 * layer + 1 is V.
  SectionShape section(uint32_t index) const;

  friend bool operator==(const BlockGeometry&, const BlockGeometry&) = default;
};

// Bytes of one element; 0 for a type that the format does not know and for kOpaque.
uint32_t element_bytes(ElementType type);

}  // namespace rhizome
