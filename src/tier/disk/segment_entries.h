// What lies in one segment: for each record its key and place, and the identity of the block where the image shows it.
// It is written as the segment's footer when the segment is sealed.
//
// The footer lies at the end of the segment: a body at its beginning, zeros, and in the last 64 bytes a trailer:
// u32 magic 0x46535a52 "RZSF", u32 version, u32 segment, u32 entries, u64 generation, u64 body bytes, u64 where the
// records end, u64 xxh3 of the body, u32 flags (1: can be written on), zeros, u32 CRC-32C of the 60 before. The body:
// u32 keyspaces, 32 bytes each; the entries: 32 bytes key, u64 lsn, u64 image bytes, u32 page, u32 flags (1: identity,
// 2: partial block), and with an identity 32 bytes parent key, u32 keyspace, u32 position, u32 tokens, the tokens.
//
// Thread-safety: belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "block/block_key.h"
#include "block/sha256.h"
#include "block/token.h"
#include "contract/result.h"

namespace rhizome {

struct SegmentEntry {
  BlockKey key;
  uint64_t lsn = 0;
  uint64_t image_bytes = 0;
  uint32_t page = 0;  // where the record begins, in pages
  bool has_identity = false;
  bool is_partial = false;
  bool is_removed = false;  // not written into the footer
  BlockKey parent;
  uint32_t keyspace = 0;  // index into keyspaces()
  uint32_t position = 0;
  uint32_t tokens_count = 0;
  uint64_t tokens_first = 0;
};

// The identity in an image of a block, as far as it can be read: a sealed one cannot.
struct ImageIdentity {
  Digest keyspace{};
  BlockKey parent;
  uint32_t position = 0;
  bool is_partial = false;
  std::span<const std::byte> tokens;  // u32 each, little-endian
};

// `image` may be only the head of one that is `image_bytes` long; nothing when it is no image of the block `key`.
std::optional<ImageIdentity> identity_of_image(std::span<const std::byte> image, uint64_t image_bytes,
                                               const BlockKey& key);
// How much of an image identity_of_image() needs: more than `image.size()` when it has to be called with more.
uint64_t identity_end(std::span<const std::byte> image);

class SegmentEntries {
 public:
  // `identity` may be null.
  void add(const SegmentEntry& entry, const ImageIdentity* identity);
  // The last one at this page; null when there is none.
  SegmentEntry* find_page(uint32_t page);

  const std::vector<SegmentEntry>& entries() const { return entries_; }
  const std::vector<Digest>& keyspaces() const { return keyspaces_; }
  std::span<const Token> tokens(const SegmentEntry& entry) const {
    return std::span(tokens_).subspan(entry.tokens_first, entry.tokens_count);
  }

  // Whole pages: of the footer as it is, and at most with one entry more.
  uint64_t footer_bytes() const;
  uint64_t footer_bytes_with(const ImageIdentity* identity) const;
  // `out` is footer_bytes() long.
  // `can_go_on`: nothing behind data_end was ever written in this generation.
  void write_footer(uint32_t segment, uint64_t generation, uint64_t data_end, bool can_go_on,
                    std::span<std::byte> out) const;

 private:
  std::vector<SegmentEntry> entries_;
  std::vector<Digest> keyspaces_;
  std::vector<Token> tokens_;
  uint64_t body_bytes_ = 4;
};

inline constexpr size_t kTrailerBytes = 64;
// None is longer: a segment is full before, and what says so is damaged. Bounds what reading one takes.
inline constexpr uint64_t kFooterBytesMax = uint64_t{256} << 20;

struct FooterTrailer {
  uint32_t segment = 0;
  uint32_t entries_count = 0;
  uint64_t generation = 0;
  uint64_t body_bytes = 0;
  uint64_t data_end = 0;
  uint64_t body_checksum = 0;
  bool can_go_on = false;

  uint64_t footer_bytes() const;  // whole pages
};

// Nothing: there is no footer, or not one of this version. `bytes` are the last 64 of a segment.
std::optional<FooterTrailer> parse_trailer(std::span<const std::byte> bytes);
// `body` is trailer.body_bytes long. kDataLoss when its checksum is wrong or it says what cannot be.
Result<SegmentEntries> parse_footer_body(const FooterTrailer& trailer, std::span<const std::byte> body);

}  // namespace rhizome
