#include "block/keyspace.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "block/little_endian.h"

namespace rhizome {
namespace {

constexpr std::string_view kMagic = "RZKS";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeadBytes = 8;   // magic, version
constexpr size_t kFrameBytes = 6;  // tag, length
constexpr size_t kValueBytesMax = 1 << 20;

constexpr KeyspaceTag kMandatory[] = {KeyspaceTag::kEngine,      KeyspaceTag::kWeights, KeyspaceTag::kLayout,
                                      KeyspaceTag::kMemoryClass, KeyspaceTag::kRope,    KeyspaceTag::kAttention};

bool is_known(uint16_t tag) {
  return tag >= static_cast<uint16_t>(KeyspaceTag::kEngine) && tag <= static_cast<uint16_t>(KeyspaceTag::kNumerics);
}

bool is_mandatory(KeyspaceTag tag) {
  return std::find(std::begin(kMandatory), std::end(kMandatory), tag) != std::end(kMandatory);
}

struct Frame {
  KeyspaceTag tag;
  std::span<const std::byte> value;

  friend bool operator==(const Frame& a, const Frame& b) {
    return a.tag == b.tag && std::equal(a.value.begin(), a.value.end(), b.value.begin(), b.value.end());
  }
};

// Takes the next frame off the head of `rest`; nothing when it is not whole, known and short enough.
std::optional<Frame> take_frame(std::span<const std::byte>& rest) {
  if (rest.size() < kFrameBytes) return std::nullopt;
  const uint16_t tag = load_little<uint16_t>(rest.data());
  const uint32_t length = load_little<uint32_t>(rest.data() + 2);
  rest = rest.subspan(kFrameBytes);
  if (!is_known(tag) || length > kValueBytesMax || length > rest.size()) return std::nullopt;
  const Frame frame{static_cast<KeyspaceTag>(tag), rest.first(length)};
  rest = rest.subspan(length);
  return frame;
}

}  // namespace

std::string_view keyspace_tag_name(KeyspaceTag tag) {
  switch (tag) {
    case KeyspaceTag::kEngine:
      return "engine";
    case KeyspaceTag::kWeights:
      return "weights";
    case KeyspaceTag::kOverrides:
      return "overrides";
    case KeyspaceTag::kLayout:
      return "layout";
    case KeyspaceTag::kMemoryClass:
      return "memory_class";
    case KeyspaceTag::kRope:
      return "rope";
    case KeyspaceTag::kRotation:
      return "rotation";
    case KeyspaceTag::kAttention:
      return "attention";
    case KeyspaceTag::kAdapters:
      return "adapters";
    case KeyspaceTag::kControlVector:
      return "control_vector";
    case KeyspaceTag::kTenant:
      return "tenant";
    case KeyspaceTag::kSalt:
      return "salt";
    case KeyspaceTag::kEpoch:
      return "epoch";
    case KeyspaceTag::kMedia:
      return "media";
    case KeyspaceTag::kNumerics:
      return "numerics";
  }
  return "unknown";
}

Keyspace::Keyspace(std::vector<std::byte> encoding) : encoding_(std::move(encoding)), digest_(sha256(encoding_)) {}

Result<Keyspace> Keyspace::decode(std::span<const std::byte> encoding) {
  const tl::unexpected<Error> refused = fail(Code::kInvalidArgument, "not a keyspace");
  const std::span<const std::byte> magic = std::as_bytes(std::span(kMagic));
  if (encoding.size() < kHeadBytes || !std::equal(magic.begin(), magic.end(), encoding.begin())) return refused;
  if (load_little<uint32_t>(encoding.data() + magic.size()) != kVersion) return refused;

  std::span<const std::byte> rest = encoding.subspan(kHeadBytes);
  uint16_t previous = 0;
  size_t mandatory_count = 0;
  while (!rest.empty()) {
    const std::optional<Frame> frame = take_frame(rest);
    if (!frame) return refused;
    // Ascending and without repetition, so that a set of fields has one encoding only.
    if (static_cast<uint16_t>(frame->tag) <= previous) return refused;
    previous = static_cast<uint16_t>(frame->tag);
    if (is_mandatory(frame->tag)) {
      if (frame->value.empty()) return refused;
      ++mandatory_count;
    }
  }
  if (mandatory_count != std::size(kMandatory)) return refused;
  return Keyspace(std::vector<std::byte>(encoding.begin(), encoding.end()));
}

std::span<const std::byte> Keyspace::field(KeyspaceTag tag) const {
  std::span<const std::byte> rest = std::span(encoding_).subspan(kHeadBytes);
  while (const std::optional<Frame> frame = take_frame(rest)) {
    if (frame->tag == tag) return frame->value;
  }
  return {};
}

bool Keyspace::first_difference(const Keyspace& a, const Keyspace& b, KeyspaceTag& tag) {
  std::span<const std::byte> rest_a = std::span(a.encoding_).subspan(kHeadBytes);
  std::span<const std::byte> rest_b = std::span(b.encoding_).subspan(kHeadBytes);
  for (;;) {
    const std::optional<Frame> frame_a = take_frame(rest_a);
    const std::optional<Frame> frame_b = take_frame(rest_b);
    if (!frame_a && !frame_b) return false;
    if (frame_a && frame_b && *frame_a == *frame_b) continue;
    // A field that only one of them has counts by its own tag, which is the lower one.
    if (!frame_a || !frame_b) {
      tag = frame_a ? frame_a->tag : frame_b->tag;
    } else {
      tag = std::min(frame_a->tag, frame_b->tag);
    }
    return true;
  }
}

KeyspaceBuilder& KeyspaceBuilder::set(KeyspaceTag tag, std::span<const std::byte> bytes) {
  const auto at = std::lower_bound(fields_.begin(), fields_.end(), tag,
                                   [](const Field& field, KeyspaceTag wanted) { return field.tag < wanted; });
  std::vector<std::byte> value(bytes.begin(), bytes.end());
  if (at != fields_.end() && at->tag == tag) {
    at->bytes = std::move(value);
  } else {
    fields_.insert(at, Field{tag, std::move(value)});
  }
  return *this;
}

KeyspaceBuilder& KeyspaceBuilder::set(KeyspaceTag tag, std::string_view text) {
  return set(tag, std::as_bytes(std::span(text)));
}

KeyspaceBuilder& KeyspaceBuilder::set(KeyspaceTag tag, const Digest& digest) {
  return set(tag, std::span<const std::byte>(digest));
}

Result<Keyspace> KeyspaceBuilder::seal() const {
  std::vector<std::byte> encoding;
  const std::span<const std::byte> magic = std::as_bytes(std::span(kMagic));
  encoding.insert(encoding.end(), magic.begin(), magic.end());
  append_little(encoding, kVersion);
  size_t mandatory_count = 0;
  for (const Field& field : fields_) {
    if (field.bytes.size() > kValueBytesMax) return fail(Code::kInvalidArgument, "a field of the keyspace is too long");
    if (is_mandatory(field.tag) && !field.bytes.empty()) ++mandatory_count;
    append_little(encoding, static_cast<uint16_t>(field.tag));
    append_little(encoding, static_cast<uint32_t>(field.bytes.size()));
    encoding.insert(encoding.end(), field.bytes.begin(), field.bytes.end());
  }
  if (mandatory_count != std::size(kMandatory)) {
    return fail(Code::kFailedPrecondition, "the identity is incomplete: a mandatory field is missing");
  }
  return Keyspace(std::move(encoding));
}

}  // namespace rhizome
