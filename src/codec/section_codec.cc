#include "codec/section_codec.h"

#include <algorithm>
#include <cstring>

#include "block/little_endian.h"
#include "codec/image_rule.h"
#include "codec/zstd_planes.h"
#include "contract/check.h"

namespace rhizome {
namespace {

constexpr size_t kCountBytes = sizeof(uint32_t);
constexpr size_t kFrequenciesBytes = sizeof(RansFrequencies);
constexpr size_t kModelBytes = 1 + kFrequenciesBytes;
// Symbols that are decoded before they are joined: they stay in the fastest cache.
constexpr size_t kChunkGroups = 64;

PlaneShape plane_shape(const SectionShape& shape) {
  return {shape.rows_count, shape.channels, shape.row_stride_bytes};
}

void copy_rows(const std::byte* from, uint64_t from_stride, std::byte* to, uint64_t to_stride,
               const SectionShape& shape) {
  const uint64_t bytes = shape.row_bytes();
  if (from_stride == bytes && to_stride == bytes) {
    std::memcpy(to, from, shape.raw_bytes());
    return;
  }
  for (uint32_t row = 0; row < shape.rows_count; ++row)
    std::memcpy(to + row * to_stride, from + row * from_stride, bytes);
}

PlaneFormat format_of(ElementType type) {
  return type == ElementType::kF16 ? PlaneFormat::kF16 : PlaneFormat::kBf16;
}

// What a section has beside its escapes, and beside its stream.
uint64_t fixed_bytes(Codec codec, PlaneFormat format, const PlaneShape& shape) {
  const uint64_t planes = rest_planes(format) + (codec == Codec::kE3 ? kDistancePlanes : 0);
  const uint64_t model = codec == Codec::kE3 ? shape.bases_bytes() : kModelBytes;
  return kCountBytes + model + shape.groups_count() * planes * kPlaneBytes + shape.padded_values();
}

// The top of the 31 adjacent exponents that occur most often.
uint8_t best_top(const uint32_t (&counts)[256]) {
  uint64_t inside = 0;
  uint64_t best = 0;
  uint32_t top = kEscapeSymbol - 1;
  for (uint32_t exponent = 0; exponent < 256; ++exponent) {
    inside += counts[exponent];
    if (exponent >= kEscapeSymbol) inside -= counts[exponent - kEscapeSymbol];
    if (exponent < kEscapeSymbol - 1 || inside <= best) continue;
    best = inside;
    top = exponent;
  }
  return static_cast<uint8_t>(top);
}

// Four histograms, so that equal exponents in a row do not wait for each other.
void count_exponents(std::span<const std::byte> exponents, uint32_t (&counts)[256]) {
  uint32_t parts[4][256] = {};
  RHIZOME_DCHECK(exponents.size() % 4 == 0);
  for (size_t i = 0; i < exponents.size(); i += 4) {
    for (size_t part = 0; part < 4; ++part)
      ++parts[part][std::to_integer<size_t>(exponents[i + part])];
  }
  for (size_t i = 0; i < 256; ++i)
    counts[i] = parts[0][i] + parts[1][i] + parts[2][i] + parts[3][i];
}

}  // namespace

SectionCodec::SectionCodec(Codec codec, ElementType type, CodecWorkspace& workspace, const CodecKernels& kernels)
    : codec_(codec), type_(type), format_(format_of(type)), kernels_(kernels), workspace_(workspace) {
  RHIZOME_CHECK(codec != Codec::kRaw && codec_takes(codec, type));
}

uint64_t SectionCodec::bytes_max(const SectionShape& shape) {
  return kCountBytes + shape.raw_bytes();
}

uint64_t SectionCodec::room_bytes(Codec codec, ElementType type, const SectionShape& shape) {
  const PlaneShape plane = plane_shape(shape);
  if (codec == Codec::kZstdPlanes) return std::max(bytes_max(shape), kCountBytes + zstd_planes_bytes_max(shape));
  // All of them escapes, and for E-rANS the stream as well.
  const uint64_t escapes = plane.padded_values() + kEscapeSlackBytes;
  const uint64_t stream = codec == Codec::kRans ? rans_stream_bytes_max(plane.padded_values()) : 0;
  return std::max(bytes_max(shape), fixed_bytes(codec, format_of(type), plane) + escapes + stream);
}

uint64_t SectionCodec::encode(const std::byte* values, const SectionShape& shape, std::span<std::byte> out) {
  RHIZOME_CHECK(out.size() >= room_bytes(codec_, type_, shape));
  uint64_t written = 0;
  switch (codec_) {
    case Codec::kE3:
      written = encode_e3(values, plane_shape(shape), out.data());
      break;
    case Codec::kRans:
      written = encode_rans(values, plane_shape(shape), out.data());
      break;
    case Codec::kZstdPlanes:
      written = encode_zstd(values, shape, out);
      break;
    case Codec::kRaw:
      break;
  }
  if (written > 0 && written < bytes_max(shape)) return written;
  store_little(out.data(), kStoredSection);
  copy_rows(values, shape.row_stride_bytes, out.data() + kCountBytes, shape.row_bytes(), shape);
  return bytes_max(shape);
}

uint64_t SectionCodec::encode_e3(const std::byte* values, const PlaneShape& shape, std::byte* out) const {
  E3Parts parts;
  parts.bases = out + kCountBytes;
  parts.planes = parts.bases + shape.bases_bytes();
  parts.rest = parts.planes + shape.groups_count() * (kDistancePlanes + rest_planes(format_)) * kPlaneBytes;
  parts.escapes = parts.rest + shape.padded_values();
  planes().find_bases(values, shape, parts.bases);
  const uint64_t escapes = planes().encode_e3(values, shape, parts);
  store_little(out, static_cast<uint32_t>(escapes));
  return fixed_bytes(codec_, format_, shape) + escapes;
}

uint64_t SectionCodec::encode_rans(const std::byte* values, const PlaneShape& shape, std::byte* out) {
  const uint64_t count = shape.padded_values();
  const std::span<std::byte> symbols = workspace_.take(CodecWorkspace::Purpose::kExponents, count);
  SplitParts parts;
  parts.planes = out + kCountBytes + kModelBytes;
  parts.rest = parts.planes + shape.groups_count() * rest_planes(format_) * kPlaneBytes;
  parts.exponents = symbols.data();
  planes().split(values, shape, parts);

  uint32_t exponent_counts[256];
  count_exponents(symbols, exponent_counts);
  const uint8_t top = best_top(exponent_counts);
  std::byte* const first_escape = parts.rest + count;
  std::byte* escape = first_escape;
  uint32_t counts[kRansSymbols] = {};
  for (uint32_t exponent = 0; exponent < 256; ++exponent)
    counts[std::min<uint32_t>(static_cast<uint8_t>(top - exponent), kEscapeSymbol)] += exponent_counts[exponent];
  for (std::byte& symbol : symbols) {
    const uint8_t exponent = std::to_integer<uint8_t>(symbol);
    const uint8_t distance = std::min<uint8_t>(static_cast<uint8_t>(top - exponent), kEscapeSymbol);
    // Written always, kept where it is one.
    *escape = symbol;
    escape += distance == kEscapeSymbol ? 1 : 0;
    symbol = static_cast<std::byte>(distance);
  }

  const RansFrequencies frequencies = rans_frequencies(counts);
  store_little(out, static_cast<uint32_t>(escape - first_escape));
  out[kCountBytes] = static_cast<std::byte>(top);
  std::memcpy(out + kCountBytes + 1, frequencies.data(), kFrequenciesBytes);
  const std::span<std::byte> room = workspace_.take(CodecWorkspace::Purpose::kStream, rans_stream_bytes_max(count));
  const std::span<const std::byte> stream = rans_encode(symbols, frequencies, room);
  std::memcpy(escape, stream.data(), stream.size());
  return static_cast<uint64_t>(escape - out) + stream.size();
}

uint64_t SectionCodec::encode_zstd(const std::byte* values, const SectionShape& shape, std::span<std::byte> out) {
  store_little(out.data(), uint32_t{0});
  const uint64_t written = encode_zstd_planes(values, shape, out.subspan(kCountBytes), workspace_);
  return written == 0 ? 0 : kCountBytes + written;
}

Status SectionCodec::decode(std::span<const std::byte> section, const std::byte* readable_end,
                            const SectionShape& shape, std::byte* values) {
  RHIZOME_DCHECK(section.data() + section.size() <= readable_end);
  if (section.size() < kCountBytes || section.size() > bytes_max(shape)) return broken(ImageRule::kSectionLength);
  const uint32_t escapes = load_little<uint32_t>(section.data());
  if (escapes == kStoredSection) {
    if (section.size() != bytes_max(shape)) return broken(ImageRule::kSectionLength);
    copy_rows(section.data() + kCountBytes, shape.row_bytes(), values, shape.row_stride_bytes, shape);
    return {};
  }
  switch (codec_) {
    case Codec::kE3:
      return decode_e3(section, readable_end, plane_shape(shape), values);
    case Codec::kRans:
      return decode_rans(section, readable_end, plane_shape(shape), values);
    case Codec::kZstdPlanes:
      if (escapes != 0) return broken(ImageRule::kSectionLength);
      return decode_zstd_planes(section.subspan(kCountBytes), shape, values, workspace_);
    case Codec::kRaw:
      break;
  }
  return broken(ImageRule::kCodec);
}

Status SectionCodec::decode_e3(std::span<const std::byte> section, const std::byte* readable_end,
                               const PlaneShape& shape, std::byte* values) const {
  E3Source source;
  source.escapes_count = load_little<uint32_t>(section.data());
  if (source.escapes_count > shape.padded_values() ||
      section.size() != fixed_bytes(codec_, format_, shape) + source.escapes_count)
    return broken(ImageRule::kSectionLength);
  source.bases = section.data() + kCountBytes;
  source.planes = source.bases + shape.bases_bytes();
  source.rest = source.planes + shape.groups_count() * (kDistancePlanes + rest_planes(format_)) * kPlaneBytes;
  source.escapes = source.rest + shape.padded_values();
  source.readable_end = readable_end;
  if (!planes().decode_e3(source, shape, values)) return broken(ImageRule::kSectionBytes);
  return {};
}

Status SectionCodec::decode_rans(std::span<const std::byte> section, const std::byte* readable_end,
                                 const PlaneShape& shape, std::byte* values) const {
  const uint64_t escapes_count = load_little<uint32_t>(section.data());
  const uint64_t head = fixed_bytes(codec_, format_, shape) + escapes_count;
  if (escapes_count > shape.padded_values() || section.size() < head) return broken(ImageRule::kSectionLength);
  RansFrequencies frequencies;
  std::memcpy(frequencies.data(), section.data() + kCountBytes + 1, kFrequenciesBytes);
  if (!rans_frequencies_valid(frequencies)) return broken(ImageRule::kSectionTables);
  const RansTables tables(frequencies);
  RansStream stream;
  if (!stream.open(section.subspan(head))) return broken(ImageRule::kSectionBytes);

  alignas(64) std::byte symbols[kChunkGroups * kGroupChannels];
  JoinSource source;
  source.top = std::to_integer<uint8_t>(section[kCountBytes]);
  source.planes = section.data() + kCountBytes + kModelBytes;
  source.rest = source.planes + shape.groups_count() * rest_planes(format_) * kPlaneBytes;
  source.symbols = symbols;
  EscapeCursor escapes(source.rest + shape.padded_values(), readable_end);
  for (; source.first_group < shape.groups_count(); source.first_group += source.groups_count) {
    source.groups_count = std::min<uint64_t>(kChunkGroups, shape.groups_count() - source.first_group);
    if (!kernels_.rans->decode(stream, tables, std::span(symbols).first(source.groups_count * kGroupChannels)) ||
        !planes().join(source, escapes, shape, values))
      return broken(ImageRule::kSectionBytes);
  }
  if (!stream.is_finished() || escapes.taken != escapes_count) return broken(ImageRule::kSectionBytes);
  return {};
}

}  // namespace rhizome
