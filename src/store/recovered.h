// Blocks of one keyspace that a former process has left, in memory or in a tier, as a forest.
//
// Thread-safety: a plain value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "block/block_key.h"
#include "block/token.h"
#include "index/index_types.h"
#include "slab/slot.h"

namespace rhizome {

class Recovered {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Block {
    BlockKey key;
    BlockKey parent_key;
    uint32_t position = 0;  // of its first token
    uint32_t image_bytes = 0;
    std::optional<SlotRef> slot = {};
    uint32_t parent = kNone;
    bool is_linked = false;  // it is known how it hangs together with the root, and it has a location
    bool has_children = false;
    bool is_inserted = false;
    Location location = 0;
  };

  explicit Recovered(uint32_t block_tokens) : block_tokens_(block_tokens) {}

  // False: it is not what its key says, or is there already.
  bool add_in_memory(const BlockKey& parent, uint32_t position, std::span<const Token> tokens, SlotRef slot);
  void add_in_tier(const BlockKey& key, const BlockKey& parent, uint32_t position, std::span<const Token> tokens,
                   uint32_t image_bytes);

  std::vector<Block>& blocks() { return blocks_; }
  // Parents before their children.
  std::vector<uint32_t> in_order() const;
  // Finds the parent of a block; false: it has none here, and is not the root's child either.
  bool link(uint32_t block, const BlockKey& root_key);
  // From the root to `end`, and their tokens.
  void path_to(uint32_t end, std::vector<uint32_t>& path, std::vector<Token>& tokens) const;

 private:
  std::span<const Token> tokens_of(uint32_t block) const {
    return std::span(tokens_).subspan(size_t{block} * block_tokens_, block_tokens_);
  }

  const uint32_t block_tokens_;
  std::vector<Block> blocks_;
  std::vector<Token> tokens_;  // of all of them, one behind the other
  std::unordered_map<BlockKey, uint32_t, BlockKeyHash> by_key_;
};

}  // namespace rhizome
