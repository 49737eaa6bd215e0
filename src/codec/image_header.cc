#include "codec/image_header.h"

#include <algorithm>
#include <cstring>

#include "block/identity.h"
#include "block/little_endian.h"
#include "codec/image_rule.h"
#include "contract/check.h"

namespace rhizome {
namespace {

constexpr size_t kVersionAt = 4;
constexpr size_t kCodecAt = 5;
constexpr size_t kElementTypeAt = 6;
constexpr size_t kLayoutAt = 7;
constexpr size_t kFlagsAt = 8;
constexpr size_t kLayersAt = 10;
constexpr size_t kTokensAt = 12;
constexpr size_t kHeadsAt = 14;
constexpr size_t kKeyWidthAt = 16;
constexpr size_t kValueWidthAt = 18;
constexpr size_t kRawLengthAt = 20;
constexpr size_t kEncodedLengthAt = 24;
constexpr size_t kKeyAt = 28;
constexpr size_t kKeyspaceAt = 44;
constexpr size_t kDigestAt = 52;

static_assert(kKeyAt + sizeof(KeyName) == kKeyspaceAt && kKeyspaceAt + sizeof(KeyspaceName) == kDigestAt);
static_assert(kDigestAt == kImageHeaderCoveredBytes && kDigestAt + sizeof(Digest) == kImageHeaderBytes);

bool is_known_codec(uint8_t codec) {
  switch (static_cast<Codec>(codec)) {
    case Codec::kRaw:
    case Codec::kE3:
    case Codec::kRans:
    case Codec::kZstdPlanes:
      return true;
  }
  return false;
}

bool is_known_element_type(uint8_t type) {
  return static_cast<ElementType>(type) == ElementType::kOpaque || element_bytes(static_cast<ElementType>(type)) != 0;
}

bool is_known_layout(uint8_t layout) {
  return layout <= static_cast<uint8_t>(ImageLayout::kLatent) ||
         static_cast<ImageLayout>(layout) == ImageLayout::kOpaque;
}

// What the bytes at `digest` may be depends on the flags.
bool is_known_combination(const ImageHeader& header, const std::byte* digest) {
  const BlockGeometry& geometry = header.geometry;
  const bool is_type_opaque = geometry.element_type == ElementType::kOpaque;
  if (geometry.is_opaque() != is_type_opaque) return false;
  if (geometry.is_opaque() && (header.has(image_flag::kLossy | image_flag::kKeysBeforeRope))) return false;
  if (header.is_sealed() && !header.has(image_flag::kNoDigest)) return false;
  const bool is_digest_zero =
      std::all_of(digest, digest + sizeof(Digest), [](std::byte b) { return b == std::byte{0}; });
  if (header.has(image_flag::kNoDigest) && !is_digest_zero) return false;
  return codec_takes(header.codec, geometry.element_type);
}

// Rule 1.
Status parse_kinds(const std::byte* at, ImageHeader& header) {
  if (load_little<uint32_t>(at) != kImageMagic) return broken(ImageRule::kMagic);
  if (std::to_integer<uint8_t>(at[kVersionAt]) != kImageVersion) return broken(ImageRule::kVersion);
  const uint8_t codec = std::to_integer<uint8_t>(at[kCodecAt]);
  const uint8_t type = std::to_integer<uint8_t>(at[kElementTypeAt]);
  const uint8_t layout = std::to_integer<uint8_t>(at[kLayoutAt]);
  if (!is_known_codec(codec)) return broken(ImageRule::kCodec);
  if (!is_known_element_type(type)) return broken(ImageRule::kElementType);
  if (!is_known_layout(layout)) return broken(ImageRule::kLayout);
  header.codec = static_cast<Codec>(codec);
  header.geometry.element_type = static_cast<ElementType>(type);
  header.geometry.layout = static_cast<ImageLayout>(layout);
  header.flags = load_little<uint16_t>(at + kFlagsAt);
  if ((header.flags & ~image_flag::kKnown) != 0) return broken(ImageRule::kFlags);
  header.geometry.keys_before_rope = header.has(image_flag::kKeysBeforeRope);
  return is_known_combination(header, at + kDigestAt) ? Status() : Status(broken(ImageRule::kCombination));
}

// Rule 2. Nothing is multiplied before all of it holds.
Status parse_shape(const std::byte* at, ImageHeader& header) {
  BlockGeometry& geometry = header.geometry;
  geometry.layers_count = load_little<uint16_t>(at + kLayersAt);
  geometry.tokens_count = load_little<uint16_t>(at + kTokensAt);
  geometry.kv_heads_count = load_little<uint16_t>(at + kHeadsAt);
  geometry.key_width = load_little<uint16_t>(at + kKeyWidthAt);
  geometry.value_width = load_little<uint16_t>(at + kValueWidthAt);
  const auto is_right = [&](uint32_t value, uint32_t most) {
    return geometry.is_opaque() ? value == 0 : value >= 1 && value <= most;
  };
  if (!is_right(geometry.layers_count, BlockGeometry::kLayersMax)) return broken(ImageRule::kLayers);
  if (geometry.tokens_count < 1 || geometry.tokens_count > BlockGeometry::kTokensMax) return broken(ImageRule::kTokens);
  if (!is_right(geometry.kv_heads_count, BlockGeometry::kHeadsMax)) return broken(ImageRule::kHeads);
  if (!is_right(geometry.key_width, UINT16_MAX) || !is_right(geometry.value_width, UINT16_MAX))
    return broken(ImageRule::kWidths);
  const bool is_flagged = header.has(image_flag::kLatent);
  if (is_flagged != geometry.is_latent() || (is_flagged && geometry.kv_heads_count != 1))
    return broken(ImageRule::kLatent);
  return {};
}

}  // namespace

KeyName key_name(const BlockKey& key) {
  KeyName name;
  std::copy_n(key.bytes.begin(), name.size(), name.begin());
  return name;
}

KeyspaceName keyspace_name(const Digest& keyspace) {
  KeyspaceName name;
  std::copy_n(keyspace.begin(), name.size(), name.begin());
  return name;
}

bool codec_takes(Codec codec, ElementType type) {
  switch (codec) {
    case Codec::kRaw:
      return true;
    case Codec::kE3:
    case Codec::kRans:
      return type == ElementType::kBf16 || type == ElementType::kF16;
    case Codec::kZstdPlanes:
      return type != ElementType::kOpaque;
  }
  return false;
}

uint16_t geometry_flags(const BlockGeometry& geometry) {
  return static_cast<uint16_t>((geometry.is_latent() ? image_flag::kLatent : 0) |
                               (geometry.keys_before_rope ? image_flag::kKeysBeforeRope : 0));
}

void write_image_header(const ImageHeader& header, std::span<std::byte, kImageHeaderBytes> out) {
  const BlockGeometry& geometry = header.geometry;
  RHIZOME_CHECK(geometry.is_valid() && is_known_combination(header, header.digest.data()));
  std::byte* const at = out.data();
  store_little(at, kImageMagic);
  store_little(at + kVersionAt, kImageVersion);
  store_little(at + kCodecAt, static_cast<uint8_t>(header.codec));
  store_little(at + kElementTypeAt, static_cast<uint8_t>(geometry.element_type));
  store_little(at + kLayoutAt, static_cast<uint8_t>(geometry.layout));
  store_little(at + kFlagsAt, header.flags);
  store_little(at + kLayersAt, geometry.layers_count);
  store_little(at + kTokensAt, geometry.tokens_count);
  store_little(at + kHeadsAt, geometry.kv_heads_count);
  store_little(at + kKeyWidthAt, geometry.key_width);
  store_little(at + kValueWidthAt, geometry.value_width);
  store_little(at + kRawLengthAt, static_cast<uint32_t>(geometry.raw_bytes()));
  store_little(at + kEncodedLengthAt, header.encoded_bytes);
  std::memcpy(at + kKeyAt, header.key.data(), header.key.size());
  std::memcpy(at + kKeyspaceAt, header.keyspace.data(), header.keyspace.size());
  std::memcpy(at + kDigestAt, header.digest.data(), header.digest.size());
}

Result<ImageHeader> parse_image_header(std::span<const std::byte> received) {
  if (received.size() < kImageHeaderBytes) return broken(ImageRule::kHeaderPresent);
  const std::byte* const at = received.data();
  ImageHeader header;
  if (const Status kinds = parse_kinds(at, header); !kinds) return fail(kinds.error());
  if (const Status shape = parse_shape(at, header); !shape) return fail(shape.error());

  const uint32_t raw_bytes = load_little<uint32_t>(at + kRawLengthAt);
  if (header.geometry.is_opaque()) header.geometry.opaque_bytes = raw_bytes;
  if (raw_bytes == 0 || header.geometry.raw_bytes() != raw_bytes) return broken(ImageRule::kRawLength);

  header.encoded_bytes = load_little<uint32_t>(at + kEncodedLengthAt);
  std::memcpy(header.key.data(), at + kKeyAt, header.key.size());
  std::memcpy(header.keyspace.data(), at + kKeyspaceAt, header.keyspace.size());
  std::memcpy(header.digest.data(), at + kDigestAt, header.digest.size());
  return header;
}

Status check_encoded_length(const ImageHeader& header, uint64_t present_bytes) {
  const uint64_t around = identity_bytes(header.geometry.tokens_count) + (header.is_sealed() ? kSealBytes : 0);
  const uint64_t most = around + encoded_block_bytes_max(header.codec, header.geometry.raw_bytes());
  const bool is_exact = header.codec == Codec::kRaw;
  if (header.encoded_bytes <= around || header.encoded_bytes > most || (is_exact && header.encoded_bytes != most))
    return broken(ImageRule::kEncodedLimit);
  if (header.encoded_bytes != present_bytes) return broken(ImageRule::kEncodedLength);
  return {};
}

uint64_t encoded_block_bytes_max(Codec codec, uint64_t raw_bytes) {
  constexpr uint64_t kSlack = 64 << 10;
  return codec == Codec::kRaw ? raw_bytes : raw_bytes + raw_bytes / 5 + kSlack;
}

}  // namespace rhizome
