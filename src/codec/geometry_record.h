// A block's geometry as processes of one machine tell it each other: 24 bytes, little endian.
//
//   u8 element type | u8 layout | u8 keys before rope (0, 1) | u8 0 | u16 layers | u16 tokens | u16 kv heads |
//   u16 key width | u16 value width | u16 0 | u32 opaque bytes | u32 0
//
// Thread-safety: plain functions.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "codec/block_geometry.h"
#include "contract/result.h"

namespace rhizome {

inline constexpr size_t kGeometryRecordBytes = 24;

std::array<std::byte, kGeometryRecordBytes> encode_geometry(const BlockGeometry& geometry);

// kInvalidArgument: another length, reserved bytes that are not zero, or a geometry that is not valid.
Result<BlockGeometry> decode_geometry(std::span<const std::byte> record);

}  // namespace rhizome
