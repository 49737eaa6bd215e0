// The wire image of a block: header, then the payload, which is the block's identity (block/identity.h) and the encoded
// block. An encoded block is the rows as they are (codec raw), or a table of section ends (u32 each, from the table's
// first byte on, two a layer: K, V) and the sections behind it, so that layers can be read alone.
//
// Thread-safety: a workspace belongs to one thread at a time; else pure functions over the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "block/block_key.h"
#include "block/identity.h"
#include "codec/block_geometry.h"
#include "codec/image_header.h"
#include "codec/section_codec.h"
#include "codec/workspace.h"
#include "contract/result.h"

namespace rhizome {

// What an image is to hold. `identity.tokens` are geometry.tokens_count.
struct ImageContent {
  BlockGeometry geometry;
  Identity identity;
  BlockKey key;
  bool is_partial = false;
  bool is_lossy = false;
};

struct ImageRequest {
  ImageContent content;  // is_lossy: a lossy image will do
  uint64_t raw_bytes_max = uint64_t{256} << 20;
};

// E3 where it knows the element type, else raw.
Codec default_codec(ElementType type);

// How large `out` has to be for encode_image(); the image is smaller.
uint64_t image_room_bytes(const BlockGeometry& geometry, Codec codec);

// Whether the image carries a SHA-256: not needed where the caller keeps a checksum of his own.
enum class ImageDigest : uint8_t { kWrite, kLeaveOut };

// The image's size. `raw` is the block's rows, geometry.raw_bytes(). kInvalidArgument when codec, geometry and identity
// do not go together, or the image would be longer than the header can say.
Result<size_t> encode_image(const ImageContent& content, Codec codec, ImageDigest digest,
                            std::span<const std::byte> raw, CodecWorkspace& workspace, std::span<std::byte> out,
                            const CodecKernels& kernels = {});

// An image that was checked: what it may be decoded from. Points into the memory that was received.
struct CheckedImage {
  ImageHeader header;
  std::span<const std::byte> block;
};

// Who vouches for the bytes.
enum class ImageCheck : uint8_t {
  kDigest,       // the image's own SHA-256: whatever comes from another machine
  kByTheCaller,  // the caller has compared a checksum of the whole image that he kept elsewhere
};

// Every rule of image_rule.h up to the digest, and kLossy, in this order, before anything is allocated or decoded.
// `received` is exactly the image.
Result<CheckedImage> check_image(std::span<const std::byte> received, const ImageRequest& request, ImageCheck check);

// Rules kRawLimit to kKeyspace, for a header that arrived alone: nothing of the payload is looked at.
Status match_header(const ImageHeader& header, const ImageRequest& request, uint64_t present_bytes);

// Into `raw`, geometry.raw_bytes() long. kSectionTable to kSectionBytes; then `raw` holds bytes of no use.
Status decode_image(const CheckedImage& image, CodecWorkspace& workspace, std::span<std::byte> raw,
                    const CodecKernels& kernels = {});

// The section table of an encoded block, for reading some layers only.
class SectionTable {
 public:
  struct Range {
    uint64_t offset = 0;  // from the first byte of the encoded block
    uint64_t size = 0;
  };

  static uint64_t table_bytes(const BlockGeometry& geometry) { return uint64_t{geometry.sections_count()} * 4; }

  // `table` is the head of an encoded block of `block_bytes` bytes, at least table_bytes(); it must stay where it is.
  // kSectionTable unless each section begins where the one before ends, none is empty and the last ends the block.
  static Result<SectionTable> parse(const BlockGeometry& geometry, std::span<const std::byte> table,
                                    uint64_t block_bytes);

  Range section(uint32_t index) const;
  Range layers(uint32_t first, uint32_t count) const;

 private:
  SectionTable(std::span<const std::byte> ends, uint64_t table_size) : ends_(ends), table_bytes_(table_size) {}
  uint64_t end_of(uint32_t index) const;

  std::span<const std::byte> ends_;
  uint64_t table_bytes_ = 0;
};

// Layers [first, first + count) of a block whose codec has sections. `bytes` is table.layers(first, count) of the
// encoded block; the layers come where they lie in `raw`, which is the whole block's. The caller vouches for the bytes:
// a digest covers an image as a whole.
Status decode_layers(const ImageHeader& header, const SectionTable& table, uint32_t first, uint32_t count,
                     std::span<const std::byte> bytes, CodecWorkspace& workspace, std::span<std::byte> raw,
                     const CodecKernels& kernels = {});

// SHA-256 over the covered part of the header and the payload.
Digest image_digest(std::span<const std::byte> image);

}  // namespace rhizome
