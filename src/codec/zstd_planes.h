// The codec "zstd planes": the bytes of all elements of a section by significance, the highest first, and zstd over
// them. For a type of which the other codecs know nothing, for programs that have no other decoder, and as what the
// others are measured beside.
//
// Thread-safety: the workspace belongs to one thread; else pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/block_geometry.h"
#include "contract/result.h"

namespace rhizome {

class CodecWorkspace;

inline constexpr int kZstdPlanesLevel = 1;

// The most that zstd makes of a section.
uint64_t zstd_planes_bytes_max(const SectionShape& shape);

// What was written; nothing when zstd fails. `out` has zstd_planes_bytes_max().
uint64_t encode_zstd_planes(const std::byte* values, const SectionShape& shape, std::span<std::byte> out,
                            CodecWorkspace& workspace);
// kSectionBytes unless the frames give exactly the section.
Status decode_zstd_planes(std::span<const std::byte> frames, const SectionShape& shape, std::byte* values,
                          CodecWorkspace& workspace);

}  // namespace rhizome
