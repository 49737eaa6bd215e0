#include "codec/geometry_record.h"

#include <cstdint>

namespace rhizome {
namespace {

void put(std::array<std::byte, kGeometryRecordBytes>& record, size_t at, uint32_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    record[at + i] = static_cast<std::byte>(value >> (8 * i));
}

uint32_t get(std::span<const std::byte> record, size_t at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; ++i)
    value |= static_cast<uint32_t>(record[at + i]) << (8 * i);
  return value;
}

}  // namespace

std::array<std::byte, kGeometryRecordBytes> encode_geometry(const BlockGeometry& geometry) {
  std::array<std::byte, kGeometryRecordBytes> record{};
  put(record, 0, static_cast<uint32_t>(geometry.element_type), 1);
  put(record, 1, static_cast<uint32_t>(geometry.layout), 1);
  put(record, 2, geometry.keys_before_rope ? 1 : 0, 1);
  put(record, 4, geometry.layers_count, 2);
  put(record, 6, geometry.tokens_count, 2);
  put(record, 8, geometry.kv_heads_count, 2);
  put(record, 10, geometry.key_width, 2);
  put(record, 12, geometry.value_width, 2);
  put(record, 16, geometry.opaque_bytes, 4);
  return record;
}

Result<BlockGeometry> decode_geometry(std::span<const std::byte> record) {
  if (record.size() != kGeometryRecordBytes) return fail(Code::kInvalidArgument, "a geometry of another length");
  BlockGeometry geometry;
  geometry.element_type = static_cast<ElementType>(get(record, 0, 1));
  geometry.layout = static_cast<ImageLayout>(get(record, 1, 1));
  geometry.keys_before_rope = get(record, 2, 1) == 1;
  geometry.layers_count = static_cast<uint16_t>(get(record, 4, 2));
  geometry.tokens_count = static_cast<uint16_t>(get(record, 6, 2));
  geometry.kv_heads_count = static_cast<uint16_t>(get(record, 8, 2));
  geometry.key_width = static_cast<uint16_t>(get(record, 10, 2));
  geometry.value_width = static_cast<uint16_t>(get(record, 12, 2));
  geometry.opaque_bytes = get(record, 16, 4);
  const auto again = encode_geometry(geometry);
  for (size_t i = 0; i < record.size(); ++i) {
    if (record[i] != again[i]) return fail(Code::kInvalidArgument, "a geometry with reserved bytes");
  }
  if (!geometry.is_valid()) return fail(Code::kInvalidArgument, "a geometry that makes no sense");
  return geometry;
}

}  // namespace rhizome
