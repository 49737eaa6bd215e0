#include "codec/zstd_planes.h"

#include <cstring>

#include "codec/image_rule.h"
#include "codec/workspace.h"
#include "codec/zstd_contexts.h"

namespace rhizome {

namespace {

// `kBytes` of an element, or 0: as many as the shape says.
template <uint32_t kBytes>
void part(const std::byte* values, const SectionShape& shape, std::byte* planes) {
  const uint64_t count = uint64_t{shape.rows_count} * shape.channels;
  for (uint32_t row = 0; row < shape.rows_count; ++row) {
    const std::byte* const from = values + row * shape.row_stride_bytes;
    std::byte* const to = planes + uint64_t{row} * shape.channels;
    for (uint32_t channel = 0; channel < shape.channels; ++channel) {
      for (uint32_t byte = 0; byte < kBytes; ++byte)
        to[(kBytes - 1 - byte) * count + channel] = from[size_t{channel} * kBytes + byte];
    }
  }
}

template <uint32_t kBytes>
void unite(const std::byte* planes, const SectionShape& shape, std::byte* values) {
  const uint64_t count = uint64_t{shape.rows_count} * shape.channels;
  for (uint32_t row = 0; row < shape.rows_count; ++row) {
    const std::byte* const from = planes + uint64_t{row} * shape.channels;
    std::byte* const to = values + row * shape.row_stride_bytes;
    for (uint32_t channel = 0; channel < shape.channels; ++channel) {
      for (uint32_t byte = 0; byte < kBytes; ++byte)
        to[size_t{channel} * kBytes + byte] = from[(kBytes - 1 - byte) * count + channel];
    }
  }
}

}  // namespace

uint64_t zstd_planes_bytes_max(const SectionShape& shape) {
  return shape.element_bytes * ZSTD_compressBound(uint64_t{shape.rows_count} * shape.channels);
}

uint64_t encode_zstd_planes(const std::byte* values, const SectionShape& shape, std::span<std::byte> out,
                            CodecWorkspace& workspace) {
  const std::span<std::byte> planes = workspace.take(CodecWorkspace::Purpose::kPlanes, shape.raw_bytes());
  switch (shape.element_bytes) {
    case 1:
      part<1>(values, shape, planes.data());
      break;
    case 2:
      part<2>(values, shape, planes.data());
      break;
    default:
      part<4>(values, shape, planes.data());
  }
  const size_t plane_bytes = planes.size() / shape.element_bytes;
  size_t written = 0;
  for (size_t plane = 0; plane < shape.element_bytes; ++plane) {
    const std::span<std::byte> room = out.subspan(written);
    const size_t size = ZSTD_compressCCtx(workspace.zstd().compress, room.data(), room.size(),
                                          planes.data() + plane * plane_bytes, plane_bytes, kZstdPlanesLevel);
    if (ZSTD_isError(size) != 0) return 0;
    written += size;
  }
  return written;
}

Status decode_zstd_planes(std::span<const std::byte> frames, const SectionShape& shape, std::byte* values,
                          CodecWorkspace& workspace) {
  const std::span<std::byte> planes = workspace.take(CodecWorkspace::Purpose::kPlanes, shape.raw_bytes());
  const size_t read =
      ZSTD_decompressDCtx(workspace.zstd().decompress, planes.data(), planes.size(), frames.data(), frames.size());
  if (ZSTD_isError(read) != 0 || read != planes.size()) return broken(ImageRule::kSectionBytes);
  switch (shape.element_bytes) {
    case 1:
      unite<1>(planes.data(), shape, values);
      break;
    case 2:
      unite<2>(planes.data(), shape, values);
      break;
    default:
      unite<4>(planes.data(), shape, values);
  }
  return {};
}

}  // namespace rhizome
