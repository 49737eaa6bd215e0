// Reads a segment of the disk tier, all of it, and says what is in it and what does not verify. Changes nothing.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "block/block_key.h"
#include "contract/result.h"
#include "machine/file_system.h"
#include "tier/disk/segment_reader.h"

namespace rhizome {

struct RecordFault {
  uint64_t offset = 0;
  std::string key;  // its name
  std::string why;
};

struct SegmentSurvey {
  SegmentCondition condition = SegmentCondition::kEmpty;
  SegmentHeader header;
  uint64_t images = 0;
  uint64_t image_bytes = 0;
  uint64_t identities = 0;
  uint64_t keyspaces = 0;
  uint64_t data_end = 0;
  // Something about the segment itself that is wrong; "" where nothing is.
  std::string fault;
  // A footer is missing where none has to be: the segment is being written, or was when its process ended.
  std::string note;
  std::vector<RecordFault> faults;

  bool verifies() const { return fault.empty() && faults.empty(); }
};

// "sealed", "empty", ...
std::string_view segment_condition_name(SegmentCondition condition);

// `number` is the one in its name; nothing: whatever its header says.
Result<SegmentSurvey> survey_segment(File& file, std::optional<uint32_t> number);

}  // namespace rhizome
