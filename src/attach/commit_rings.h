// The memory by which a client hands its commits to the node and hears what became of them: a head and two message
// rings. One memory file a client, made by the node as Sharing::kWritable, handed over with the welcome; the client
// maps it Access::kWrite.
//
//   submissions   the client produces: a CommitFrame a record.
//   completions   the node produces: a CommittedFrame or an ErrorFrame a record, one for each submission, in their
//                 order, under the same request.
// A client has no more commits under way than a ring has records, so completions is never full for one that keeps to
// that; who does not is dropped. Whether the node takes submissions at all is said by `is_served`, which is written
// before the first OpenFrame is answered and stays as it is: if not, commits go over the socket.
//
// Thread-safety: plain functions and values.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "attach/frame.h"
#include "attach/message_ring.h"
#include "contract/result.h"

namespace rhizome {

struct CommitRingsHead {
  std::atomic<uint32_t> is_served{0};
  std::array<std::byte, 60> unused{};
};
static_assert(sizeof(CommitRingsHead) == 64 && offsetof(CommitRingsHead, is_served) == 0);

constexpr bool is_ring_capacity(uint32_t records) {
  return std::has_single_bit(records) && records <= kRingRecordsMax;
}
constexpr uint64_t commit_rings_bytes(uint32_t records) {
  return sizeof(CommitRingsHead) + 2 * ring_bytes(records);
}

// Parts of commit_rings_bytes(records) of memory.
inline CommitRingsHead& commit_rings_head(std::span<std::byte> memory) {
  return *std::launder(reinterpret_cast<CommitRingsHead*>(memory.data()));
}
inline std::span<std::byte> submissions_of(std::span<std::byte> memory, uint32_t records) {
  return memory.subspan(sizeof(CommitRingsHead), ring_bytes(records));
}
inline std::span<std::byte> completions_of(std::span<std::byte> memory, uint32_t records) {
  return memory.subspan(sizeof(CommitRingsHead) + ring_bytes(records), ring_bytes(records));
}

// A frame and its request in a record: its message, zeros behind it. kInvalidArgument: it is longer than a record.
Result<RingRecord> record_of_frame(const AnyFrame& frame, uint64_t request);

struct RecordedFrame {
  uint64_t request = 0;
  AnyFrame frame = GoodbyeFrame();
};
// kInvalidArgument: the record is none of a frame.
Result<RecordedFrame> frame_of_record(const RingRecord& record);

}  // namespace rhizome
