// A baseline: one hash map for all blocks, under the XXH3-128 of the key before and the block's own tokens, as engines
// chain their block hashes, and one reader-writer lock for all of it. Every block on a path is referenced; idle leaves
// stand in a map by their last use. Tokens are not compared: the key is trusted.
//
// Thread-safety: any thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/contestant.h"
#include "bench/xxh3.h"
#include "concurrency/mutex.h"

namespace rhizome::bench {

// The key of a block behind `before`: XXH3-128 of that key and the tokens.
template <uint32_t kBlock>
XXH128_hash_t chained_key(XXH128_hash_t before, const Token* block) {
  std::array<std::byte, sizeof(before) + kBlock * sizeof(Token)> bytes;
  std::memcpy(bytes.data(), &before, sizeof(before));
  std::memcpy(bytes.data() + sizeof(before), block, kBlock * sizeof(Token));
  return xxh3_128(bytes.data(), bytes.size());
}

template <uint32_t kBlock>
class HashMap {
  struct Entry;

 public:
  static constexpr std::string_view kName = "hash_map";
  static constexpr uint32_t kBlockTokens = kBlock;

  struct Handle {
    Entry* entry = nullptr;  // null: no blocks
    uint32_t depth = 0;
  };

  explicit HashMap(const Expected& expected) { entries_.reserve(expected.blocks); }

  uint32_t lookup(std::span<const Token> tokens, std::span<Location> out, Handle& handle) {
    const uint32_t blocks = static_cast<uint32_t>(tokens.size() / kBlock);
    XXH128_hash_t key = kRootKey;
    Entry* last = nullptr;
    uint32_t depth = 0;
    const ReaderLock lock(mutex_);
    const uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed);
    for (; depth < blocks; ++depth) {
      key = chained_key<kBlock>(key, tokens.data() + size_t{depth} * kBlock);
      const auto found = entries_.find(key);
      if (found == entries_.end()) break;
      last = &found->second;
      last->references.fetch_add(1, std::memory_order_relaxed);
      last->last_used.store(now, std::memory_order_relaxed);
      out[depth] = last->location;
    }
    handle = {last, depth};
    return depth;
  }

  uint32_t insert(std::span<const Token> tokens, std::span<const Location> locations, Handle& handle) {
    const uint32_t blocks = static_cast<uint32_t>(tokens.size() / kBlock);
    Entry* before = handle.entry;
    XXH128_hash_t key = before == nullptr ? kRootKey : before->key;
    uint32_t stored = 0;
    const WriterLock lock(mutex_);
    const uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed);
    for (uint32_t depth = handle.depth; depth < blocks; ++depth) {
      key = chained_key<kBlock>(key, tokens.data() + size_t{depth} * kBlock);
      const auto [found, is_new] = entries_.try_emplace(key);
      Entry& entry = found->second;
      if (is_new) {
        entry.key = key;
        entry.before = before;
        entry.location = locations[depth];
        if (before != nullptr) ++before->continued;
        ++stored;
      }
      entry.references.fetch_add(1, std::memory_order_relaxed);
      entry.last_used.store(now, std::memory_order_relaxed);
      before = &entry;
    }
    handle = {before, blocks};
    return stored;
  }

  void release(Handle& handle) {
    Entry* leaf = std::exchange(handle, {}).entry;
    if (leaf == nullptr) return;
    const ReaderLock lock(mutex_);  // nothing is evicted meanwhile
    for (Entry* entry = leaf->before; entry != nullptr; entry = entry->before)
      entry->references.fetch_sub(1, std::memory_order_relaxed);
    if (leaf->references.fetch_sub(1, std::memory_order_relaxed) != 1 || leaf->continued > 0) return;
    const MutexLock idle_lock(idle_mutex_);
    queue(leaf);
  }

  size_t evict(std::span<Location> out) {
    const WriterLock lock(mutex_);
    const MutexLock idle_lock(idle_mutex_);
    size_t evicted = 0;
    while (evicted < out.size() && !idle_.empty()) {
      const auto oldest = idle_.begin();
      if (oldest->second.empty()) {
        idle_.erase(oldest);
        continue;
      }
      Entry* entry = oldest->second.back();
      oldest->second.pop_back();
      entry->queued = false;
      if (entry->references.load(std::memory_order_relaxed) > 0 || entry->continued > 0) continue;
      if (entry->last_used.load(std::memory_order_relaxed) != oldest->first) {
        queue(entry);
        continue;
      }
      out[evicted++] = entry->location;
      Entry* before = entry->before;
      const XXH128_hash_t key = entry->key;
      entries_.erase(key);
      if (before != nullptr && --before->continued == 0 && before->references.load(std::memory_order_relaxed) == 0)
        queue(before);
    }
    return evicted;
  }

 private:
  static constexpr XXH128_hash_t kRootKey = {1, 42};

  struct KeyHash {
    size_t operator()(const XXH128_hash_t& key) const { return key.low64; }
  };
  struct KeyEqual {
    bool operator()(const XXH128_hash_t& a, const XXH128_hash_t& b) const {
      return a.low64 == b.low64 && a.high64 == b.high64;
    }
  };

  struct Entry {
    XXH128_hash_t key = {};
    Entry* before = nullptr;
    std::atomic<uint64_t> last_used = 0;
    std::atomic<uint32_t> references = 0;
    uint32_t continued = 0;  // by so many blocks
    Location location = 0;
    bool queued = false;  // stands in `idle_`, once
  };

  // Only for a leaf that nobody pins.
  void queue(Entry* entry) REQUIRES(idle_mutex_) {
    if (std::exchange(entry->queued, true)) return;
    idle_[entry->last_used.load(std::memory_order_relaxed)].push_back(entry);
  }

  SharedMutex mutex_;
  std::unordered_map<XXH128_hash_t, Entry, KeyHash, KeyEqual> entries_ GUARDED_BY(mutex_);
  std::atomic<uint64_t> clock_ = 1;
  Mutex idle_mutex_;
  std::map<uint64_t, std::vector<Entry*>> idle_ GUARDED_BY(idle_mutex_);  // by last use when they were put in
};

}  // namespace rhizome::bench
