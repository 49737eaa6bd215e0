// The kinds of frames, and what is known of a frame before its body is read.
//
// Thread-safety: plain values; functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "contract/result.h"

namespace rhizome {

// The values are part of the protocol: never reuse or renumber one.
enum class FrameKind : uint32_t {
  kHello = 1,
  kWelcome = 2,
  kOpen = 3,
  kOpened = 4,
  kAskRoot = 5,
  kAskChunk = 6,
  kChunk = 7,
  kAskDirectory = 8,
  kDirectory = 9,
  kCommit = 10,
  kCommitted = 11,
  kLoad = 12,
  kLoading = 13,
  kAnnounce = 14,
  kClaimed = 15,
  kWait = 16,
  kWaited = 17,
  kWithdraw = 18,
  kExplain = 19,
  kExplained = 20,
  kAskStats = 21,
  kStats = 22,
  kClear = 23,
  kCleared = 24,
  kGoodbye = 25,
  kError = 26,
  kReport = 27,
  kReported = 28,
  kObserve = 29,
  kPublish = 30,
  kPublished = 31,
  kAdopt = 32,
  kContext = 33,
  kEndAdoption = 34,
  kUnpublish = 35,
  kConfirmed = 36,
};
inline constexpr uint32_t kFrameKindsCount = 36;

// "hello", "ask_chunk", ...; "unknown" for what is none.
std::string_view frame_kind_name(FrameKind kind);

enum class FrameSender : uint8_t { kClient, kNode, kEither };
FrameSender frame_sender(FrameKind kind);

// How many descriptors come with a frame of this kind, and in which order: see the frames. Any other number is an error
// of the sender, as is what the receiver's checks of each refuse.
struct FrameDescriptors {
  size_t least = 0;
  size_t most = 0;
};
FrameDescriptors frame_descriptors(FrameKind kind);

inline constexpr size_t kFrameHeadBytes = 16;
inline constexpr size_t kFrameBytesMax = 64 << 10;

struct FrameHead {
  FrameKind kind = FrameKind::kError;
  uint32_t body_bytes = 0;
  uint64_t request = 0;

  friend bool operator==(const FrameHead&, const FrameHead&) = default;
};

// kInvalidArgument: shorter than a head, longer than a frame may be, of no kind, or the body has another length than
// the head says.
Result<FrameHead> decode_frame_head(std::span<const std::byte> message);

}  // namespace rhizome
