// llama.cpp's native blob of one sequence, read and written strictly: the only bytes that ever reach
// llama_state_seq_set_data are written here, from canonical payloads and a shape that was probed.
//
// Format (llama.cpp v0.5.0, LLAMA_STATE_SEQ_VERSION 3, llama-context.cpp and llama-kv-cache.cpp; little
// endian, unaligned): u32 magic, i32 sequence, then one section for a plain attention cache, or two (full,
// window) when the model has a sliding window. A section: u32 streams; for each stream: u32 cells and, if
// not 0: for each cell i32 position, u32 1, i32 sequence; u32 transposed, u32 layers; for each layer the K
// part: i32 type, u64 row bytes, a row for each cell; for each layer the V part: the same, or transposed:
// i32 type, u32 element bytes, u32 elements, for each element a value for each cell.
// Cells come in the order of their index in the cache, which need not be the order of positions.
//
// A canonical payload holds the same rows for the tokens of one block, without any headers: section by section, layer
// by layer, its K and then its V, each a row for each token in order of position. V is never transposed there. Where
// every layer is as wide and of a plain floating-point type this is the wire image's canonical layout.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "block/layout.h"
#include "codec/block_geometry.h"
#include "contract/result.h"

namespace rhizome {

inline constexpr uint32_t kBlobMagic = 0xaf143cd8;  // llama-context.cpp: io_magic
inline constexpr uint64_t kBlobHeadBytes = 8;       // magic, sequence

struct BlobPart {
  int32_t type = 0;
  bool value = false;          // V, else K
  uint64_t row_bytes = 0;      // bytes a token
  uint32_t element_bytes = 0;  // transposed parts only
};

struct BlobSection {
  bool window = false;
  bool transposed = false;  // of the V parts
  uint32_t layers = 0;
  std::vector<BlobPart> parts;  // K of every layer, then V of every layer (none: latent attention)
};

struct BlobShape {
  uint32_t streams = 1;
  uint32_t kv_heads = 1;  // that a row is divided into, where the engine says so; the blob does not
  std::vector<BlobSection> sections;

  // Bytes of all parts for `tokens` tokens.
  uint64_t payload_bytes(uint64_t tokens) const;
  Layout layout(uint32_t block_tokens) const;

  // What a payload of so many tokens is to the wire image: ImageLayout::kLayerHalfToken when all layers are alike, of
  // f32, f16 or bf16, and within the format's ranges; else opaque. raw_bytes() is payload_bytes(), but what exceeds the
  // format even so (tokens, 4 GiB) has no geometry: then the result is not valid.
  BlockGeometry geometry(uint32_t block_tokens) const;
};

// Learns the shape from a blob of one sequence that holds `cells` cells in every section.
// kUnimplemented: it is laid out in a way that is not understood here.
Result<BlobShape> discover_blob_shape(std::span<const std::byte> blob, uint32_t cells);

// A blob that was checked byte by byte against a shape. Borrows the bytes.
class BlobReader {
 public:
  // kDataLoss when anything differs from the shape, is out of range, is missing or is left over.
  static Result<BlobReader> parse(std::span<const std::byte> blob, const BlobShape& shape);

  // Copies the rows of `tokens` tokens from position `first` on to `payload`, canonical.
  // False, with nothing promised about `payload`, when a section lacks one of them.
  bool copy_payload(uint32_t first, uint32_t tokens, std::span<std::byte> payload) const;

 private:
  struct Section {
    std::vector<int32_t> positions;                         // by cell
    std::vector<std::pair<int32_t, uint32_t>> by_position;  // sorted; empty when cells are in order
    std::vector<const std::byte*> parts;
  };

  // Tokens of a payload that lie in adjacent cells.
  struct CellRun {
    uint64_t token = 0;
    uint64_t cell = 0;
    uint64_t count = 0;
  };

  // The cell of a position, or -1.
  static int64_t cell_of(const Section& section, int32_t position);
  // False when a position has no cell.
  static bool find_runs(const Section& section, uint32_t first, uint32_t tokens, std::vector<CellRun>& runs);

  const BlobShape* shape_ = nullptr;
  std::vector<Section> sections_;
};

// Writes the blob that puts consecutive blocks, from position `first` on, into a sequence.
class BlobWriter {
 public:
  // The window section gets only the rows of positions >= `window_from`, a multiple of the block size.
  BlobWriter(const BlobShape& shape, uint32_t block_tokens, uint32_t first, uint32_t blocks_count,
             uint32_t window_from);

  uint64_t bytes() const { return bytes_; }

  // `payloads`: one a block, canonical. `out` must be exactly bytes() long.
  void write(std::span<const std::span<const std::byte>> payloads, std::span<std::byte> out) const;

  // The same in steps, so that a payload can be copied while the processor's caches have it: frame() writes all
  // but the rows, then put() the rows of one block of them, once for each.
  void frame(std::span<std::byte> out) const;
  void put(uint32_t block, std::span<const std::byte> payload, std::span<std::byte> out) const;

 private:
  // Blocks left out of a section because the window has passed them.
  uint32_t skipped_blocks(const BlobSection& section) const;

  const BlobShape& shape_;
  uint32_t block_tokens_;
  uint32_t first_;
  uint32_t blocks_count_;
  uint32_t window_from_;
  uint64_t bytes_ = 0;
};

}  // namespace rhizome
