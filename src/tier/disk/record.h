// A record: a head of 108 bytes, the image as it was given, zeros up to a page. An image's payload, behind its own
// header of 84 bytes, so begins at a multiple of 64.
//
// The head, little-endian: u32 magic 0x52445a52 "RZDR", u32 segment, u64 generation, u64 lsn, 32 bytes key, u64 image
// bytes, u64 xxh3 of the image, u32 tenant, u32 expiry (both 0 in this version), zeros, u32 CRC-32C of the 104 before.
//
// Thread-safety: pure functions over the caller's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "block/block_key.h"

namespace rhizome {

inline constexpr uint64_t kPageBytes = 4096;
inline constexpr size_t kRecordHeadBytes = 108;

// The whole pages that so many bytes take.
constexpr uint64_t whole_pages(uint64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}
// The bytes that an image takes in a segment.
constexpr uint64_t record_bytes(uint64_t image_bytes) {
  return whole_pages(kRecordHeadBytes + image_bytes);
}

struct RecordHead {
  uint32_t segment = 0;
  uint64_t generation = 0;  // of the segment, when this was written
  uint64_t lsn = 0;         // counts all records that this store ever wrote
  BlockKey key;
  uint64_t image_bytes = 0;
  uint64_t image_checksum = 0;
};

// What a record is checked for, in this order.
enum class RecordCheck : uint8_t { kMagic, kHead, kSegment, kGeneration, kKey, kLength, kImage };
inline constexpr size_t kRecordChecksCount = 7;
std::string_view record_check_name(RecordCheck check);
// The reason of an Error that says so.
const char* record_check_reason(RecordCheck check);

// The checks that a reader makes. A test that plants a bug turns one off; nobody else may.
struct RecordChecks {
  std::array<bool, kRecordChecksCount> skipped{};
};

void write_record_head(const RecordHead& head, std::span<std::byte, kRecordHeadBytes> out);

// kMagic and kHead only. `bytes` is at least a head.
std::optional<RecordHead> parse_record_head(std::span<const std::byte> bytes);

// Nothing: the record is the one that is expected, whole (expected.lsn and .image_checksum do not count). `record` is
// record_bytes(expected.image_bytes) long.
std::optional<RecordCheck> check_record(std::span<const std::byte> record, const RecordHead& expected,
                                        const RecordChecks& checks = {});

}  // namespace rhizome
