// For tests of the store and of what stands on it: keyspaces, prompts, and a user of a store who writes
// and expects the oracle's bytes (block/oracle.h).
#pragma once

#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "block/keyspace.h"
#include "block/oracle.h"
#include "codec/block_geometry.h"
#include "slab/test_access.h"
#include "store/store.h"
#include "telemetry/counters.h"

namespace rhizome {

inline KeyspaceBuilder complete_keyspace() {
  KeyspaceBuilder builder;
  builder.set(KeyspaceTag::kEngine, "engine").set(KeyspaceTag::kWeights, "weights").set(KeyspaceTag::kLayout, "layout");
  builder.set(KeyspaceTag::kMemoryClass, "dense").set(KeyspaceTag::kRope, "rope");
  builder.set(KeyspaceTag::kAttention, "causal");
  return builder;
}

inline Keyspace keyspace_named(std::string_view tenant) {
  return *complete_keyspace().set(KeyspaceTag::kTenant, tenant).seal();
}

// One block for each number: blocks of different numbers differ in their last token alone.
inline std::vector<Token> blocks_of(std::initializer_list<Token> numbers, uint32_t block_tokens = 16) {
  std::vector<Token> tokens;
  for (const Token number : numbers) {
    tokens.insert(tokens.end(), block_tokens - 1, 7);
    tokens.push_back(number);
  }
  return tokens;
}

inline BlockGeometry block_of(uint64_t payload_bytes, uint32_t block_tokens = 16) {
  return BlockGeometry::opaque(static_cast<uint16_t>(block_tokens), static_cast<uint32_t>(payload_bytes));
}

class StoreTestAccess {
 public:
  // Turns one bit of a committed slot, as a fault of the memory would.
  static void flip(Store& store, Location location, size_t byte) { writable(store, location)[byte] ^= std::byte{1}; }
  static std::vector<std::byte> slot(Store& store, Location location) {
    const auto bytes = writable(store, location);
    return {bytes.begin(), bytes.end()};
  }
  static void trim(Store& store) { store.slab_->trim(); }
  static BlockTable& table(Store& store) { return store.table_; }
  // A block that the tier has leaves memory; false: none may.
  static bool demote_one(Store& store) {
    const bool any = store.demotion_.demote(1, 1 << 20) > 0;
    // As whoever demotes in the store does.
    store.publish_used();
    return any;
  }

 private:
  static std::span<std::byte> writable(Store& store, Location location) {
    const auto pinned = store.table_.pin(location);
    if (!pinned) return {};
    store.table_.unpin(pinned->ref);
    return SlabTestAccess::writable(*store.slab_, pinned->slot);
  }
};

class StoreUser {
 public:
  explicit StoreUser(uint64_t memory_bytes, uint32_t block_tokens = 16)
      : StoreUser(StoreOptions{.memory_bytes = memory_bytes, .block_tokens = block_tokens}) {}
  explicit StoreUser(StoreOptions options)
      : counters(Counters::local()), store(std::move(*Store::create(std::move(options), *counters))) {}

  Root open(const Keyspace& keyspace, uint64_t payload_bytes = 3000) {
    return open(keyspace, block_of(payload_bytes, store->block_tokens()));
  }

  Root open(const Keyspace& keyspace, const BlockGeometry& geometry) {
    const Result<Root> root = store->open(keyspace, geometry);
    EXPECT_TRUE(root);
    if (!root) return {};
    // A store may know some already, in any order.
    if (root->value > digests_.size()) digests_.resize(root->value);
    digests_[root->value - 1] = keyspace.digest();
    return *root;
  }

  void fill(const BlockDraft& draft, Root root, std::span<const Token> tokens) const {
    for (size_t i = 0; i < draft.blocks_count(); ++i) {
      const size_t end = (draft.first_block() + i + 1) * store->block_tokens();
      fill_oracle(draft.payload(i), digest(root), tokens.first(end));
    }
  }

  // The same from bytes that lie elsewhere, and that change when they have been copied.
  void fill_next(BlockDraft& draft, Root root, std::span<const Token> tokens, size_t blocks) const {
    for (size_t i = 0; i < blocks; ++i) {
      std::vector<std::byte> from(draft.payload(i).size());
      fill_oracle(from, digest(root), tokens.first((draft.first_block() + i + 1) * store->block_tokens()));
      draft.fill_next(from);
    }
  }

  // Stores what is missing of the whole blocks; returns how many blocks that were.
  size_t put(Root root, std::span<const Token> tokens) {
    tokens = tokens.first(tokens.size() / store->block_tokens() * store->block_tokens());
    Result<BlockDraft> draft = store->reserve(root, tokens, 0);
    if (!draft) return 0;
    fill(*draft, root, tokens);
    return store->commit(std::move(*draft));
  }

  // Looks up and reads all that is found; returns how many blocks verified and are the oracle's.
  size_t get(Root root, std::span<const Token> prompt) {
    StoredPrefix prefix;
    store->lookup(root, prompt, prefix);
    const size_t read = read_all(root, prefix, prompt);
    reason = prefix.reason();
    return read;
  }

  StoredPrefix look_up(Root root, std::span<const Token> prompt) {
    StoredPrefix prefix;
    store->lookup(root, prompt, prefix);
    return prefix;
  }

  size_t read_all(Root root, StoredPrefix& prefix, std::span<const Token> prompt) {
    const size_t block_tokens = store->block_tokens();
    const uint32_t end = store->promote(prefix, prompt, 0, prefix.blocks());
    for (uint32_t i = 0; i < end; ++i) {
      const auto bytes = store->read(prefix, prompt, i);
      if (!bytes) return i;
      EXPECT_TRUE(oracle_matches(*bytes, digest(root), prompt.first((i + 1) * block_tokens)));
    }
    return end;
  }

  uint64_t count(Counter counter) const { return counters->get(counter); }
  const Digest& digest(Root root) const { return digests_[root.value - 1]; }

  // What must hold whenever nothing is in anybody's hands.
  void expect_at_rest() {
    const SlabUsage slab = store->slab_usage();
    const IndexUsage index = store->index_usage();
    EXPECT_EQ(index.removed_blocks, 0u);
    EXPECT_EQ(slab.reserved_slots + slab.doomed_slots, 0u);
    EXPECT_EQ(slab.pinned_bytes, 0u);
    EXPECT_EQ(store->around_blocks(), 0u);
    EXPECT_EQ(store->lent_bytes(), 0u);
    const BlockCounts blocks = store->block_counts();
    EXPECT_EQ(blocks.resident + blocks.below, index.blocks);
    EXPECT_EQ(blocks.pinned, 0u);
    EXPECT_EQ(slab.committed_slots, blocks.resident);
    EXPECT_EQ(count(Counter::kBlocksStored), blocks.resident);
    EXPECT_EQ(count(Counter::kMemoryPinned), 0u);
    EXPECT_EQ(count(Counter::kMemoryUsed), slab.used_bytes);
    EXPECT_LE(slab.used_bytes, slab.budget_bytes);
  }

  // And nothing is left once everything is forgotten.
  void expect_drains() {
    store->clear();
    expect_at_rest();
    EXPECT_EQ(store->index_usage().blocks, 0u);
    EXPECT_EQ(store->slab_usage().stored_bytes, 0u);
    EXPECT_EQ(store->slab_usage().chunks, 0u);
  }

  const std::unique_ptr<Counters> counters;
  const std::unique_ptr<Store> store;
  Reason reason = Reason::kFull;

 private:
  std::vector<Digest> digests_;
};

}  // namespace rhizome
