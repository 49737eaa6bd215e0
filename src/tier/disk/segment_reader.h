// Reads what is in a segment: header, then the footer, or where there is none the records one after the other. Changes
// nothing.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "contract/result.h"
#include "machine/file_system.h"
#include "machine/mapping.h"
#include "tier/disk/segment_entries.h"
#include "tier/disk/segment_header.h"

namespace rhizome {

enum class SegmentCondition : uint8_t {
  kEmpty,         // never written, or made ready and then not written
  kOtherVersion,  // left alone
  kDamaged,       // its header cannot be read
  kSealed,
  kUnsealed,  // no footer that can be used: the records were looked for
};

struct SegmentContents {
  SegmentCondition condition = SegmentCondition::kEmpty;
  SegmentHeader header;
  SegmentEntries entries;
  uint64_t data_end = 0;           // where the records end
  bool can_go_on = false;          // sealed because its process ended as it should, before it was full
  const char* footer_fault = "";   // why there is no footer; "" where nothing is wrong with it
  bool is_footer_damaged = false;  // there is one of this generation, and it cannot be used
};

class SegmentReader {
 public:
  // kResourceExhausted.
  static Result<SegmentReader> create();

  // `number` is the one that its name gives. Errors are those of the file.
  Result<SegmentContents> read(File& file, uint32_t number);

  // From `offset` on, a multiple of a page, whole pages; shorter where the file ends. Valid until the next call.
  Result<std::span<const std::byte>> read_pages(File& file, uint64_t offset, uint64_t bytes);

 private:
  explicit SegmentReader(Mapping memory) : memory_(std::move(memory)) {}

  Result<bool> read_footer(File& file, SegmentContents& contents);
  Status scan(File& file, SegmentContents& contents);

  Mapping memory_;
};

}  // namespace rhizome
