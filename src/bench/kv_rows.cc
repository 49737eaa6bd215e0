#include "bench/kv_rows.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "block/little_endian.h"
#include "contract/check.h"
#include "engine/llama/seq_blob.h"
#include "machine/files.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kFileBytesMax = uint64_t{2} << 30;
constexpr size_t kHeaderBytes = 16;
// llama.h: LLAMA_STATE_SEQ_MAGIC and LLAMA_STATE_SEQ_VERSION.
constexpr uint32_t kSavedMagic = 0x67677371;
constexpr uint32_t kSavedVersion = 3;
constexpr size_t kSavedHeadBytes = 12;

}  // namespace

Result<KvRows> KvRows::read(const std::string& path) {
  const Result<std::vector<std::byte>> file = read_file(path, kFileBytesMax);
  if (!file) return fail(file.error());
  if (file->size() < kHeaderBytes) return fail(Code::kInvalidArgument, "the file of KV has no header");
  KvRows rows;
  rows.layers_count_ = load_little<uint32_t>(file->data());
  rows.tokens_count_ = load_little<uint32_t>(file->data() + 4);
  rows.channels_count_ = load_little<uint32_t>(file->data() + 8);
  const uint32_t type = load_little<uint32_t>(file->data() + 12);
  if (type > static_cast<uint32_t>(ElementType::kF16))
    return fail(Code::kInvalidArgument, "the file of KV has an element type that is neither bf16 (0) nor f16 (1)");
  rows.element_type_ = static_cast<ElementType>(type);
  const bool is_ranged = rows.layers_count_ >= 1 && rows.layers_count_ <= BlockGeometry::kLayersMax &&
                         rows.channels_count_ >= 1 && rows.channels_count_ <= UINT16_MAX;
  const uint64_t token_bytes = uint64_t{rows.layers_count_} * 2 * rows.channels_count_ * 2;
  if (!is_ranged || rows.tokens_count_ == 0 || file->size() - kHeaderBytes != token_bytes * rows.tokens_count_)
    return fail(Code::kInvalidArgument, "the file of KV is not as long as its header says");
  rows.rows_.assign(file->begin() + kHeaderBytes, file->end());
  return rows;
}

Result<KvRows> KvRows::from_saved_slot(std::span<const std::byte> file) {
  const auto refuse = [] { return fail(Code::kInvalidArgument, "what the server saved is not known here"); };
  if (file.size() < kSavedHeadBytes) return refuse();
  if (load_little<uint32_t>(file.data()) != kSavedMagic || load_little<uint32_t>(file.data() + 4) != kSavedVersion)
    return refuse();
  const uint64_t state_at = kSavedHeadBytes + uint64_t{load_little<uint32_t>(file.data() + 8)} * sizeof(int32_t);
  constexpr size_t kCellsAt = 4;
  if (file.size() < state_at + kCellsAt + sizeof(uint32_t)) return refuse();
  std::vector<std::byte> blob(kBlobHeadBytes);
  store_little(blob.data(), kBlobMagic);
  blob.insert(blob.end(), file.begin() + static_cast<ptrdiff_t>(state_at), file.end());
  const auto cells = load_little<uint32_t>(blob.data() + kBlobHeadBytes + kCellsAt);
  const Result<BlobShape> shape = discover_blob_shape(blob, cells);
  if (!shape) return refuse();
  const Result<BlobReader> reader = BlobReader::parse(blob, *shape);
  if (!reader) return refuse();
  const BlockGeometry geometry = shape->geometry(1);
  const bool is_known = geometry.element_type == ElementType::kBf16 || geometry.element_type == ElementType::kF16;
  const uint64_t channels = uint64_t{geometry.kv_heads_count} * geometry.key_width;
  if (!is_known || geometry.key_width != geometry.value_width || channels > UINT16_MAX)
    return fail(Code::kInvalidArgument, "the model's K and V are not alike, or not of 16 bits");
  KvRows rows;
  rows.element_type_ = geometry.element_type;
  rows.layers_count_ = geometry.layers_count;
  rows.channels_count_ = static_cast<uint32_t>(channels);
  rows.tokens_count_ = cells;
  rows.rows_.resize(shape->payload_bytes(cells));
  if (!reader->copy_payload(0, cells, rows.rows_))
    return fail(Code::kInvalidArgument, "the server did not keep every row");
  return rows;
}

KvRows KvRows::made_up(uint32_t layers, uint32_t tokens, uint32_t channels) {
  KvRows rows;
  rows.layers_count_ = layers;
  rows.tokens_count_ = tokens;
  rows.channels_count_ = channels;
  rows.rows_.resize(uint64_t{layers} * 2 * tokens * channels * 2);
  std::mt19937 random(0x5eed);
  std::normal_distribution<float> normal;
  std::vector<float> scales(channels);
  std::vector<float> means(channels);
  std::byte* at = rows.rows_.data();
  for (uint32_t half = 0; half < layers * 2; ++half) {
    for (uint32_t channel = 0; channel < channels; ++channel) {
      scales[channel] = std::exp(0.3F * normal(random));
      means[channel] = half % 2 == 0 ? normal(random) : 0;
    }
    for (uint32_t i = 0; i < tokens * channels; ++i, at += 2) {
      const float value = means[i % channels] + scales[i % channels] * normal(random);
      store_little(at, static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    }
  }
  return rows;
}

BlockGeometry KvRows::geometry(uint32_t block_tokens) const {
  BlockGeometry geometry;
  geometry.element_type = element_type_;
  geometry.layers_count = static_cast<uint16_t>(layers_count_);
  geometry.tokens_count = static_cast<uint16_t>(block_tokens);
  geometry.kv_heads_count = 1;
  geometry.key_width = static_cast<uint16_t>(channels_count_);
  geometry.value_width = static_cast<uint16_t>(channels_count_);
  RHIZOME_CHECK(geometry.is_valid());
  return geometry;
}

std::vector<std::byte> KvRows::block(uint32_t block_tokens, uint32_t number) const {
  RHIZOME_CHECK(number < blocks_count(block_tokens));
  const uint64_t row_bytes = uint64_t{channels_count_} * 2;
  const uint64_t piece_bytes = block_tokens * row_bytes;
  std::vector<std::byte> block(uint64_t{layers_count_} * 2 * piece_bytes);
  for (uint64_t half = 0; half < uint64_t{layers_count_} * 2; ++half) {
    const uint64_t from = (half * tokens_count_ + uint64_t{number} * block_tokens) * row_bytes;
    std::memcpy(block.data() + half * piece_bytes, rows_.data() + from, piece_bytes);
  }
  return block;
}

}  // namespace rhizome::bench
