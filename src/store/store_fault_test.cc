// Wrong KV must never come out: each way to ask for it, beside the way that must work.
#include <gtest/gtest.h>

#include "store/store.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;

// W2
TEST(StoreFault, TheSameBlockBehindAnotherPrefixIsAnotherBlock) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  user.put(a, blocks_of({1, 7}));
  EXPECT_EQ(user.get(a, blocks_of({2, 7})), 0u);
  EXPECT_EQ(user.get(a, blocks_of({7})), 0u);
  EXPECT_EQ(user.get(a, blocks_of({1, 7})), 2u);
  user.put(a, blocks_of({2, 7}));
  EXPECT_EQ(user.get(a, blocks_of({2, 7})), 2u);
  EXPECT_EQ(user.get(a, blocks_of({1, 7})), 2u);
}

TEST(StoreFault, KeyspacesThatDifferInOneFieldShareNothing) {
  StoreUser user(4 * kMiB);
  const std::vector<Token> tokens = blocks_of({1, 2});
  const Keyspace base = *complete_keyspace().seal();
  const Root root = user.open(base);
  user.put(root, tokens);
  for (const KeyspaceTag tag : {KeyspaceTag::kWeights, KeyspaceTag::kLayout, KeyspaceTag::kRope, KeyspaceTag::kTenant,
                                KeyspaceTag::kSalt, KeyspaceTag::kAdapters, KeyspaceTag::kEpoch, KeyspaceTag::kMedia,
                                KeyspaceTag::kNumerics, KeyspaceTag::kRotation}) {
    const Root other = user.open(*complete_keyspace().set(tag, "other").seal());
    EXPECT_EQ(user.get(other, tokens), 0u) << keyspace_tag_name(tag);
    EXPECT_EQ(user.put(other, tokens), 2u) << keyspace_tag_name(tag);
    EXPECT_EQ(user.get(other, tokens), 2u) << keyspace_tag_name(tag);
  }
  EXPECT_EQ(user.get(root, tokens), 2u);
}

// W9, the part that is about blocks: an engine that needs one token more takes it off itself.
TEST(StoreFault, OnlyWholeBlocksAreFound) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  user.put(a, tokens);
  const struct {
    size_t prompt;
    size_t blocks;
    Reason reason;
  } cases[] = {{0, 0, Reason::kFull},          {1, 0, Reason::kPartialBlock},  {15, 0, Reason::kPartialBlock},
               {16, 1, Reason::kFull},         {31, 1, Reason::kPartialBlock}, {32, 2, Reason::kFull},
               {47, 2, Reason::kPartialBlock}, {48, 3, Reason::kFull}};
  for (const auto& tested : cases) {
    EXPECT_EQ(user.get(a, std::span(tokens).first(tested.prompt)), tested.blocks) << tested.prompt;
    EXPECT_EQ(user.reason, tested.reason) << tested.prompt;
  }
}

// W10: two who fork in the middle of a block share the blocks before it, and write none together.
TEST(StoreFault, AForkInsideABlockSharesOnlyWhatIsBefore) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  std::vector<Token> first = blocks_of({1, 2});
  std::vector<Token> second = first;
  second[22] = 99;
  EXPECT_EQ(user.put(a, first), 2u);
  EXPECT_EQ(user.put(a, second), 1u);
  EXPECT_EQ(user.get(a, first), 2u);
  EXPECT_EQ(user.get(a, second), 2u);
  second[23] = 98;
  EXPECT_EQ(user.get(a, second), 1u);
  EXPECT_EQ(user.reason, Reason::kDiverged);
}

struct Damage {
  const char* name;
  size_t byte;  // within the slot of the block in the middle
};

class StoreDamage : public testing::TestWithParam<Damage> {};

TEST_P(StoreDamage, IsFoundAndQuarantinedWithAllThatContinuesIt) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const Root b = user.open(keyspace_named("b"));
  const std::vector<Token> damaged = blocks_of({1, 2, 3, 4});
  const std::vector<Token> sibling = blocks_of({1, 2, 9});
  const std::vector<Token> beside = blocks_of({1, 8});
  for (const Root root : {a, b}) {
    for (const auto& tokens : {damaged, sibling, beside})
      user.put(root, tokens);
  }
  StoredPrefix match = user.look_up(a, damaged);
  ASSERT_EQ(match.blocks(), 4u);
  StoreTestAccess::flip(*user.store, match.locations()[1], GetParam().byte);
  StoredPrefix other = user.look_up(a, beside);
  match.release();

  EXPECT_EQ(user.get(a, damaged), 1u);
  EXPECT_EQ(user.count(Counter::kChecksumFailures), 1u);
  EXPECT_EQ(user.count(Counter::kQuarantines), 4u);  // 2, 3, 4 and the sibling's 9
  EXPECT_EQ(user.store->peek(a, damaged), 1u);
  EXPECT_EQ(user.store->peek(a, sibling), 1u);
  EXPECT_EQ(user.read_all(a, other, beside), 2u);
  other.release();
  for (const auto& tokens : {damaged, sibling, beside})
    EXPECT_EQ(user.get(b, tokens), tokens.size() / 16);
  user.expect_at_rest();
  // Computed and stored again, it is found again.
  EXPECT_EQ(user.put(a, damaged), 3u);
  EXPECT_EQ(user.get(a, damaged), 4u);
  EXPECT_EQ(user.count(Counter::kChecksumFailures), 1u);
  user.expect_drains();
}

INSTANTIATE_TEST_SUITE_P(All, StoreDamage,
                         testing::Values(Damage{"keyspace", 0}, Damage{"parent", 40}, Damage{"tokens", 75},
                                         Damage{"payload", 1000}, Damage{"last_byte", 3000 + 191}),
                         [](const auto& tested) { return tested.param.name; });

// Two readers stand on a damaged block: both are told, it is forgotten once, and freed with the last of them.
TEST(StoreFault, DamageFoundTwiceIsQuarantinedOnce) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  user.put(a, tokens);
  StoredPrefix first = user.look_up(a, tokens);
  StoredPrefix second = user.look_up(a, tokens);
  StoreTestAccess::flip(*user.store, first.locations()[0], 500);
  EXPECT_EQ(user.read_all(a, first, tokens), 0u);
  EXPECT_EQ(user.put(a, tokens), 3u);
  EXPECT_EQ(user.read_all(a, second, tokens), 0u);
  EXPECT_EQ(user.count(Counter::kChecksumFailures), 2u);
  EXPECT_EQ(user.count(Counter::kQuarantines), 3u);
  EXPECT_EQ(user.get(a, tokens), 3u) << "what was stored again was taken for what was damaged";
  EXPECT_EQ(user.store->index_usage().removed_blocks, 3u);
  first.release();
  EXPECT_EQ(user.store->index_usage().removed_blocks, 3u);
  second.release();
  user.expect_at_rest();
  user.expect_drains();
}

// The identity is compared with what was asked for, not with what the index thinks.
TEST(StoreFault, BytesOfAnotherPromptAreNotHandedOut) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2});
  user.put(a, tokens);
  StoredPrefix match = user.look_up(a, tokens);
  EXPECT_EQ(user.read_all(a, match, tokens), 2u);
  EXPECT_EQ(user.read_all(a, match, blocks_of({1, 3})), 1u);
  EXPECT_EQ(user.count(Counter::kIdentityMismatches), 1u);
  EXPECT_EQ(user.count(Counter::kQuarantines), 1u);
  match.release();
  EXPECT_EQ(user.get(a, tokens), 1u);
  user.expect_drains();
}

// A damaged block before a draft: what the draft continues is gone, so it is dropped.
TEST(StoreFault, ADraftBehindAQuarantinedBlockIsDropped) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2});
  const std::vector<Token> longer = blocks_of({1, 2, 3});
  user.put(a, tokens);
  Result<BlockDraft> draft = user.store->reserve(a, longer, 2);
  ASSERT_TRUE(draft);
  user.fill(*draft, a, longer);
  StoreTestAccess::flip(*user.store, user.look_up(a, tokens).locations()[1], 300);
  EXPECT_EQ(user.get(a, tokens), 1u);
  EXPECT_EQ(user.store->commit(std::move(*draft)), 0u);
  EXPECT_EQ(user.get(a, longer), 1u);
  user.expect_at_rest();
}

// The parent key that a draft begins with is read from the block before; damage there must not spread.
TEST(StoreFault, DamageBeforeADraftDoesNotReachItsKeys) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  user.put(a, blocks_of({1, 2}));
  const Location location = user.look_up(a, blocks_of({1, 2})).locations()[1];
  StoreTestAccess::flip(*user.store, location, 75);
  EXPECT_EQ(user.put(a, blocks_of({1, 2, 3})), 1u);
  StoreTestAccess::flip(*user.store, location, 75);
  EXPECT_EQ(user.get(a, blocks_of({1, 2, 3})), 3u);
}

}  // namespace
}  // namespace rhizome
