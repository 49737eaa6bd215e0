#include "cli/segment_survey.h"

#include "tier/disk/record.h"

namespace rhizome {
namespace {

// A longer one is none of ours: what it takes to look at a file stays bounded, whatever the file says.
constexpr uint64_t kImageBytesMax = uint64_t{1} << 30;

std::optional<std::string> record_fault(SegmentReader& reader, File& file, const SegmentContents& contents,
                                        const SegmentEntry& entry, uint64_t file_bytes) {
  const uint64_t at = entry.page * kPageBytes;
  const uint64_t bytes = record_bytes(entry.image_bytes);
  if (at + bytes > file_bytes) return "the file ends before it";
  if (entry.image_bytes > kImageBytesMax) return "it is longer than an image can be";
  const Result<std::span<const std::byte>> record = reader.read_pages(file, at, bytes);
  if (!record) return record.error().reason;
  if (record->size() != bytes) return "the file ends before it";
  const RecordHead expected{.segment = contents.header.segment,
                            .generation = contents.header.generation,
                            .lsn = 0,
                            .key = entry.key,
                            .image_bytes = entry.image_bytes,
                            .image_checksum = 0};
  if (const std::optional<RecordCheck> failed = check_record(*record, expected)) return record_check_reason(*failed);
  const std::span<const std::byte> image = record->subspan(kRecordHeadBytes, entry.image_bytes);
  const std::optional<ImageIdentity> identity = identity_of_image(image, image.size(), entry.key);
  if (entry.has_identity && !identity) return "the image does not show the identity that the footer has";
  if (!identity) return std::nullopt;
  std::vector<Token> tokens(identity->tokens.size() / sizeof(Token));
  std::copy(identity->tokens.begin(), identity->tokens.end(), std::as_writable_bytes(std::span(tokens)).begin());
  if (!(next_key(identity->parent, tokens) == entry.key)) return "the key is not that of the parent and the tokens";
  return std::nullopt;
}

}  // namespace

std::string_view segment_condition_name(SegmentCondition condition) {
  switch (condition) {
    case SegmentCondition::kEmpty:
      return "empty";
    case SegmentCondition::kOtherVersion:
      return "of another version";
    case SegmentCondition::kDamaged:
      return "damaged";
    case SegmentCondition::kSealed:
      return "sealed";
    case SegmentCondition::kUnsealed:
      return "not sealed";
  }
  return "unknown";
}

Result<SegmentSurvey> survey_segment(File& file, std::optional<uint32_t> number) {
  Result<SegmentReader> reader = SegmentReader::create();
  if (!reader) return fail(reader.error());
  const Result<uint64_t> file_bytes = file.size();
  if (!file_bytes) return fail(file_bytes.error());
  if (!number) {
    const Result<std::span<const std::byte>> page = reader->read_pages(file, 0, kPageBytes);
    if (!page) return fail(page.error());
    const std::optional<SegmentHeader> header =
        page->size() < kSegmentHeaderBytes ? std::nullopt : parse_segment_header(*page);
    number = header ? header->segment : 0;
  }
  const Result<SegmentContents> contents = reader->read(file, *number);
  if (!contents) return fail(contents.error());
  SegmentSurvey survey;
  survey.condition = contents->condition;
  survey.header = contents->header;
  survey.data_end = contents->data_end;
  survey.keyspaces = contents->entries.keyspaces().size();
  if (contents->condition == SegmentCondition::kDamaged)
    survey.fault = contents->header.generation == 0 ? "its header cannot be read"
                                                    : "its header is that of another segment, or says what cannot be";
  // One in which no record is found may have lost them all.
  const bool is_ours = contents->condition != SegmentCondition::kDamaged &&
                       contents->condition != SegmentCondition::kOtherVersion && contents->header.generation > 0;
  if (is_ours && *file_bytes < contents->header.segment_bytes)
    survey.fault = "the file is shorter than its header says";
  if (contents->is_footer_damaged) survey.fault = contents->footer_fault;
  if (contents->condition == SegmentCondition::kUnsealed && !contents->is_footer_damaged)
    survey.note = contents->footer_fault;
  for (const SegmentEntry& entry : contents->entries.entries()) {
    ++survey.images;
    survey.image_bytes += entry.image_bytes;
    survey.identities += entry.has_identity;
    if (const auto fault = record_fault(*reader, file, *contents, entry, *file_bytes))
      survey.faults.push_back({entry.page * kPageBytes, entry.key.name(), *fault});
  }
  return survey;
}

}  // namespace rhizome
