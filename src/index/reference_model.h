// For tests: what the index promises, as plainly as it can be said, in one thread and without speed.
// Each block is an entry of a map under its whole path of tokens. What the index may choose (which run a
// handle keeps beside its own blocks) is checked as a bound, everything else exactly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "index/index.h"

namespace rhizome {

class ReferenceModel {
 public:
  explicit ReferenceModel(uint32_t block_tokens) : block_tokens_(block_tokens) {}

  // Locations of the longest stored prefix.
  std::vector<Location> find(uint32_t root, std::span<const Token> tokens) const {
    std::vector<Location> found;
    for (size_t end = block_tokens_; end <= tokens.size(); end += block_tokens_) {
      const auto block = blocks_.find(path(root, tokens.first(end)));
      if (block == blocks_.end()) break;
      found.push_back(block->second);
    }
    return found;
  }

  // Whether `reason` and the token it names may be said of a look-up that found `found` blocks. Which of several
  // continuations is looked at is the index's choice, and it need not remember what was evicted.
  bool reason_is_right(uint32_t root, std::span<const Token> tokens, size_t found, Reason reason, uint64_t at) const {
    const size_t covered = found * block_tokens_;
    if (covered == tokens.size()) return reason == Reason::kFull && at == covered;
    if (tokens.size() - covered < block_tokens_) return reason == Reason::kPartialBlock && at == covered;
    if (reason == Reason::kEvicted) return ever_.count(path(root, tokens.first(covered + block_tokens_))) > 0;
    if (reason == Reason::kNeverStored) return at == covered;
    if (reason != Reason::kDiverged || found == 0) return false;
    for (const auto& [other, location] : blocks_) {
      if (other.first != root || other.second.size() != covered + block_tokens_) continue;
      if (!std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(covered), other.second.begin())) {
        continue;
      }
      size_t equal = covered;
      while (tokens[equal] == other.second[equal])
        ++equal;
      if (equal == at) return true;
    }
    return false;
  }

  // Stores what is not stored, and returns the locations of [first, first + locations.size()).
  // Empty: a block before `first` is missing.
  std::vector<Location> insert(uint32_t root, std::span<const Token> tokens, uint32_t first,
                               std::span<const Location> locations) {
    if (find(root, tokens).size() < first) return {};
    std::vector<Location> canonical;
    for (size_t i = 0; i < locations.size(); ++i) {
      const size_t end = (first + i + 1) * block_tokens_;
      ever_.insert(path(root, tokens.first(end)));
      canonical.push_back(blocks_.emplace(path(root, tokens.first(end)), locations[i]).first->second);
    }
    return canonical;
  }

  // A handle on the first `depth` blocks.
  uint64_t hold(uint32_t root, std::span<const Token> tokens, size_t depth) {
    Held held{path(root, tokens.first(depth * block_tokens_)), find(root, tokens)};
    held.locations.resize(depth);
    held_.emplace(++last_held_, std::move(held));
    return last_held_;
  }
  void release(uint64_t id) { held_.erase(id); }
  bool nothing_held() const { return held_.empty(); }

  // Empty when the index was right to evict `location`; else what was wrong.
  std::string evicted(Location location) {
    const auto block =
        std::find_if(blocks_.begin(), blocks_.end(), [&](const auto& b) { return b.second == location; });
    if (block == blocks_.end()) return "evicted what is not stored";
    if (is_continued(block)) return "evicted an interior block";
    if (is_covered(location)) return "evicted a block that is held";
    blocks_.erase(block);
    return {};
  }

  // After evict() returned less than was asked: every leaf must be near a handle.
  std::string nothing_more_to_evict() const {
    for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
      if (is_continued(block)) continue;
      const bool near = std::any_of(held_.begin(), held_.end(), [&](const auto& held) {
        return !held.second.path.second.empty() &&
               (begins_with(block->first, held.second.path) || begins_with(held.second.path, block->first));
      });
      if (!near) return "a leaf that nobody holds was not evicted";
    }
    return {};
  }

  // Removes block `first` of a held prefix and what continues it, unless that was done already.
  size_t remove(uint64_t id, uint32_t first) {
    const Held& held = held_.at(id);
    const std::span<const Token> tokens(held.path.second);
    const Path gone = path(held.path.first, tokens.first((first + 1) * block_tokens_));
    const auto stored = blocks_.find(gone);
    if (stored == blocks_.end() || stored->second != held.locations[first]) return 0;
    size_t count = 0;
    for (auto block = stored; block != blocks_.end() && begins_with(block->first, gone); ++count) {
      removed_.insert(block->second);
      block = blocks_.erase(block);
    }
    return count;
  }

  std::string reaped(Location location) {
    if (removed_.erase(location) == 0) return "reaped what was not removed";
    return is_covered(location) ? "reaped a block that is held" : "";
  }

  size_t blocks_count() const { return blocks_.size(); }
  size_t removed_count() const { return removed_.size(); }
  // Distinct blocks that handles cover: the least that the index may call held.
  size_t covered_count(uint32_t root) const {
    std::set<Location> covered;
    for (const auto& [id, held] : held_) {
      if (held.path.first == root) covered.insert(held.locations.begin(), held.locations.end());
    }
    return covered.size();
  }

 private:
  using Path = std::pair<uint32_t, std::vector<Token>>;
  struct Held {
    Path path;
    std::vector<Location> locations;
  };

  static Path path(uint32_t root, std::span<const Token> tokens) { return {root, {tokens.begin(), tokens.end()}}; }
  static bool begins_with(const Path& path, const Path& head) {
    return path.first == head.first && path.second.size() >= head.second.size() &&
           std::equal(head.second.begin(), head.second.end(), path.second.begin());
  }
  // A path's continuations follow it directly in the map's order.
  bool is_continued(std::map<Path, Location>::const_iterator block) const {
    const auto next = std::next(block);
    return next != blocks_.end() && begins_with(next->first, block->first);
  }
  bool is_covered(Location location) const {
    return std::any_of(held_.begin(), held_.end(), [&](const auto& held) {
      return std::count(held.second.locations.begin(), held.second.locations.end(), location) > 0;
    });
  }

  const uint32_t block_tokens_;
  std::map<Path, Location> blocks_;
  std::set<Path> ever_;  // stored at any time
  std::map<uint64_t, Held> held_;
  std::set<Location> removed_;
  uint64_t last_held_ = 0;
};

}  // namespace rhizome
