// A store that takes over the memory of another one, which was cut off.
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "store/kept_fixture.h"
#include "store/store_fixture.h"
#include "store/store_tier_fixture.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class StoreAdopt : public testing::Test {
 protected:
  StoreAdopt() { set_log_level(LogLevel::kSilent); }

  StoreOptions options(uint64_t memory_bytes) {
    return {.memory_bytes = memory_bytes, .remote_readers = &readers_, .keeper = &keeper_};
  }
  // The next life of a store; the one before is cut off, with what is in its hands.
  std::unique_ptr<StoreUser> next(uint64_t memory_bytes = 16 * kMiB) {
    StoreOptions chosen = options(memory_bytes);
    chosen.kept = keeper_.next_life();
    return std::make_unique<StoreUser>(std::move(chosen));
  }
  static void expect_chunks_are_given_back(StoreUser& user) {
    for (int i = 0; user.store->move_adopted(kMiB); ++i)
      ASSERT_LT(i, 1000);
    EXPECT_EQ(user.store->slab_usage().adopted_chunks, 0u);
  }

  NoReaders readers_;
  TestKeeper keeper_;
  const Keyspace keyspace_ = keyspace_named("a");
  const Keyspace other_ = keyspace_named("b");
};

TEST_F(StoreAdopt, WhatWasCommittedIsWarm) {
  auto former = std::make_unique<StoreUser>(options(16 * kMiB));
  const Root root = former->open(keyspace_);
  const Root small = former->open(other_, 777);
  const auto prompt = chain(1, 200);
  const auto branch = [&] {
    auto tokens = chain(1, 100);
    const auto rest = chain(5000, 30);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    return tokens;
  }();
  EXPECT_EQ(former->put(root, prompt), 200u);
  EXPECT_EQ(former->put(root, branch), 30u);
  EXPECT_EQ(former->put(small, prompt), 200u);
  const BlockDraft half_written = std::move(*former->store->reserve(root, chain(9000, 20), 0));
  auto user = next();
  EXPECT_EQ(user->store->adoption().offered_blocks, 430u);
  EXPECT_EQ(user->store->adoption().warm_blocks, 430u);
  EXPECT_EQ(user->store->slab_usage().reserved_slots, 0u) << "what was half written is gone";
  // It is known before anybody opens it, and opening it again changes nothing.
  EXPECT_EQ(user->store->index_usage().blocks, 430u);
  const Root again = user->open(keyspace_);
  const Root small_again = user->open(other_, 777);
  EXPECT_EQ(user->get(again, prompt), 200u);
  EXPECT_EQ(user->get(again, branch), 130u);
  EXPECT_EQ(user->get(small_again, prompt), 200u);
  EXPECT_EQ(user->get(again, chain(9000, 20)), 0u);
  EXPECT_EQ(user->put(again, chain(9000, 20)), 20u);
  user->expect_at_rest();
  expect_chunks_are_given_back(*user);
  EXPECT_EQ(user->get(again, branch), 130u);
  EXPECT_EQ(user->get(again, prompt), 200u);
  EXPECT_EQ(user->get(small_again, prompt), 200u);
  user->expect_at_rest();
  user->store->clear();
  user->expect_at_rest();
  EXPECT_EQ(user->store->slab_usage().stored_bytes, 0u);
}

// The next process may be cut off before the keeper was told to drop what came from the one before.
TEST_F(StoreAdopt, SeveralLives) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  auto user = std::make_unique<StoreUser>(options(16 * kMiB));
  uint64_t blocks = 0;
  std::vector<std::unique_ptr<StoreUser>> former;
  std::vector<Token> starts;
  for (int life = 0; life < 8; ++life) {
    const Root root = user->open(keyspace_);
    for (const Token start : starts)
      EXPECT_EQ(user->get(root, chain(start, 40)), 40u);
    starts.push_back(static_cast<Token>(1000 * (life + 1)));
    blocks += user->put(root, chain(starts.back(), 40));
    if (random() % 2 == 0) keeper_.drop_former();
    if (random() % 2 == 0) user->store->move_adopted(random() % (kMiB / 2));
    user->expect_at_rest();
    former.push_back(std::move(user));
    user = next();
    EXPECT_EQ(user->store->adoption().warm_blocks, blocks);
    EXPECT_GE(user->store->adoption().offered_blocks, blocks) << "what had moved is in two places";
    EXPECT_EQ(user->store->index_usage().blocks, blocks);
  }
  keeper_.drop_former();
  user->open(keyspace_);
  expect_chunks_are_given_back(*user);
  EXPECT_EQ(user->store->index_usage().blocks, blocks);
  user->store->clear();
  user->expect_at_rest();
}

TEST_F(StoreAdopt, WhatDoesNotVerifyIsGoneWithAllThatContinuesIt) {
  auto former = std::make_unique<StoreUser>(options(16 * kMiB));
  const Root root = former->open(keyspace_);
  const auto prompt = chain(1, 40);
  former->put(root, prompt);
  {
    const StoredPrefix prefix = former->look_up(root, prompt);
    StoreTestAccess::flip(*former->store, prefix.locations()[10], 1000);  // its payload
    StoreTestAccess::flip(*former->store, prefix.locations()[25], 3);     // its identity
  }
  auto user = next();
  EXPECT_EQ(user->store->adoption().offered_blocks, 40u);
  EXPECT_EQ(user->store->adoption().warm_blocks, 10u);
  const Root again = user->open(keyspace_);
  EXPECT_EQ(user->get(again, prompt), 10u);
  user->expect_at_rest();
  EXPECT_EQ(user->store->slab_usage().stored_bytes, 10 * *user->store->slot_bytes(again));
}

TEST_F(StoreAdopt, AnotherBlockSizeStartsCold) {
  auto former = std::make_unique<StoreUser>(options(16 * kMiB));
  former->put(former->open(keyspace_), chain(1, 40));
  StoreOptions chosen = options(16 * kMiB);
  chosen.block_tokens = 32;
  chosen.kept = keeper_.next_life();
  StoreUser user(std::move(chosen));
  EXPECT_EQ(user.store->adoption().warm_blocks, 0u);
  EXPECT_EQ(user.store->slab_usage().chunks, 0u);
}

// Full from the first moment: what is stored finds room, the budget holds, and nothing is copied more than once.
TEST_F(StoreAdopt, AFullStoreGoesOnWithoutAPause) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  constexpr uint64_t kBudget = 16 * kMiB;
  auto former = std::make_unique<StoreUser>(options(kBudget));
  Root root = former->open(keyspace_);
  while (former->count(Counter::kEvictions) < 500)
    former->put(root, chain(static_cast<Token>(random() % 4'000'000'000), 20));
  const uint64_t blocks = former->store->index_usage().blocks;
  auto user = next(kBudget);
  root = user->open(keyspace_);
  EXPECT_LE(user->store->adoption().offered_blocks, blocks);
  EXPECT_EQ(user->store->adoption().warm_blocks, blocks) << "the former store has left room for a chunk";
  const auto hot = chain(4'100'000'000, 30);
  EXPECT_EQ(user->put(root, hot), 30u);
  for (int round = 0; round < 2000; ++round) {
    const auto prompt = chain(static_cast<Token>(random() % 4'000'000'000), 20);
    EXPECT_EQ(user->put(root, prompt), 20u) << round;
    EXPECT_EQ(user->get(root, prompt), 20u);
    EXPECT_EQ(user->get(root, hot), 30u);
    if (random() % 50 == 0) user->store->move_adopted(100'000);
    const SlabUsage usage = user->store->slab_usage();
    ASSERT_LE(usage.used_bytes, usage.budget_bytes);
  }
  EXPECT_EQ(user->store->slab_usage().adopted_chunks, 0u) << "all of it had to make room";
  EXPECT_GT(user->store->index_usage().blocks + blocks / 20, blocks);
  user->expect_at_rest();
  keeper_.drop_former();
  EXPECT_EQ(keeper_.count(KeptKind::kChunk), user->store->slab_usage().chunks);
}

// A smaller budget than before: what fits is warm.
TEST_F(StoreAdopt, ASmallerBudget) {
  auto former = std::make_unique<StoreUser>(options(16 * kMiB));
  Root root = former->open(keyspace_);
  for (Token start = 0; start < 100; ++start)
    former->put(root, chain(start * 1000, 40));
  auto user = next(6 * kMiB);
  EXPECT_GT(user->store->adoption().warm_blocks, 100u);
  EXPECT_LT(user->store->adoption().warm_blocks, user->store->adoption().offered_blocks);
  user->expect_at_rest();
  EXPECT_EQ(user->put(user->open(keyspace_), chain(9'000'000, 40)), 40u);
}

// Memory that says anything: what is taken is right, and nothing breaks.
TEST_F(StoreAdopt, MemoryFullOfGarbage) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 30; ++round) {
    std::vector<KeptMemory> kept;
    std::vector<Mapping> own;
    for (const KeptKind kind : {KeptKind::kChunk, KeptKind::kDirectory, KeptKind::kKeyspaces}) {
      own.push_back(
          std::move(*Mapping::shareable(kind == KeptKind::kDirectory ? BlockDirectory::kSegmentBytes : 65536)));
      const std::span<std::byte> bytes = own.back().bytes();
      for (size_t i = 0; i < bytes.size() / (round + 1); ++i)
        bytes[i] = static_cast<std::byte>(random() % (round % 2 == 0 ? 256 : 2));
      Descriptor again(::fcntl(own.back().descriptor(), F_DUPFD_CLOEXEC, 0));
      kept.push_back({kind, 1, 0, std::move(*Mapping::adopt_shared(std::move(again), bytes.size()))});
    }
    StoreOptions chosen = options(4 * kMiB);
    chosen.kept = std::move(kept);
    StoreUser user(std::move(chosen));
    EXPECT_EQ(user.store->adoption().warm_blocks, 0u);
    user.expect_at_rest();
  }
}

}  // namespace
}  // namespace rhizome
