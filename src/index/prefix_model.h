// For tests: what a prefix cache promises, as plainly as it can be said, in one thread and without speed. Each stored
// block is an entry of a map under its whole path of tokens, and a tail hangs on the block before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "block/token.h"
#include "index/prefix_cache_types.h"

namespace rhizome {

class PrefixModel {
 public:
  using Path = std::pair<uint32_t, std::vector<Token>>;  // of whole blocks, in a keyspace

  struct Tail {
    std::vector<Token> tokens;
    uint32_t block = kNoBlock;
    uint32_t disk = kNoBlock;
  };
  struct Block {
    uint32_t block = kNoBlock;
    uint32_t disk = kNoBlock;
    Tail tail;
    int tail_holders = 0;
  };
  // What a handle holds.
  struct Held {
    Path path;
    bool tail = false;
  };

  PrefixModel(uint32_t block_tokens, bool partial_tails) : block_tokens_(block_tokens), partial_tails_(partial_tails) {}

  std::vector<const Block*> find(uint32_t root, const std::vector<Token>& tokens) const {
    std::vector<const Block*> found;
    for (size_t end = block_tokens_; end <= tokens.size(); end += block_tokens_) {
      const auto block = blocks_.find(path(root, tokens, end));
      if (block == blocks_.end()) break;
      found.push_back(&block->second);
    }
    return found;
  }

  // The tail that a look-up which found `found` blocks is told of; none has no tokens.
  Tail find_tail(uint32_t root, const std::vector<Token>& tokens, size_t found) const {
    if (!partial_tails_ || found == 0) return {};
    const Tail& tail = blocks_.at(path(root, tokens, found * block_tokens_)).tail;
    const std::vector<Token> rest(tokens.begin() + static_cast<std::ptrdiff_t>(found * block_tokens_), tokens.end());
    return begins_with(rest, tail.tokens) ? tail : Tail();
  }

  Held hold(uint32_t root, const std::vector<Token>& tokens, size_t blocks, bool tail) {
    Held held{path(root, tokens, blocks * block_tokens_), tail};
    if (blocks > 0) ++holders_[held.path];
    if (tail) ++blocks_.at(held.path).tail_holders;
    return held;
  }
  void release(const Held& held) {
    if (held.tail) --blocks_.at(held.path).tail_holders;
    const auto holders = holders_.find(held.path);
    if (holders != holders_.end() && --holders->second == 0) holders_.erase(holders);
  }

  // Stores `given` from block `first` on. The tail comes separately, after `held` was let go.
  InsertAcquired insert(uint32_t root, const std::vector<Token>& tokens, size_t first, const SequenceBlocks& given) {
    InsertAcquired acquired;
    for (size_t i = 0; i < given.blocks.size(); ++i) {
      const auto [stored, is_new] = blocks_.try_emplace(path(root, tokens, (first + i + 1) * block_tokens_),
                                                        Block{given.blocks[i], kNoBlock, {}});
      if (is_new) acquired.blocks.push_back(given.blocks[i]);
      if (stored->second.disk != kNoBlock || given.disk_block_ids.empty()) continue;
      stored->second.disk = given.disk_block_ids[i];
      if (stored->second.disk != kNoBlock) acquired.disk_block_ids.push_back(stored->second.disk);
    }
    return acquired;
  }

  // Whether the handle holds it then.
  bool insert_tail(const Path& parent, const Tail& given, InsertAcquired& acquired) {
    Block& block = blocks_.at(parent);
    Tail& tail = block.tail;
    if (tail.tokens == given.tokens) {
      if (tail.disk == kNoBlock && given.disk != kNoBlock) acquired.disk_block_ids.push_back(tail.disk = given.disk);
      return true;
    }
    if (begins_with(tail.tokens, given.tokens) || block.tail_holders > 0) return false;
    if (tail.block != kNoBlock) acquired.released_blocks.push_back(tail.block);
    if (tail.disk != kNoBlock) acquired.released_disk_block_ids.push_back(tail.disk);
    acquired.blocks.push_back(given.block);
    if (given.disk != kNoBlock) acquired.disk_block_ids.push_back(given.disk);
    tail = given;
    return true;
  }

  // Empty when the cache was right to give up these, in this order; `whole` becomes how many were no tails.
  std::string evicted(const EvictedBlocks& evicted, size_t& whole) {
    std::vector<uint32_t> disk;
    for (size_t i = 0; i < evicted.physical.size(); ++i, ++whole) {
      const bool has_tail = std::any_of(blocks_.begin(), blocks_.end(),
                                        [&](const auto& b) { return b.second.tail.block == evicted.physical[i]; });
      const uint32_t tail = has_tail ? evicted.physical[i++] : kNoBlock;
      if (i == evicted.physical.size()) return "gave up a tail without its block";
      const auto block = std::find_if(blocks_.begin(), blocks_.end(),
                                      [&](const auto& b) { return b.second.block == evicted.physical[i]; });
      if (block == blocks_.end()) return "gave up what is not stored";
      if (block->second.tail.block != tail) return "gave up a block without its own tail";
      if (is_continued(block)) return "gave up an interior block";
      if (is_held(block->first)) return "gave up a block that is held";
      for (const uint32_t id : {block->second.tail.disk, block->second.disk}) {
        if (id != kNoBlock) disk.push_back(id);
      }
      blocks_.erase(block);
    }
    return disk == evicted.disk_block_ids ? "" : "gave up other disk ids";
  }

  // After less was given up than was asked for: a handle may hold its whole run, so a leaf must be near one.
  bool nothing_more_to_evict() const {
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      if (!is_continued(block) && std::none_of(holders_.begin(), holders_.end(), [&](const auto& held) {
            return is_below(block->first, held.first) || is_below(held.first, block->first);
          })) {
        return false;
      }
    }
    return true;
  }

  size_t blocks_count() const { return blocks_.size(); }
  size_t tails_count() const {
    return static_cast<size_t>(
        std::count_if(blocks_.begin(), blocks_.end(), [](const auto& b) { return !b.second.tail.tokens.empty(); }));
  }

 private:
  static Path path(uint32_t root, const std::vector<Token>& tokens, size_t count) {
    return {root, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)}};
  }
  static bool begins_with(const std::vector<Token>& tokens, const std::vector<Token>& head) {
    return tokens.size() >= head.size() && std::equal(head.begin(), head.end(), tokens.begin());
  }
  static bool is_below(const Path& path, const Path& head) {
    return path.first == head.first && begins_with(path.second, head.second);
  }
  bool is_continued(std::map<Path, Block>::const_iterator block) const {
    const auto next = std::next(block);
    return next != blocks_.end() && is_below(next->first, block->first);
  }
  bool is_held(const Path& path) const {
    return std::any_of(holders_.begin(), holders_.end(), [&](const auto& held) { return is_below(held.first, path); });
  }

  const size_t block_tokens_;
  const bool partial_tails_;
  std::map<Path, Block> blocks_;
  std::map<Path, int> holders_;
};

}  // namespace rhizome
