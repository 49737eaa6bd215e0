// The first page of a segment. It is written, and synced, before anything else of the segment's new generation.
//
// Little-endian: u32 magic 0x47535a52 "RZSG", u32 version, u32 segment, u32 zero, u64 generation, u64 segment bytes,
// zeros, u32 CRC-32C of the 60 bytes before; zeros up to a page. These 64 bytes stay as they are in every version: who
// finds another version leaves the segment alone.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rhizome {

inline constexpr uint32_t kDiskFormatVersion = 1;
inline constexpr uint32_t kSegmentMagic = 0x47535a52;
inline constexpr size_t kSegmentHeaderBytes = 64;

struct SegmentHeader {
  uint32_t version = kDiskFormatVersion;
  uint32_t segment = 0;
  uint64_t generation = 0;
  uint64_t segment_bytes = 0;
};

// `out` is a page.
void write_segment_header(const SegmentHeader& header, std::span<std::byte> out);
// Nothing: damaged, or never written. `bytes` are at least the 64.
std::optional<SegmentHeader> parse_segment_header(std::span<const std::byte> bytes);

// "segment-00012".
std::string segment_name(uint32_t number);
std::optional<uint32_t> segment_number(std::string_view name);

}  // namespace rhizome
