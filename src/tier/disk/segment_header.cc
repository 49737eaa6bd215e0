#include "tier/disk/segment_header.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "block/little_endian.h"
#include "contract/check.h"
#include "tier/disk/crc32c.h"
#include "tier/disk/record.h"

namespace rhizome {
namespace {

constexpr size_t kCrcAt = 60;
constexpr std::string_view kPrefix = "segment-";
constexpr size_t kDigits = 5;

}  // namespace

void write_segment_header(const SegmentHeader& header, std::span<std::byte> out) {
  RHIZOME_CHECK(out.size() == kPageBytes);
  std::fill(out.begin(), out.end(), std::byte{0});
  std::byte* const at = out.data();
  store_little(at, kSegmentMagic);
  store_little(at + 4, header.version);
  store_little(at + 8, header.segment);
  store_little(at + 16, header.generation);
  store_little(at + 24, header.segment_bytes);
  store_little(at + kCrcAt, crc32c(out.first(kCrcAt)));
}

std::optional<SegmentHeader> parse_segment_header(std::span<const std::byte> bytes) {
  RHIZOME_CHECK(bytes.size() >= kSegmentHeaderBytes);
  const std::byte* const at = bytes.data();
  if (load_little<uint32_t>(at) != kSegmentMagic || load_little<uint32_t>(at + kCrcAt) != crc32c(bytes.first(kCrcAt)))
    return std::nullopt;
  SegmentHeader header;
  header.version = load_little<uint32_t>(at + 4);
  header.segment = load_little<uint32_t>(at + 8);
  header.generation = load_little<uint64_t>(at + 16);
  header.segment_bytes = load_little<uint64_t>(at + 24);
  return header;
}

std::string segment_name(uint32_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "segment-%05u", number);
  return text;
}

std::optional<uint32_t> segment_number(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() < kPrefix.size() + kDigits) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  uint32_t number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failed != std::errc() || end != digits.data() + digits.size() || segment_name(number) != name)
    return std::nullopt;
  return number;
}

}  // namespace rhizome
