#include "codec/block_geometry.h"

#include <limits>

#include "contract/check.h"

namespace rhizome {
namespace {

bool is_in(uint32_t value, uint32_t most) {
  return value >= 1 && value <= most;
}

}  // namespace

uint32_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kBf16:
    case ElementType::kF16:
      return 2;
    case ElementType::kF32:
      return 4;
    case ElementType::kF8E4M3:
    case ElementType::kF8E5M2:
    case ElementType::kI8:
      return 1;
    case ElementType::kOpaque:
      break;
  }
  return 0;
}

bool BlockGeometry::is_valid() const {
  if (!is_in(tokens_count, kTokensMax) || is_opaque() != (element_type == ElementType::kOpaque)) return false;
  if (is_opaque()) {
    const bool dimensionless = layers_count == 0 && kv_heads_count == 0 && key_width == 0 && value_width == 0;
    return dimensionless && !keys_before_rope && opaque_bytes > 0;
  }
  const bool known = static_cast<uint8_t>(layout) <= static_cast<uint8_t>(ImageLayout::kLatent) &&
                     rhizome::element_bytes(element_type) != 0;
  const bool ranged = is_in(layers_count, kLayersMax) && is_in(kv_heads_count, kHeadsMax) && key_width > 0 &&
                      value_width > 0 && (!is_latent() || kv_heads_count == 1);
  return known && ranged && opaque_bytes == 0 && raw_bytes() <= std::numeric_limits<uint32_t>::max();
}

uint64_t BlockGeometry::raw_bytes() const {
  if (is_opaque()) return opaque_bytes;
  // At most 2^49 with every field at the end of its range.
  return uint64_t{layers_count} * tokens_count * kv_heads_count * (uint64_t{key_width} + value_width) *
         rhizome::element_bytes(element_type);
}

SectionShape BlockGeometry::section(uint32_t index) const {
  RHIZOME_DCHECK(index < sections_count());
  const uint64_t layer = index / 2;
  const bool is_value = index % 2 == 1;
  const uint64_t bytes = rhizome::element_bytes(element_type);
  const uint64_t key_row = bytes * kv_heads_count * key_width;
  const uint64_t value_row = bytes * kv_heads_count * value_width;
  const uint64_t layer_bytes = tokens_count * (key_row + value_row);

  SectionShape shape;
  shape.rows_count = tokens_count;
  shape.channels = uint32_t{kv_heads_count} * (is_value ? value_width : key_width);
  shape.element_bytes = static_cast<uint32_t>(bytes);
  shape.row_stride_bytes = shape.row_bytes();
  switch (layout) {
    case ImageLayout::kLayerHalfToken:
      shape.offset_bytes = layer * layer_bytes + (is_value ? tokens_count * key_row : 0);
      break;
    case ImageLayout::kHalfLayerToken:
      shape.offset_bytes = layer * tokens_count * (is_value ? value_row : key_row) +
                           (is_value ? uint64_t{layers_count} * tokens_count * key_row : 0);
      break;
    case ImageLayout::kLayerTokenHalf:
    case ImageLayout::kLatent:
      shape.offset_bytes = layer * layer_bytes + (is_value ? key_row : 0);
      shape.row_stride_bytes = key_row + value_row;
      break;
    case ImageLayout::kOpaque:
      break;
  }
  return shape;
}

}  // namespace rhizome
