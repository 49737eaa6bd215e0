// Blocks of rows, and their images: made, checked and read again.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/kv_rows.h"
#include "codec/image.h"

namespace rhizome::bench {

class BlockImages {
 public:
  // Enough blocks of `block_tokens` for `raw_bytes_least`, from the first on; they begin anew where the rows end. All
  // of them once when that is 0.
  BlockImages(const KvRows& rows, uint32_t block_tokens, uint64_t raw_bytes_least);

  uint64_t raw_bytes() const { return raw_.size(); }
  uint32_t blocks_count() const { return blocks_count_; }

  // The bytes of all images. With no digest: what it costs is known, and the same for every codec.
  uint64_t encode(Codec codec);
  // Of what encode() made; false when an image is refused.
  bool decode();
  // Whether what was decoded is what was encoded.
  bool is_right() const { return decoded_ == raw_; }
  // What everything is measured beside.
  void copy();

 private:
  ImageContent content_;
  std::vector<Token> tokens_;
  uint32_t blocks_count_ = 0;
  uint64_t block_bytes_ = 0;
  std::vector<std::byte> raw_;
  std::vector<std::byte> decoded_;
  std::vector<std::byte> encoded_;
  std::vector<std::span<const std::byte>> images_;
  CodecWorkspace workspace_;
};

}  // namespace rhizome::bench
