#include "store/recovered.h"

#include <algorithm>
#include <numeric>

namespace rhizome {

bool Recovered::add_in_memory(const BlockKey& parent, uint32_t position, std::span<const Token> tokens, SlotRef slot) {
  if (tokens.size() != block_tokens_ || position % block_tokens_ != 0) return false;
  const BlockKey key = next_key(parent, tokens);
  if (!by_key_.try_emplace(key, static_cast<uint32_t>(blocks_.size())).second) return false;
  blocks_.push_back({.key = key, .parent_key = parent, .position = position, .slot = slot});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return true;
}

void Recovered::add_in_tier(const BlockKey& key, const BlockKey& parent, uint32_t position,
                            std::span<const Token> tokens, uint32_t image_bytes) {
  // A key is what its parent and its tokens make it.
  if (tokens.size() != block_tokens_ || next_key(parent, tokens) != key) return;
  const auto [known, is_new] = by_key_.try_emplace(key, static_cast<uint32_t>(blocks_.size()));
  if (!is_new) {
    if (blocks_[known->second].slot) blocks_[known->second].image_bytes = image_bytes;
    return;
  }
  blocks_.push_back({.key = key, .parent_key = parent, .position = position, .image_bytes = image_bytes});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

std::vector<uint32_t> Recovered::in_order() const {
  std::vector<uint32_t> order(blocks_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [this](uint32_t at) { return blocks_[at].position; });
  return order;
}

bool Recovered::link(uint32_t at, const BlockKey& root_key) {
  Block& block = blocks_[at];
  if (block.position == 0 && block.parent_key == root_key) return true;
  const auto parent = by_key_.find(block.parent_key);
  if (parent == by_key_.end()) return false;
  const Block& above = blocks_[parent->second];
  if (!above.is_linked || above.position + block_tokens_ != block.position) return false;
  block.parent = parent->second;
  return true;
}

void Recovered::path_to(uint32_t end, std::vector<uint32_t>& path, std::vector<Token>& tokens) const {
  path.clear();
  tokens.clear();
  for (uint32_t at = end; at != kNone; at = blocks_[at].parent)
    path.push_back(at);
  std::ranges::reverse(path);
  for (const uint32_t at : path) {
    const auto of = tokens_of(at);
    tokens.insert(tokens.end(), of.begin(), of.end());
  }
}

}  // namespace rhizome
