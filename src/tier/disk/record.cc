#include "tier/disk/record.h"

#include <algorithm>
#include <cstring>

#include "block/checksum.h"
#include "block/little_endian.h"
#include "contract/check.h"
#include "tier/disk/crc32c.h"

namespace rhizome {
namespace {

constexpr uint32_t kMagic = 0x52445a52;
constexpr size_t kSegmentAt = 4;
constexpr size_t kGenerationAt = 8;
constexpr size_t kLsnAt = 16;
constexpr size_t kKeyAt = 24;
constexpr size_t kImageBytesAt = 56;
constexpr size_t kImageChecksumAt = 64;
constexpr size_t kCrcAt = 104;

static_assert(kCrcAt + 4 == kRecordHeadBytes);
static_assert((kRecordHeadBytes + 84) % 64 == 0, "an image's payload begins at a multiple of 64");

bool crc_is_right(std::span<const std::byte> bytes) {
  return load_little<uint32_t>(bytes.data() + kCrcAt) == crc32c(bytes.first(kCrcAt));
}

RecordHead read_fields(const std::byte* at) {
  RecordHead head;
  head.segment = load_little<uint32_t>(at + kSegmentAt);
  head.generation = load_little<uint64_t>(at + kGenerationAt);
  head.lsn = load_little<uint64_t>(at + kLsnAt);
  std::memcpy(head.key.bytes.data(), at + kKeyAt, head.key.bytes.size());
  head.image_bytes = load_little<uint64_t>(at + kImageBytesAt);
  head.image_checksum = load_little<uint64_t>(at + kImageChecksumAt);
  return head;
}

}  // namespace

std::string_view record_check_name(RecordCheck check) {
  constexpr std::string_view kNames[] = {"magic", "head", "segment", "generation", "key", "length", "image"};
  return kNames[static_cast<size_t>(check)];
}

const char* record_check_reason(RecordCheck check) {
  switch (check) {
    case RecordCheck::kMagic:
      return "there is no record on the disk where one was written";
    case RecordCheck::kHead:
      return "the checksum of a record's head on the disk is wrong";
    case RecordCheck::kSegment:
      return "a record on the disk belongs to another segment";
    case RecordCheck::kGeneration:
      return "a record on the disk is of another generation";
    case RecordCheck::kKey:
      return "a record on the disk has another key";
    case RecordCheck::kLength:
      return "a record on the disk has another length";
    case RecordCheck::kImage:
      return "the checksum of an image on the disk is wrong";
  }
  return "a record on the disk is wrong";
}

void write_record_head(const RecordHead& head, std::span<std::byte, kRecordHeadBytes> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  std::byte* const at = out.data();
  store_little(at, kMagic);
  store_little(at + kSegmentAt, head.segment);
  store_little(at + kGenerationAt, head.generation);
  store_little(at + kLsnAt, head.lsn);
  std::memcpy(at + kKeyAt, head.key.bytes.data(), head.key.bytes.size());
  store_little(at + kImageBytesAt, head.image_bytes);
  store_little(at + kImageChecksumAt, head.image_checksum);
  store_little(at + kCrcAt, crc32c(out.first(kCrcAt)));
}

std::optional<RecordHead> parse_record_head(std::span<const std::byte> bytes) {
  RHIZOME_CHECK(bytes.size() >= kRecordHeadBytes);
  if (load_little<uint32_t>(bytes.data()) != kMagic || !crc_is_right(bytes)) return std::nullopt;
  return read_fields(bytes.data());
}

std::optional<RecordCheck> check_record(std::span<const std::byte> record, const RecordHead& expected,
                                        const RecordChecks& checks) {
  RHIZOME_CHECK(record.size() >= kRecordHeadBytes + expected.image_bytes);
  const RecordHead head = read_fields(record.data());
  const auto is_wrong = [&checks](RecordCheck check, bool is_right) {
    return !is_right && !checks.skipped[static_cast<size_t>(check)];
  };
  if (is_wrong(RecordCheck::kMagic, load_little<uint32_t>(record.data()) == kMagic)) return RecordCheck::kMagic;
  if (is_wrong(RecordCheck::kHead, crc_is_right(record))) return RecordCheck::kHead;
  if (is_wrong(RecordCheck::kSegment, head.segment == expected.segment)) return RecordCheck::kSegment;
  if (is_wrong(RecordCheck::kGeneration, head.generation == expected.generation)) return RecordCheck::kGeneration;
  if (is_wrong(RecordCheck::kKey, head.key == expected.key)) return RecordCheck::kKey;
  if (is_wrong(RecordCheck::kLength, head.image_bytes == expected.image_bytes)) return RecordCheck::kLength;
  const std::span<const std::byte> image = record.subspan(kRecordHeadBytes, expected.image_bytes);
  if (!checks.skipped[static_cast<size_t>(RecordCheck::kImage)] && checksum(image) != head.image_checksum)
    return RecordCheck::kImage;
  return std::nullopt;
}

}  // namespace rhizome
