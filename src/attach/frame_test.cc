#include "attach/frame.h"

#include <algorithm>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "attach/frame_corpus.h"
#include "block/little_endian.h"
#include "machine/local_socket.h"

namespace rhizome {
namespace {

static_assert(kFrameBytesMax <= kMessageBytesMax);

std::vector<std::byte> encoded(const AnyFrame& frame, uint64_t request = 7) {
  const auto message = encode_frame(frame, request);
  EXPECT_TRUE(message.has_value());
  return message.value_or(std::vector<std::byte>());
}

TEST(Frames, AreAsTheyWereAgreed) {
  std::set<size_t> kinds;
  for (const GoldenFrame& golden : golden_frames()) {
    SCOPED_TRACE(golden.hex);
    const std::vector<std::byte> message = bytes_of_hex(golden.hex);
    EXPECT_EQ(hex_of(encoded(golden.frame, golden.request)), golden.hex);
    const Result<AnyFrame> decoded = decode_frame(message);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().reason;
    EXPECT_EQ(*decoded, golden.frame);
    EXPECT_EQ(decode_frame_head(message).value().request, golden.request);
    kinds.insert(golden.frame.index());
  }
  EXPECT_EQ(kinds.size(), kFrameKindsCount);
}

TEST(Frames, AreRefusedOneByteShortOrLong) {
  for (const GoldenFrame& golden : golden_frames()) {
    const std::vector<std::byte> message = bytes_of_hex(golden.hex);
    for (size_t bytes = 0; bytes <= message.size() + 1; ++bytes) {
      if (bytes == message.size()) continue;
      std::vector<std::byte> other = message;
      other.resize(bytes);
      other.shrink_to_fit();
      EXPECT_EQ(decode_frame(other).error().code, Code::kInvalidArgument) << golden.hex << " " << bytes;
      // And when the head agrees.
      if (bytes < kFrameHeadBytes) continue;
      store_little(other.data() + 4, static_cast<uint32_t>(bytes - kFrameHeadBytes));
      EXPECT_EQ(decode_frame(other).error().code, Code::kInvalidArgument) << golden.hex << " " << bytes;
    }
  }
}

TEST(Frames, AreRefusedWhenTheyCannotBe) {
  for (const std::string_view hex : hostile_frames())
    EXPECT_EQ(decode_frame(bytes_of_hex(hex)).error().code, Code::kInvalidArgument) << hex;
  EXPECT_EQ(decode_frame(std::vector<std::byte>(kFrameBytesMax + 1)).error().code, Code::kInvalidArgument);
}

TEST(Frames, HoldTheLongestTextsAndNoLonger) {
  const auto text = [](size_t bytes) { return std::string(bytes, 'x'); };
  const auto bytes = [](size_t count) { return std::vector<std::byte>(count, std::byte{7}); };
  for (const size_t more : {0u, 1u}) {
    const std::vector<AnyFrame> frames = {
        HelloFrame{.tenant = text(kTenantBytesMax + more)},
        OpenFrame{.keyspace = bytes(kKeyspaceBytesMax + more), .geometry = bytes(kGeometryBytesMax)},
        OpenFrame{.keyspace = bytes(kKeyspaceBytesMax), .geometry = bytes(kGeometryBytesMax + more)},
        PublishFrame{.keyspace = bytes(kKeyspaceBytesMax + more), .geometry = bytes(kGeometryBytesMax)},
        ContextFrame{.keyspace = bytes(kKeyspaceBytesMax), .geometry = bytes(kGeometryBytesMax + more)},
        StatsFrame{.text = text(kStatsBytesMax + more)},
        ExplainedFrame{.text = text(kReasonBytesMax + more)},
        ErrorFrame{.text = text(kReasonBytesMax + more)}};
    for (const AnyFrame& frame : frames) {
      const auto message = encode_frame(frame, 1);
      ASSERT_EQ(message.has_value(), more == 0) << frame.index();
      if (!message) continue;
      EXPECT_LE(message->size(), kFrameBytesMax);
      EXPECT_EQ(decode_frame(*message).value(), frame);
    }
  }
  EXPECT_FALSE(encode_frame(ErrorFrame{.code = static_cast<Code>(17)}, 1).has_value());
  EXPECT_FALSE(encode_frame(LoadFrame{.blocks = {.first = 2, .end = 1}}, 1).has_value());
}

TEST(Frames, AnswerWithWhatWasAskedForOrWithARefusal) {
  EXPECT_EQ(decode_reply<CommittedFrame>(encoded(CommittedFrame{3, 4})).value(), (CommittedFrame{3, 4}));
  EXPECT_EQ(decode_reply<CommittedFrame>(encoded(ClearedFrame{3})).error().code, Code::kInvalidArgument);
  EXPECT_EQ(decode_reply<CommittedFrame>({}).error().code, Code::kInvalidArgument);
  const ErrorFrame refusal = error_frame({Code::kResourceExhausted, "all is pinned"});
  EXPECT_EQ(refusal.text, "all is pinned");
  EXPECT_EQ(decode_reply<CommittedFrame>(encoded(refusal)).error().code, Code::kResourceExhausted);
  // No error that is none.
  EXPECT_EQ(decode_reply<CommittedFrame>(encoded(ErrorFrame{Code::kOk, ""})).error().code, Code::kUnknown);
  EXPECT_EQ(decode_reply<ErrorFrame>(encoded(refusal)).value(), refusal);
  const std::string long_reason(1000, 'y');
  EXPECT_EQ(error_frame({Code::kInternal, long_reason.c_str()}).text, long_reason.substr(0, kReasonBytesMax));
}

TEST(Frames, HaveNamesSendersAndDescriptors) {
  std::set<std::string_view> names;
  for (uint32_t kind = 1; kind <= kFrameKindsCount; ++kind)
    names.insert(frame_kind_name(static_cast<FrameKind>(kind)));
  EXPECT_EQ(names.size(), kFrameKindsCount);
  EXPECT_EQ(frame_kind_name(FrameKind::kHello), "hello");
  EXPECT_EQ(frame_kind_name(FrameKind::kError), "error");
  for (const uint32_t none : {0u, kFrameKindsCount + 1, UINT32_MAX}) {
    EXPECT_EQ(frame_kind_name(static_cast<FrameKind>(none)), "unknown");
    EXPECT_EQ(frame_descriptors(static_cast<FrameKind>(none)).most, 0u);
  }
  EXPECT_EQ(frame_sender(FrameKind::kCommit), FrameSender::kClient);
  EXPECT_EQ(frame_sender(FrameKind::kCommitted), FrameSender::kNode);
  EXPECT_EQ(frame_sender(FrameKind::kGoodbye), FrameSender::kEither);
  EXPECT_EQ(frame_descriptors(FrameKind::kChunk).least, 1u);
  EXPECT_EQ(frame_descriptors(FrameKind::kWelcome).most, 3u);
  EXPECT_EQ(frame_descriptors(FrameKind::kCommit).most, 0u);
  EXPECT_EQ(frame_descriptors(FrameKind::kContext).least, 1u);
  EXPECT_EQ(frame_descriptors(FrameKind::kPublish).most, 0u);
}

}  // namespace
}  // namespace rhizome
