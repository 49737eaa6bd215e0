#include "codec/image.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "block/little_endian.h"
#include "codec/image_rule.h"
#include "contract/check.h"

namespace rhizome {
namespace {

constexpr size_t kEndBytes = sizeof(uint32_t);

std::span<std::byte, kImageHeaderBytes> header_of(std::span<std::byte> image) {
  return image.first<kImageHeaderBytes>();
}

bool can_encode(const ImageContent& content, Codec codec, std::span<const std::byte> raw) {
  const BlockGeometry& geometry = content.geometry;
  return geometry.is_valid() && codec_takes(codec, geometry.element_type) && raw.size() == geometry.raw_bytes() &&
         content.identity.tokens.size() == geometry.tokens_count && !(geometry.is_opaque() && content.is_lossy);
}

uint16_t content_flags(const ImageContent& content, ImageDigest digest) {
  return static_cast<uint16_t>(geometry_flags(content.geometry) | (content.is_lossy ? image_flag::kLossy : 0) |
                               (content.is_partial ? image_flag::kPartial : 0) |
                               (digest == ImageDigest::kLeaveOut ? image_flag::kNoDigest : 0));
}

// The encoded block's size.
uint64_t encode_sections(const BlockGeometry& geometry, Codec codec, std::span<const std::byte> raw,
                         CodecWorkspace& workspace, std::span<std::byte> out, const CodecKernels& kernels) {
  SectionCodec sections(codec, geometry.element_type, workspace, kernels);
  uint64_t at = SectionTable::table_bytes(geometry);
  for (uint32_t index = 0; index < geometry.sections_count(); ++index) {
    const SectionShape shape = geometry.section(index);
    at += sections.encode(raw.data() + shape.offset_bytes, shape, out.subspan(at));
    store_little(out.data() + size_t{index} * kEndBytes, static_cast<uint32_t>(at));
  }
  return at;
}

}  // namespace

Codec default_codec(ElementType type) {
  return codec_takes(Codec::kE3, type) ? Codec::kE3 : Codec::kRaw;
}

uint64_t image_room_bytes(const BlockGeometry& geometry, Codec codec) {
  const uint64_t head = kImageHeaderBytes + identity_bytes(geometry.tokens_count);
  if (codec == Codec::kRaw) return head + geometry.raw_bytes();
  // Sections of the same half are alike. While one is written, it may need more than what it leaves.
  const auto room_of = [&](uint32_t index) {
    return SectionCodec::room_bytes(codec, geometry.element_type, geometry.section(index));
  };
  const uint64_t left = SectionCodec::bytes_max(geometry.section(0)) + SectionCodec::bytes_max(geometry.section(1));
  return head + SectionTable::table_bytes(geometry) + geometry.layers_count * left + std::max(room_of(0), room_of(1));
}

Result<size_t> encode_image(const ImageContent& content, Codec codec, ImageDigest digest,
                            std::span<const std::byte> raw, CodecWorkspace& workspace, std::span<std::byte> out,
                            const CodecKernels& kernels) {
  const BlockGeometry& geometry = content.geometry;
  if (!can_encode(content, codec, raw))
    return fail(Code::kInvalidArgument, "codec, geometry and identity of a block do not go together");
  const uint64_t room = image_room_bytes(geometry, codec);
  if (room > std::numeric_limits<uint32_t>::max())
    return fail(Code::kInvalidArgument, "the block is too large for an image");
  RHIZOME_CHECK(out.size() >= room);

  const size_t head = identity_bytes(content.identity.tokens.size());
  encode_identity(content.identity, out.subspan(kImageHeaderBytes, head));
  const std::span<std::byte> block = out.subspan(kImageHeaderBytes + head);
  uint64_t block_bytes = raw.size();
  if (codec == Codec::kRaw)
    std::memcpy(block.data(), raw.data(), raw.size());
  else
    block_bytes = encode_sections(geometry, codec, raw, workspace, block, kernels);

  ImageHeader header;
  header.codec = codec;
  header.flags = content_flags(content, digest);
  header.geometry = geometry;
  header.encoded_bytes = static_cast<uint32_t>(head + block_bytes);
  header.key = key_name(content.key);
  header.keyspace = keyspace_name(content.identity.keyspace);
  write_image_header(header, header_of(out));
  const size_t size = kImageHeaderBytes + header.encoded_bytes;
  if (digest == ImageDigest::kWrite) {
    const Digest sum = image_digest(out.first(size));
    std::memcpy(out.data() + kImageHeaderCoveredBytes, sum.data(), sum.size());
  }
  return size;
}

Status match_header(const ImageHeader& header, const ImageRequest& request, uint64_t present_bytes) {
  const ImageContent& wanted = request.content;
  if (header.geometry.raw_bytes() > request.raw_bytes_max) return broken(ImageRule::kRawLimit);
  if (header.geometry != wanted.geometry) return broken(ImageRule::kGeometry);
  if (header.has(image_flag::kPartial) != wanted.is_partial) return broken(ImageRule::kPartial);
  if (const Status length = check_encoded_length(header, present_bytes); !length) return length;
  if (header.key != key_name(wanted.key)) return broken(ImageRule::kKey);
  if (header.keyspace != keyspace_name(wanted.identity.keyspace)) return broken(ImageRule::kKeyspace);
  return {};
}

Result<CheckedImage> check_image(std::span<const std::byte> received, const ImageRequest& request, ImageCheck check) {
  const Result<ImageHeader> header = parse_image_header(received);
  if (!header) return fail(header.error());
  const std::span<const std::byte> payload = received.subspan(kImageHeaderBytes);
  if (const Status matched = match_header(*header, request, payload.size()); !matched) return fail(matched.error());
  if (header->is_sealed()) return broken(ImageRule::kSealKey);
  const size_t head = identity_bytes(header->geometry.tokens_count);
  if (!identity_matches(payload.first(head), request.content.identity)) return broken(ImageRule::kIdentity);
  if (check == ImageCheck::kDigest) {
    if (header->has(image_flag::kNoDigest)) return broken(ImageRule::kCheckMissing);
    if (image_digest(received) != header->digest) return broken(ImageRule::kDigest);
  }
  if (header->has(image_flag::kLossy) && !request.content.is_lossy) return broken(ImageRule::kLossy);
  return CheckedImage{*header, payload.subspan(head)};
}

Status decode_image(const CheckedImage& image, CodecWorkspace& workspace, std::span<std::byte> raw,
                    const CodecKernels& kernels) {
  const BlockGeometry& geometry = image.header.geometry;
  RHIZOME_CHECK(raw.size() == geometry.raw_bytes());
  if (image.header.codec == Codec::kRaw) {
    RHIZOME_CHECK(image.block.size() == raw.size());
    std::memcpy(raw.data(), image.block.data(), raw.size());
    return {};
  }
  const Result<SectionTable> table = SectionTable::parse(geometry, image.block, image.block.size());
  if (!table) return fail(table.error());
  const SectionTable::Range all = table->layers(0, geometry.layers_count);
  return decode_layers(image.header, *table, 0, geometry.layers_count, image.block.subspan(all.offset), workspace, raw,
                       kernels);
}

Result<SectionTable> SectionTable::parse(const BlockGeometry& geometry, std::span<const std::byte> table,
                                         uint64_t block_bytes) {
  const uint64_t size = table_bytes(geometry);
  if (size == 0 || table.size() < size) return broken(ImageRule::kSectionTable);
  const SectionTable parsed(table.first(size), size);
  uint64_t before = size;
  for (uint32_t index = 0; index < geometry.sections_count(); ++index) {
    const uint64_t end = parsed.end_of(index);
    if (end <= before || end > block_bytes) return broken(ImageRule::kSectionTable);
    before = end;
  }
  if (before != block_bytes) return broken(ImageRule::kSectionTable);
  return parsed;
}

uint64_t SectionTable::end_of(uint32_t index) const {
  return load_little<uint32_t>(ends_.data() + size_t{index} * kEndBytes);
}

SectionTable::Range SectionTable::section(uint32_t index) const {
  const uint64_t begin = index == 0 ? table_bytes_ : end_of(index - 1);
  return {begin, end_of(index) - begin};
}

SectionTable::Range SectionTable::layers(uint32_t first, uint32_t count) const {
  RHIZOME_CHECK(count > 0 && (uint64_t{first} + count) * 2 * kEndBytes <= table_bytes_);
  const Range begin = section(2 * first);
  return {begin.offset, end_of(2 * (first + count) - 1) - begin.offset};
}

Status decode_layers(const ImageHeader& header, const SectionTable& table, uint32_t first, uint32_t count,
                     std::span<const std::byte> bytes, CodecWorkspace& workspace, std::span<std::byte> raw,
                     const CodecKernels& kernels) {
  const BlockGeometry& geometry = header.geometry;
  const SectionTable::Range all = table.layers(first, count);
  RHIZOME_CHECK(bytes.size() == all.size && raw.size() == geometry.raw_bytes());
  SectionCodec sections(header.codec, geometry.element_type, workspace, kernels);
  for (uint32_t index = 2 * first; index < 2 * (first + count); ++index) {
    const SectionTable::Range range = table.section(index);
    const SectionShape shape = geometry.section(index);
    const Status decoded = sections.decode(bytes.subspan(range.offset - all.offset, range.size),
                                           bytes.data() + bytes.size(), shape, raw.data() + shape.offset_bytes);
    if (!decoded) return decoded;
  }
  return {};
}

Digest image_digest(std::span<const std::byte> image) {
  RHIZOME_CHECK(image.size() >= kImageHeaderBytes);
  Sha256 hash;
  hash.update(image.first(kImageHeaderCoveredBytes));
  hash.update(image.subspan(kImageHeaderBytes));
  return hash.finish();
}

}  // namespace rhizome
