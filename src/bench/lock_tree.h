// A baseline: a tree with one node a block and a reader-writer lock in every node, locked hand over hand, as
// KV-Cache Fabric has it. Children are found by the XXH3-64 of their tokens, which are then compared; every node on a
// path is referenced; idle leaves stand in an ordered set, the least recently used first.
//
// Written to be fast: hashes as fast as the processor has them, no lock for what an atomic does.
//
// Thread-safety: any thread. Locks are taken from the root down; `idle_mutex_` before any node's.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/contestant.h"
#include "bench/xxh3.h"
#include "concurrency/mutex.h"

namespace rhizome::bench {

template <uint32_t kBlock>
class LockTree {
  struct Node;

 public:
  static constexpr std::string_view kName = "lock_tree";
  static constexpr uint32_t kBlockTokens = kBlock;

  struct Handle {
    Node* node = nullptr;  // null: empty
    uint32_t depth = 0;
  };

  explicit LockTree(const Expected&) {}

  uint32_t lookup(std::span<const Token> tokens, std::span<Location> out, Handle& handle) NO_THREAD_SAFETY_ANALYSIS {
    const uint32_t blocks = static_cast<uint32_t>(tokens.size() / kBlock);
    const uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed);
    Node* node = &root_;
    uint32_t depth = 0;
    node->mutex.lock_shared();
    for (; depth < blocks; ++depth) {
      const Token* block = tokens.data() + size_t{depth} * kBlock;
      const auto found = node->children.find(key_of(block));
      if (found == node->children.end() || !std::equal(block, block + kBlock, found->second->tokens.begin())) break;
      Node* child = found->second.get();
      child->mutex.lock_shared();
      child->references.fetch_add(1, std::memory_order_relaxed);
      child->last_used.store(now, std::memory_order_relaxed);
      node->mutex.unlock_shared();
      out[depth] = child->location;
      node = child;
    }
    node->mutex.unlock_shared();
    handle = {node, depth};
    return depth;
  }

  uint32_t insert(std::span<const Token> tokens, std::span<const Location> locations,
                  Handle& handle) NO_THREAD_SAFETY_ANALYSIS {
    const uint32_t blocks = static_cast<uint32_t>(tokens.size() / kBlock);
    const uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed);
    uint32_t stored = 0;
    Node* node = handle.node;
    node->mutex.lock();
    for (uint32_t depth = handle.depth; depth < blocks; ++depth) {
      const Token* block = tokens.data() + size_t{depth} * kBlock;
      const uint64_t key = key_of(block);
      std::unique_ptr<Node>& place = node->children[key];
      if (!place) {
        place = std::make_unique<Node>(node, key, block, locations[depth]);
        ++stored;
      }
      Node* child = place.get();
      child->mutex.lock();
      child->references.fetch_add(1, std::memory_order_relaxed);
      child->last_used.store(now, std::memory_order_relaxed);
      node->mutex.unlock();
      node = child;
    }
    node->mutex.unlock();
    handle = {node, blocks};
    return stored;
  }

  void release(Handle& handle) {
    Node* node = std::exchange(handle, {}).node;
    if (node == nullptr || node == &root_) return;
    // The leaf last: it keeps those above from being evicted.
    for (Node* above = node->parent; above != &root_; above = above->parent)
      above->references.fetch_sub(1, std::memory_order_relaxed);
    const MutexLock idle_lock(idle_mutex_);
    const ReaderLock lock(node->mutex);
    if (node->references.fetch_sub(1, std::memory_order_acq_rel) == 1 && node->children.empty()) queue(node);
  }

  size_t evict(std::span<Location> out) NO_THREAD_SAFETY_ANALYSIS {
    const MutexLock idle_lock(idle_mutex_);
    size_t evicted = 0;
    while (evicted < out.size() && !idle_.empty()) {
      const auto [used, leaf] = *idle_.begin();
      idle_.erase(idle_.begin());
      leaf->queued = false;
      Node* parent = leaf->parent;
      const WriterLock parent_lock(parent->mutex);
      leaf->mutex.lock();
      const bool is_idle = leaf->references.load(std::memory_order_acquire) == 0 && leaf->children.empty();
      const uint64_t last_used = leaf->last_used.load(std::memory_order_relaxed);
      leaf->mutex.unlock();
      if (!is_idle) continue;  // its last release puts it in again
      if (last_used != used) {
        queue(leaf);
        continue;
      }
      out[evicted++] = leaf->location;
      parent->children.erase(leaf->key);
      if (parent != &root_ && parent->children.empty() && parent->references.load(std::memory_order_acquire) == 0)
        queue(parent);
    }
    return evicted;
  }

 private:
  // A node with 256 tokens in it would be too large for what malloc hands out quickly.
  static constexpr bool kTokensInNode = kBlock <= 64;

  struct KeyItself {
    size_t operator()(uint64_t key) const { return key; }
  };

  struct Node {
    Node() = default;
    Node(Node* above, uint64_t key_of_tokens, const Token* block, Location where)
        : parent(above), key(key_of_tokens), location(where) {
      if constexpr (kTokensInNode) {
        std::copy_n(block, kBlock, tokens.begin());
      } else {
        tokens.assign(block, block + kBlock);
      }
    }

    SharedMutex mutex;
    std::unordered_map<uint64_t, std::unique_ptr<Node>, KeyItself> children;
    Node* parent = nullptr;
    uint64_t key = 0;
    std::atomic<uint64_t> last_used = 0;
    std::atomic<uint32_t> references = 0;
    Location location = 0;
    bool queued = false;  // stands in `idle_`, once; guarded as that is
    std::conditional_t<kTokensInNode, std::array<Token, kBlock>, std::vector<Token>> tokens;  // of the root: none
  };

  static uint64_t key_of(const Token* block) { return xxh3_64(block, kBlock * sizeof(Token)); }

  // Only for a leaf that nobody pins.
  void queue(Node* leaf) REQUIRES(idle_mutex_) {
    if (std::exchange(leaf->queued, true)) return;
    idle_.insert({leaf->last_used.load(std::memory_order_relaxed), leaf});
  }

  Node root_;
  std::atomic<uint64_t> clock_ = 1;
  Mutex idle_mutex_;
  std::set<std::pair<uint64_t, Node*>> idle_ GUARDED_BY(idle_mutex_);  // by last use when they were put in
};

}  // namespace rhizome::bench
