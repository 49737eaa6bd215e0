#include "attach/commit_rings.h"

#include <algorithm>

#include "block/little_endian.h"

namespace rhizome {

Result<RingRecord> record_of_frame(const AnyFrame& frame, uint64_t request) {
  const Result<std::vector<std::byte>> message = encode_frame(frame, request);
  if (!message) return fail(message.error());
  if (message->size() > kRingRecordBytes) return fail(Code::kInvalidArgument, "a frame is longer than a record");
  RingRecord record;
  std::ranges::copy(*message, record.bytes.begin());
  return record;
}

Result<RecordedFrame> frame_of_record(const RingRecord& record) {
  const uint64_t bytes = kFrameHeadBytes + uint64_t{load_little<uint32_t>(record.bytes.data() + 4)};
  if (bytes > kRingRecordBytes) return fail(Code::kInvalidArgument, "a frame is longer than a record");
  const auto message = std::span(record.bytes).first(bytes);
  Result<AnyFrame> frame = decode_frame(message);
  if (!frame) return fail(frame.error());
  return RecordedFrame{load_little<uint64_t>(record.bytes.data() + 8), std::move(*frame)};
}

}  // namespace rhizome
