#include "tier/disk/segment_reader.h"

#include <algorithm>

#include "tier/disk/record.h"

namespace rhizome {
namespace {

// The footer of a segment of 256 blocks of 64 tokens fits into it.
constexpr uint64_t kTailBytes = 128 << 10;
constexpr uint64_t kWindowBytes = 64 << 10;
constexpr uint64_t kMemoryBytes = 1 << 20;

}  // namespace

Result<SegmentReader> SegmentReader::create() {
  Result<Mapping> memory = Mapping::anonymous(kMemoryBytes);
  if (!memory) return fail(memory.error());
  return SegmentReader(std::move(*memory));
}

Result<std::span<const std::byte>> SegmentReader::read_pages(File& file, uint64_t offset, uint64_t bytes) {
  bytes = whole_pages(bytes);
  if (memory_.bytes().size() < bytes) {
    Result<Mapping> memory = Mapping::anonymous(bytes);
    if (!memory) return fail(memory.error());
    memory_ = std::move(*memory);
  }
  const Result<size_t> got = file.read_at(offset, memory_.bytes().first(bytes));
  if (!got) return fail(got.error());
  if (*got < bytes) {
    // What is cut off is damage; what the device does not give now is not.
    const Result<uint64_t> size = file.size();
    if (!size) return fail(size.error());
    if (offset + *got < *size) return fail(Code::kDataLoss, "the device did less than it was asked for");
  }
  return std::span<const std::byte>(memory_.bytes().first(*got));
}

Result<SegmentContents> SegmentReader::read(File& file, uint32_t number) {
  SegmentContents contents;
  const Result<std::span<const std::byte>> page = read_pages(file, 0, kPageBytes);
  if (!page) return fail(page.error());
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (std::all_of(page->begin(), page->end(), is_zero)) return contents;
  const std::optional<SegmentHeader> header =
      page->size() < kSegmentHeaderBytes ? std::nullopt : parse_segment_header(*page);
  contents.condition = SegmentCondition::kDamaged;
  if (!header) return contents;
  contents.header = *header;
  if (header->version != kDiskFormatVersion) {
    contents.condition = SegmentCondition::kOtherVersion;
    return contents;
  }
  const uint64_t bytes = header->segment_bytes;
  if (header->segment != number || bytes % kPageBytes != 0 || bytes < 2 * kPageBytes) return contents;
  const Result<bool> sealed = read_footer(file, contents);
  if (!sealed) return fail(sealed.error());
  if (*sealed) {
    contents.condition = SegmentCondition::kSealed;
    return contents;
  }
  if (const Status scanned = scan(file, contents); !scanned) return fail(scanned.error());
  contents.condition = contents.entries.entries().empty() ? SegmentCondition::kEmpty : SegmentCondition::kUnsealed;
  return contents;
}

Result<bool> SegmentReader::read_footer(File& file, SegmentContents& contents) {
  const SegmentHeader& header = contents.header;
  const uint64_t tail_bytes = std::min(kTailBytes, header.segment_bytes - kPageBytes);
  Result<std::span<const std::byte>> tail = read_pages(file, header.segment_bytes - tail_bytes, tail_bytes);
  if (!tail) return fail(tail.error());
  contents.footer_fault = "there is no footer";
  if (tail->size() != tail_bytes) return false;
  const std::optional<FooterTrailer> trailer = parse_trailer(tail->last(kTrailerBytes));
  if (!trailer) return false;
  contents.footer_fault = "the footer is of another generation";
  if (trailer->segment != header.segment || trailer->generation != header.generation) return false;
  contents.footer_fault = "the footer says what cannot be";
  contents.is_footer_damaged = true;
  if (trailer->body_bytes > std::min(header.segment_bytes, kFooterBytesMax) ||
      trailer->data_end > header.segment_bytes || trailer->footer_bytes() > header.segment_bytes - kPageBytes)
    return false;
  const uint64_t footer_bytes = trailer->footer_bytes();
  if (footer_bytes > tail_bytes) {
    tail = read_pages(file, header.segment_bytes - footer_bytes, footer_bytes);
    if (!tail) return fail(tail.error());
    if (tail->size() != footer_bytes) return false;
  }
  Result<SegmentEntries> entries = parse_footer_body(*trailer, tail->last(footer_bytes).first(trailer->body_bytes));
  if (!entries) {
    contents.footer_fault = entries.error().reason;
    return false;
  }
  contents.footer_fault = "";
  contents.is_footer_damaged = false;
  contents.entries = std::move(*entries);
  contents.data_end = trailer->data_end;
  contents.can_go_on = trailer->can_go_on;
  return true;
}

// Forward, until there is no record of this generation: what was being written when everything ended.
Status SegmentReader::scan(File& file, SegmentContents& contents) {
  const SegmentHeader& header = contents.header;
  std::span<const std::byte> window;
  uint64_t window_at = 0;
  uint64_t lsn_before = 0;
  Status read_status;
  const auto look = [&](uint64_t at, uint64_t bytes) {
    if (at < window_at || at + bytes > window_at + window.size()) {
      const uint64_t wanted = std::min(std::max(whole_pages(bytes), kWindowBytes), header.segment_bytes - at);
      const Result<std::span<const std::byte>> read = read_pages(file, at, wanted);
      window = read ? *read : std::span<const std::byte>();
      if (!read) read_status = fail(read.error());
      window_at = at;
    }
    return window.subspan(std::min<uint64_t>(at - window_at, window.size()));
  };
  uint64_t at = kPageBytes;
  for (; at + kPageBytes <= header.segment_bytes;) {
    std::span<const std::byte> bytes = look(at, kPageBytes);
    if (bytes.size() < kPageBytes) break;
    const std::optional<RecordHead> head = parse_record_head(bytes);
    if (!head || head->segment != header.segment || head->generation != header.generation || head->lsn <= lsn_before ||
        head->image_bytes == 0 || head->image_bytes > header.segment_bytes - at ||
        record_bytes(head->image_bytes) > header.segment_bytes - at)
      break;
    lsn_before = head->lsn;
    const uint64_t image_end = kRecordHeadBytes + head->image_bytes;
    const uint64_t wanted = std::min(image_end, kRecordHeadBytes + identity_end(bytes.subspan(kRecordHeadBytes)));
    if (wanted > bytes.size()) bytes = look(at, wanted);
    const std::span<const std::byte> image =
        bytes.subspan(kRecordHeadBytes, std::min<uint64_t>(bytes.size() - kRecordHeadBytes, head->image_bytes));
    const std::optional<ImageIdentity> identity = identity_of_image(image, head->image_bytes, head->key);
    SegmentEntry entry;
    entry.key = head->key;
    entry.lsn = head->lsn;
    entry.image_bytes = head->image_bytes;
    entry.page = static_cast<uint32_t>(at / kPageBytes);
    contents.entries.add(entry, identity ? &*identity : nullptr);
    at += record_bytes(head->image_bytes);
  }
  contents.data_end = at;
  // What could not be read is not what is not there.
  return read_status;
}

}  // namespace rhizome
