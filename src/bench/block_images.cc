#include "bench/block_images.h"

#include <algorithm>
#include <cstring>

#include "contract/check.h"

namespace rhizome::bench {

BlockImages::BlockImages(const KvRows& rows, uint32_t block_tokens, uint64_t raw_bytes_least) : tokens_(block_tokens) {
  content_.geometry = rows.geometry(block_tokens);
  content_.identity.tokens = tokens_;
  content_.key = next_key(root_key(content_.identity.keyspace), tokens_);
  block_bytes_ = content_.geometry.raw_bytes();
  const uint32_t there = rows.blocks_count(block_tokens);
  RHIZOME_CHECK(there > 0);
  blocks_count_ =
      raw_bytes_least == 0 ? there : static_cast<uint32_t>((raw_bytes_least + block_bytes_ - 1) / block_bytes_);
  for (uint32_t i = 0; i < blocks_count_; ++i) {
    const std::vector<std::byte> block = rows.block(block_tokens, i % there);
    raw_.insert(raw_.end(), block.begin(), block.end());
  }
  decoded_.resize(raw_.size());
  images_.resize(blocks_count_);
}

uint64_t BlockImages::encode(Codec codec) {
  const uint64_t room = image_room_bytes(content_.geometry, codec);
  if (encoded_.size() < room + raw_.size() * 2) encoded_.resize(room + raw_.size() * 2);
  // One behind the other, as in a segment of a disk.
  uint64_t at = 0;
  for (uint32_t i = 0; i < blocks_count_; ++i) {
    const std::span<std::byte> out = std::span(encoded_).subspan(at);
    const Result<size_t> size = encode_image(content_, codec, ImageDigest::kLeaveOut,
                                             std::span(raw_).subspan(i * block_bytes_, block_bytes_), workspace_, out);
    RHIZOME_CHECK(size.has_value());
    images_[i] = out.first(*size);
    at += *size;
  }
  return at;
}

bool BlockImages::decode() {
  ImageRequest request;
  request.content = content_;
  for (uint32_t i = 0; i < blocks_count_; ++i) {
    const Result<CheckedImage> image = check_image(images_[i], request, ImageCheck::kByTheCaller);
    if (!image) return false;
    if (!decode_image(*image, workspace_, std::span(decoded_).subspan(i * block_bytes_, block_bytes_))) return false;
  }
  return true;
}

void BlockImages::copy() {
  std::memcpy(decoded_.data(), raw_.data(), raw_.size());
}

}  // namespace rhizome::bench
