// The KV of one long prompt, from which blocks of any size are cut.
//
// Thread-safety: does not change once made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codec/block_geometry.h"
#include "contract/result.h"

namespace rhizome::bench {

class KvRows {
 public:
  // A file of u32 layers, tokens, channels of K (and of V), element type (codec/block_geometry.h: 0 bf16, 1 f16),
  // little endian, and then the rows: [layer][K, V][token][channel]. kInvalidArgument when it is none.
  static Result<KvRows> read(const std::string& path);

  // What llama-server saves of a slot: u32 magic and version, u32 and as many i32 for tokens, and the sequence's state
  // (engine/llama/seq_blob.h) without its head. kInvalidArgument when it is none, or K and V are not alike.
  static Result<KvRows> from_saved_slot(std::span<const std::byte> file);

  // Made up: near-Gaussian rows whose channels have scales of their own, and keys with a mean as well. For speeds only.
  static KvRows made_up(uint32_t layers, uint32_t tokens, uint32_t channels);

  ElementType element_type() const { return element_type_; }
  uint32_t tokens_count() const { return tokens_count_; }
  // Of a block of so many tokens, in the canonical layout.
  BlockGeometry geometry(uint32_t block_tokens) const;
  // How many whole blocks there are.
  uint32_t blocks_count(uint32_t block_tokens) const { return tokens_count_ / block_tokens; }
  // Block `number`, as large as the geometry says.
  std::vector<std::byte> block(uint32_t block_tokens, uint32_t number) const;

 private:
  KvRows() = default;

  ElementType element_type_ = ElementType::kBf16;
  uint32_t layers_count_ = 0;
  uint32_t tokens_count_ = 0;
  uint32_t channels_count_ = 0;
  std::vector<std::byte> rows_;
};

}  // namespace rhizome::bench
