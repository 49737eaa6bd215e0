// What a tier says it has from before, and what of it is believed.
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "store/forwarding_tier_fixture.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

class RecoveringTier final : public ForwardingTier {
 public:
  RecoveringTier() : ForwardingTier(std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 64 << 20})) {}

  void for_each_recovered(const Digest& keyspace, const std::function<void(const RecoveredBlock&)>& take) override {
    asked_for = keyspace;
    for (size_t i = 0; i < blocks.size(); ++i) {
      RecoveredBlock block = blocks[i];
      block.tokens = tokens[i];
      take(block);
    }
  }
  void forget_recovered(const Digest& keyspace) override { forgotten.push_back(keyspace); }
  void bound_recovered(uint64_t bytes_max) override { bound = bytes_max; }
  // Returns the block's key.
  BlockKey add(const BlockKey& parent, uint32_t position, const std::vector<Token>& of) {
    const BlockKey key = next_key(parent, of);
    blocks.push_back({.key = key, .parent = parent, .position = position, .image_bytes = 100});
    tokens.push_back(of);
    return key;
  }

  std::vector<RecoveredBlock> blocks;
  std::vector<std::vector<Token>> tokens;
  Digest asked_for{};
  std::vector<Digest> forgotten;
  uint64_t bound = UINT64_MAX;
};

class StoreRecover : public testing::Test {
 protected:
  StoreRecover() {
    auto made = std::make_unique<RecoveringTier>();
    tier_ = made.get();
    user_ = std::make_unique<StoreUser>(
        StoreOptions{.memory_bytes = 4 << 20, .tier = std::move(made), .tiering = {.background = false}});
  }
  Root open() { return user_->open(keyspace_); }
  uint32_t peek(Root root, std::initializer_list<Token> numbers) {
    return user_->store->peek(root, blocks_of(numbers));
  }

  const Keyspace keyspace_ = keyspace_named("a");
  const BlockKey root_ = root_key(keyspace_.digest());
  RecoveringTier* tier_ = nullptr;  // the user's store owns it
  std::unique_ptr<StoreUser> user_;
};

TEST_F(StoreRecover, PathsThatShareAHead) {
  const BlockKey first = tier_->add(root_, 0, blocks_of({1}));
  const BlockKey second = tier_->add(first, 16, blocks_of({2}));
  tier_->add(second, 32, blocks_of({3}));
  tier_->add(second, 32, blocks_of({4}));
  tier_->add(first, 16, blocks_of({5}));
  const Root root = open();
  EXPECT_EQ(tier_->asked_for, keyspace_.digest());
  EXPECT_EQ(peek(root, {1, 2, 3}), 3u);
  EXPECT_EQ(peek(root, {1, 2, 4}), 3u);
  EXPECT_EQ(peek(root, {1, 5}), 2u);
  EXPECT_EQ(peek(root, {2}), 0u);
  EXPECT_EQ(user_->store->block_counts().below, 5u);
  // The tier has none of them after all: a miss, and then they are not promised again.
  EXPECT_EQ(user_->get(root, blocks_of({1, 2, 3})), 0u);
  EXPECT_EQ(peek(root, {1, 2, 4}), 0u);
  user_->expect_at_rest();
  EXPECT_EQ(user_->put(root, blocks_of({1, 2, 3})), 3u);
  EXPECT_EQ(user_->get(root, blocks_of({1, 2, 3})), 3u);
}

// What nobody opens is paid for out of the same share of memory as what is described because it was opened.
TEST_F(StoreRecover, WhatNobodyOpensIsBounded) {
  const uint64_t bound = tier_->bound;
  EXPECT_GT(bound, 0u);
  EXPECT_LE(bound, uint64_t{4} << 20 >> 4) << "a sixteenth of memory";
  BlockKey last = root_;
  for (uint32_t i = 0; i < 20; ++i)
    last = tier_->add(last, i * 16, blocks_of({i}));
  open();
  EXPECT_EQ(tier_->forgotten, std::vector<Digest>{keyspace_.digest()}) << "it is in the index now";
  EXPECT_EQ(user_->store->block_counts().below, 20u);
  const uint64_t described = bound - tier_->bound;
  EXPECT_EQ(described % 20, 0u);
  EXPECT_GT(described / 20, BlockTable::block_bytes());
}

TEST_F(StoreRecover, OnlyUnderTheKeyThatParentAndTokensMake) {
  const BlockKey first = tier_->add(root_, 0, blocks_of({1}));
  tier_->add(first, 16, blocks_of({2}));
  tier_->tokens[1] = blocks_of({3});  // under the key of another one
  const BlockKey lying = tier_->add(root_, 0, blocks_of({7}));
  tier_->tokens[2] = blocks_of({8});
  tier_->add(lying, 16, blocks_of({9}));
  const Root root = open();
  EXPECT_EQ(peek(root, {1, 2}), 1u);
  EXPECT_EQ(peek(root, {1, 3}), 1u);
  EXPECT_EQ(peek(root, {8, 9}), 0u);
  EXPECT_EQ(peek(root, {7, 9}), 0u);
  EXPECT_EQ(user_->store->block_counts().below, 1u);
  user_->expect_at_rest();
}

TEST_F(StoreRecover, NoOrphansNoTwinsNoOtherLengths) {
  tier_->add(next_key(root_, blocks_of({1})), 16, blocks_of({2}));
  const BlockKey first = tier_->add(root_, 0, blocks_of({3}));
  tier_->add(root_, 0, blocks_of({3}));
  tier_->add(root_, 16, blocks_of({4}));  // not where it says
  std::vector<Token> longer = blocks_of({5});
  longer.push_back(1);
  tier_->add(first, 16, longer);
  tier_->add(first, 16, {});
  const Root root = open();
  EXPECT_EQ(peek(root, {3, 5}), 1u);
  EXPECT_EQ(peek(root, {2}), 0u);
  EXPECT_EQ(peek(root, {4}), 0u);
  EXPECT_EQ(user_->store->block_counts().below, 1u);
  user_->expect_at_rest();
}

}  // namespace
}  // namespace rhizome
