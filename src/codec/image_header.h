// The 84 bytes at the head of every block image, and what is checked of them before anything else is looked at.
//
// Little-endian, byte-packed:
//
//    0  u32  magic 0x31425a52, "RZB1"        20  u32  raw length: layers * tokens * heads * (widths) * element
//    4  u8   version, 1                      24  u32  encoded length: bytes that follow the header
//    5  u8   codec                           28  16   the first 128 bits of the block key
//    6  u8   element type                    44  8    the first 64 bits of the keyspace digest
//    7  u8   layout                          52  32   SHA-256 of bytes 0 to 51 and of what follows the header
//    8  u16  flags                                    (zeros where it is left out)
//   10  u16  layers
//   12  u16  tokens
//   14  u16  key-value heads
//   16  u16  key width
//   18  u16  value width
//
// Opaque images (layout and element type 255) have codec raw, and zeros for layers, heads and widths.
//
// Thread-safety: pure functions over the caller's memory. Nothing here allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "block/block_key.h"
#include "block/sha256.h"
#include "codec/block_geometry.h"
#include "contract/result.h"

namespace rhizome {

inline constexpr size_t kImageHeaderBytes = 84;
// What of it the digest covers, and the seal vouches for.
inline constexpr size_t kImageHeaderCoveredBytes = 52;
inline constexpr uint32_t kImageMagic = 0x31425a52;
inline constexpr uint8_t kImageVersion = 1;

// The values are part of the format. 3, 4 and 5 are kept for lossy codecs; this version refuses them.
enum class Codec : uint8_t { kRaw = 0, kE3 = 1, kRans = 2, kZstdPlanes = 6 };

namespace image_flag {
inline constexpr uint16_t kLatent = 1 << 0;
inline constexpr uint16_t kLossy = 1 << 1;
inline constexpr uint16_t kSealed = 1 << 2;
inline constexpr uint16_t kKeysBeforeRope = 1 << 3;
inline constexpr uint16_t kPartial = 1 << 4;
inline constexpr uint16_t kNoDigest = 1 << 5;
inline constexpr uint16_t kKnown = (1 << 6) - 1;
}  // namespace image_flag

// A sealed payload begins with them: u32 key id, 12 bytes of nonce, 16 bytes of tag; the rest is encrypted.
inline constexpr size_t kSealBytes = 32;

using KeyName = std::array<std::byte, 16>;
using KeyspaceName = std::array<std::byte, 8>;

KeyName key_name(const BlockKey& key);
KeyspaceName keyspace_name(const Digest& keyspace);

struct ImageHeader {
  Codec codec = Codec::kRaw;
  uint16_t flags = 0;
  BlockGeometry geometry;
  uint32_t encoded_bytes = 0;
  KeyName key{};
  KeyspaceName keyspace{};
  Digest digest{};

  bool has(uint16_t flag) const { return (flags & flag) != 0; }
  bool is_sealed() const { return has(image_flag::kSealed); }

  friend bool operator==(const ImageHeader&, const ImageHeader&) = default;
};

// Whether the codec knows how to encode elements of this type.
bool codec_takes(Codec codec, ElementType type);

// The flags that the geometry gives.
uint16_t geometry_flags(const BlockGeometry& geometry);

// The geometry must be valid, the flags and the codec go with it.
void write_image_header(const ImageHeader& header, std::span<std::byte, kImageHeaderBytes> out);

// kHeaderPresent to kRawLength: what the header alone can tell. What comes back is consistent in itself; whether it is
// what was asked for, the caller compares. `received` may be longer than the header.
Result<ImageHeader> parse_image_header(std::span<const std::byte> received);

// kEncodedLimit and kEncodedLength. `present_bytes`: what there is behind the header.
Status check_encoded_length(const ImageHeader& header, uint64_t present_bytes);

// The most that an encoded block of `raw_bytes` may have in the format: identity and seal not counted.
uint64_t encoded_block_bytes_max(Codec codec, uint64_t raw_bytes);

}  // namespace rhizome
