#include "attach/frame.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "attach/frame_fields.h"
#include "contract/check.h"

namespace rhizome {
namespace {

struct KindTraits {
  std::string_view name;
  FrameSender sender = FrameSender::kEither;
  FrameDescriptors descriptors = {};
};

constexpr std::array<KindTraits, kFrameKindsCount> kKinds = {{
    {"hello", FrameSender::kClient, {0, 1}},
    {"welcome", FrameSender::kNode, {2, 3}},
    {"open", FrameSender::kClient},
    {"opened", FrameSender::kNode},
    {"ask_root", FrameSender::kClient},
    {"ask_chunk", FrameSender::kClient},
    {"chunk", FrameSender::kNode, {1, 1}},
    {"ask_directory", FrameSender::kClient},
    {"directory", FrameSender::kNode, {1, 1}},
    {"commit", FrameSender::kClient},
    {"committed", FrameSender::kNode},
    {"load", FrameSender::kClient},
    {"loading", FrameSender::kNode},
    {"announce", FrameSender::kClient},
    {"claimed", FrameSender::kNode},
    {"wait", FrameSender::kClient},
    {"waited", FrameSender::kNode},
    {"withdraw", FrameSender::kClient},
    {"explain", FrameSender::kClient},
    {"explained", FrameSender::kNode},
    {"ask_stats", FrameSender::kClient},
    {"stats", FrameSender::kNode},
    {"clear", FrameSender::kClient},
    {"cleared", FrameSender::kNode},
    {"goodbye", FrameSender::kEither},
    {"error", FrameSender::kEither},
    {"report", FrameSender::kClient},
    {"reported", FrameSender::kNode},
    {"observe", FrameSender::kClient},
    {"publish", FrameSender::kClient},
    {"published", FrameSender::kNode},
    {"adopt", FrameSender::kClient},
    {"context", FrameSender::kNode, {1, 1}},
    {"end_adoption", FrameSender::kClient},
    {"unpublish", FrameSender::kClient},
    {"confirmed", FrameSender::kNode},
}};

bool is_kind(FrameKind kind) {
  return kind >= FrameKind::kHello && static_cast<uint32_t>(kind) <= kFrameKindsCount;
}

const KindTraits& traits_of(FrameKind kind) {
  static constexpr KindTraits kUnknown = {"unknown"};
  return is_kind(kind) ? kKinds[static_cast<uint32_t>(kind) - 1] : kUnknown;
}

template <class Frame>
Result<AnyFrame> decode_body(std::span<const std::byte> body) {
  Frame frame;
  FieldReader reader(body);
  Frame::visit(frame, reader);
  if (!reader.is_done()) return fail(Code::kInvalidArgument, "the body of a frame is not of its kind");
  return AnyFrame(std::move(frame));
}

using Decoder = Result<AnyFrame> (*)(std::span<const std::byte> body);

template <size_t... kIndex>
constexpr std::array<Decoder, sizeof...(kIndex)> decoders(std::index_sequence<kIndex...>) {
  static_assert(((static_cast<size_t>(std::variant_alternative_t<kIndex, AnyFrame>::kKind) == kIndex + 1) && ...),
                "frames stand in the order of their kinds");
  return {&decode_body<std::variant_alternative_t<kIndex, AnyFrame>>...};
}

constexpr auto kDecoders = decoders(std::make_index_sequence<kFrameKindsCount>());

// The longest of those that name a keyspace, with room for the numbers beside it.
static_assert(kFrameHeadBytes + 64 + kKeyspaceBytesMax + kGeometryBytesMax <= kFrameBytesMax);
static_assert(kFrameHeadBytes + sizeof(uint32_t) + kStatsBytesMax <= kFrameBytesMax);

}  // namespace

std::string_view frame_kind_name(FrameKind kind) {
  return traits_of(kind).name;
}

FrameSender frame_sender(FrameKind kind) {
  return traits_of(kind).sender;
}

FrameDescriptors frame_descriptors(FrameKind kind) {
  return traits_of(kind).descriptors;
}

Result<FrameHead> decode_frame_head(std::span<const std::byte> message) {
  if (message.size() < kFrameHeadBytes) return fail(Code::kInvalidArgument, "a frame is shorter than its head");
  if (message.size() > kFrameBytesMax) return fail(Code::kInvalidArgument, "a frame is too long");
  const FrameHead head = {static_cast<FrameKind>(load_little<uint32_t>(message.data())),
                          load_little<uint32_t>(message.data() + 4), load_little<uint64_t>(message.data() + 8)};
  if (!is_kind(head.kind)) return fail(Code::kInvalidArgument, "a frame of an unknown kind");
  if (head.body_bytes != message.size() - kFrameHeadBytes) {
    return fail(Code::kInvalidArgument, "the body of a frame has another length");
  }
  return head;
}

Result<std::vector<std::byte>> encode_frame(const AnyFrame& frame, uint64_t request) {
  std::vector<std::byte> message;
  append_little(message, static_cast<uint32_t>(frame.index() + 1));
  append_little(message, uint32_t{0});
  append_little(message, request);
  FieldWriter writer(message);
  std::visit([&](const auto& body) { std::decay_t<decltype(body)>::visit(body, writer); }, frame);
  if (!writer.is_ok()) return fail(Code::kInvalidArgument, "a field of a frame is out of its range");
  RHIZOME_CHECK(message.size() <= kFrameBytesMax);
  store_little(message.data() + 4, static_cast<uint32_t>(message.size() - kFrameHeadBytes));
  return message;
}

Result<AnyFrame> decode_frame(std::span<const std::byte> message) {
  const Result<FrameHead> head = decode_frame_head(message);
  if (!head) return fail(head.error());
  return kDecoders[static_cast<uint32_t>(head->kind) - 1](message.subspan(kFrameHeadBytes));
}

ErrorFrame error_frame(const Error& error) {
  return {error.code, std::string(std::string_view(error.reason).substr(0, kReasonBytesMax))};
}

}  // namespace rhizome
