// Blocks between memory and a tier: what moves when, and what is found of it.
#include <vector>

#include <gtest/gtest.h>

#include "slab/block_copy.h"
#include "store/forwarding_tier_fixture.h"
#include "store/store_tier_fixture.h"

namespace rhizome {
namespace {

TEST(StoreTier, WhatLeftMemoryComesBack) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 8);
  EXPECT_EQ(user.put(a, tokens), 8u);
  user.write_all();
  EXPECT_EQ(user.count(Counter::kBlocksWritten), 8u);
  EXPECT_EQ(user.store->block_counts().copies, 8u);
  user.push_out();
  EXPECT_EQ(user.store->block_counts().resident, 0u);
  EXPECT_EQ(user.store->slab_usage().stored_bytes, 0u);
  EXPECT_EQ(user.store->peek(a, tokens), 8u) << "a look-up finds it wherever it is";
  EXPECT_EQ(user.get(a, tokens), 8u);
  EXPECT_EQ(user.count(Counter::kPromotions), 8u);
  EXPECT_EQ(user.store->block_counts().resident, 8u);
  EXPECT_EQ(user.get(a, tokens), 8u);
  EXPECT_EQ(user.count(Counter::kPromotions), 8u) << "loaded once";
  user.expect_at_rest();
}

// A store that is far too small for what is stored in it loses nothing while the tier has room.
TEST(StoreTier, MemoryPressureCostsALoadAndNotTheBlock) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"), 24 << 10);
  for (Token i = 0; i < 30; ++i) {
    ASSERT_EQ(user.put(a, chain(1000 * i, 8)), 8u);
    user.write_all();
    ASSERT_LE(user.store->slab_usage().used_bytes, uint64_t{4} << 20);
  }
  for (Token i = 0; i < 30; ++i)
    EXPECT_EQ(user.get(a, chain(1000 * i, 8)), 8u) << i;
  EXPECT_GT(user.count(Counter::kDemotions), 60u);
  EXPECT_EQ(user.count(Counter::kEvictions), 0u);
  user.settle();
  user.expect_at_rest();
}

TEST(StoreTier, WrittenWhenUsedAgainOrAfterASecond) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  user.put(a, chain(1, 2));
  user.put(a, chain(50, 2));
  user.settle();
  EXPECT_EQ(user.count(Counter::kBlocksWritten), 0u);
  EXPECT_EQ(user.get(a, chain(1, 2)), 2u);
  user.settle();
  EXPECT_EQ(user.count(Counter::kBlocksWritten), 2u) << "used again";
  user.clock.advance_ns(kSecondNs - 1);
  user.settle();
  EXPECT_EQ(user.count(Counter::kBlocksWritten), 2u);
  user.clock.advance_ns(1);
  user.settle();
  EXPECT_EQ(user.count(Counter::kBlocksWritten), 4u) << "a second old";
}

TEST(StoreTier, FlushWritesWithoutWaitingForTheSecond) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  user.put(a, chain(1, 5));
  user.store->flush(user.clock.monotonic_ns() + kSecondNs);
  EXPECT_EQ(user.count(Counter::kBlocksWritten), 5u);
}

// Somebody reads the block while it is being written for a demotion: it stays.
TEST(StoreTier, ADemotionGivesWayToAReader) {
  TieredUser user({.tiering = {.watermarks = {.high = 0, .low = 0}}});
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 1);
  user.put(a, tokens);
  EXPECT_TRUE(user.store->step());  // asks whether the tier has it
  EXPECT_TRUE(user.store->step());  // writes it
  StoredPrefix reader = user.look_up(a, tokens);
  const auto bytes = user.store->read(reader, tokens, 0);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(user.store->step());  // it is written
  EXPECT_EQ(user.count(Counter::kBlocksWritten), 1u);
  EXPECT_EQ(user.count(Counter::kDemotionsAborted), 1u);
  EXPECT_EQ(user.count(Counter::kDemotions), 0u);
  EXPECT_TRUE(oracle_matches(*bytes, user.digest(a), tokens));
  reader.release();
  user.settle();
  EXPECT_EQ(user.count(Counter::kDemotions), 1u) << "and leaves when the reader is gone";
  EXPECT_EQ(user.get(a, tokens), 1u);
}

// As clear(): what the tier has stays there, and nobody finds it.
TEST(StoreTier, AKeyspaceIsClearedOfWhatIsBelow) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const Root b = user.open(keyspace_named("b"));
  user.put(a, chain(1, 4));
  user.put(b, chain(1, 4));
  user.settle();
  user.store->flush(user.clock.monotonic_ns() + kSecondNs);
  user.settle();
  ASSERT_EQ(user.store->block_counts().copies, 8u);
  while (StoreTestAccess::demote_one(*user.store)) {
  }
  EXPECT_EQ(user.store->keyspace_usages()[0].blocks.below, 4u);
  EXPECT_EQ(user.store->clear(a), 4u);
  EXPECT_EQ(user.store->keyspace_usages()[0].blocks.copies, 0u);
  EXPECT_EQ(user.get(a, chain(1, 4)), 0u);
  EXPECT_EQ(user.get(b, chain(1, 4)), 4u);
  EXPECT_EQ(user.put(a, chain(1, 4)), 4u);
}

// The block was forgotten and its number given to another one while it was being written: the other one stays.
TEST(StoreTier, ADemotionNoticesThatTheBlockIsAnother) {
  TieredUser user({.tiering = {.watermarks = {.high = 0, .low = 0}}});
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 1);
  const std::vector<Token> other = chain(7, 1);
  user.put(a, tokens);
  const Location location = user.look_up(a, tokens).locations()[0];
  EXPECT_TRUE(user.store->step());
  EXPECT_TRUE(user.store->step());
  EXPECT_EQ(user.store->clear(), 1u);
  user.put(a, other);
  ASSERT_EQ(user.look_up(a, other).locations()[0], location) << "the number was not used again: the test shows nothing";
  user.faults->set_faults({.fail = 1});  // nothing else is written
  EXPECT_TRUE(user.store->step());
  EXPECT_EQ(user.count(Counter::kDemotionsAborted), 1u);
  EXPECT_EQ(user.count(Counter::kDemotions), 0u);
  EXPECT_EQ(user.table().state(location), BlockState::kResident);
  EXPECT_EQ(user.table().image_bytes(location), 0u) << "the other block was taken for written";
  EXPECT_EQ(user.get(a, other), 1u);
}

// E7 and T2: what the tier has dropped is not promised any more, nor is what continues it.
TEST(StoreTier, WhatTheTierForgetsIsFoundNoMore) {
  TieredUser user({.tier_bytes = 60 << 10});
  const Root a = user.open(keyspace_named("a"));
  user.put_below(a, chain(1, 8));
  EXPECT_EQ(user.store->peek(a, chain(1, 8)), 8u);
  // Some 18 images fit; the oldest of the first chain have to go.
  user.put(a, chain(100, 14));
  user.write_all();
  const uint32_t left = user.store->peek(a, chain(1, 8));
  EXPECT_LT(left, 8u);
  EXPECT_EQ(user.get(a, chain(1, 8)), left);
  EXPECT_EQ(user.count(Counter::kLoadsFailed), 0u);
  EXPECT_EQ(user.get(a, chain(100, 14)), 14u) << "memory has it still";
  user.settle();
  user.expect_at_rest();
}

TEST(StoreTier, ALoadThatFailsEndsThePrefixAndNothingElse) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 6);
  user.put_below(a, tokens);
  user.faults->set_faults({.fail = 1});
  EXPECT_EQ(user.get(a, tokens), 0u);
  EXPECT_EQ(user.reason, Reason::kLoadFailed);
  EXPECT_EQ(user.count(Counter::kLoadsFailed), 6u) << "one attempt for each block of the request";
  EXPECT_EQ(user.store->peek(a, tokens), 6u) << "a tier that failed once may have it all the same";
  user.faults->set_faults({});
  EXPECT_EQ(user.get(a, tokens), 6u);
  user.expect_at_rest();
}

TEST(StoreTier, ALoadThatIsLateIsGivenUp) {
  TieredUser user({.tiering = {.load_wait_ns = kSecondNs}});
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 3);
  user.put_below(a, tokens);
  StoredPrefix prefix = user.look_up(a, tokens);
  EXPECT_EQ(user.store->promote(prefix, tokens, 0, 3), 3u);
  user.clock.advance_ns(2 * kSecondNs);
  const auto bytes = user.store->read(prefix, tokens, 0);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::kUnavailable);
  EXPECT_EQ(prefix.blocks(), 0u);
  prefix.release();
  user.settle();
  EXPECT_EQ(user.get(a, tokens), 3u);
  user.expect_at_rest();
}

// Nothing that a tier does to its bytes reaches a reader.
TEST(StoreTier, FlippedAndTornImagesAreMisses) {
  TieredUser user({.memory_bytes = 8 << 20});
  const Root a = user.open(keyspace_named("a"));
  for (Token i = 0; i < 50; ++i)
    user.put(a, chain(100 * i, 4));
  user.faults->set_faults({.tear = 0.3});
  user.write_all();
  user.push_out();
  user.faults->set_faults({.flip = 0.3});
  size_t found = 0;
  for (Token i = 0; i < 50; ++i)
    found += user.get(a, chain(100 * i, 4));  // compares with the oracle
  EXPECT_GT(found, 20u);
  EXPECT_LT(found, 180u);
  EXPECT_GT(user.count(Counter::kIdentityMismatchesTier), 10u);
  EXPECT_GT(user.faults->counts().flipped, 5u);
  EXPECT_GT(user.faults->counts().torn, 5u);
  user.faults->set_faults({});
  // Computed again, all is well again.
  for (Token i = 0; i < 50; ++i)
    user.put(a, chain(100 * i, 4));
  for (Token i = 0; i < 50; ++i)
    EXPECT_EQ(user.get(a, chain(100 * i, 4)), 4u);
  user.settle();
  user.expect_at_rest();
}

// A tier that takes reads and never answers them.
class StuckTier final : public ForwardingTier {
 public:
  using ForwardingTier::ForwardingTier;
  size_t collect(std::span<TierCompletion> out, uint64_t wait_ns) override {
    return is_stuck ? 0 : ForwardingTier::collect(out, wait_ns);
  }
  bool is_stuck = false;
};

// T8: the first request waits its time; those after it do not.
TEST(StoreTier, ATierThatDoesNotAnswerIsWaitedForOnce) {
  ManualClock clock(kSecondNs);
  auto made = std::make_unique<StuckTier>(std::make_unique<MemoryTier>(MemoryTierOptions{.clock = &clock}));
  StuckTier& tier = *made;
  StoreUser user(StoreOptions{.memory_bytes = 4 << 20,
                              .tier = std::move(made),
                              .tiering = {.load_wait_ns = kSecondNs, .background = false, .clock = &clock}});
  const Root a = user.open(keyspace_named("a"));
  for (Token i = 0; i < 20; ++i)
    user.put(a, chain(100 * i, 3));
  user.store->flush(clock.monotonic_ns() + kSecondNs);
  while (StoreTestAccess::demote_one(*user.store)) {
  }
  tier.is_stuck = true;
  const std::vector<Token> tokens = chain(0, 3);
  StoredPrefix first = user.look_up(a, tokens);
  EXPECT_EQ(user.store->promote(first, tokens, 0, 3), 3u);
  clock.advance_ns(2 * kSecondNs);
  EXPECT_EQ(user.store->read(first, tokens, 0).error().code, Code::kUnavailable);
  first.release();
  for (int i = 0; i < 3; ++i)
    user.store->observe_compute(48, 0, 0.05);  // the request computed what did not come
  for (Token i = 0; i < 20; ++i) {
    const std::vector<Token> other = chain(100 * i, 3);
    StoredPrefix prefix = user.look_up(a, other);
    EXPECT_EQ(user.store->promote(prefix, other, 0, 3), 0u) << i;
  }
  EXPECT_EQ(user.count(Counter::kDecisionsCompute), 20u);
  // It answers again, and is tried now and then.
  tier.is_stuck = false;
  while (user.store->step()) {
  }
  size_t found = 0;
  for (int i = 0; i < 64 && found == 0; ++i)
    found = user.get(a, tokens);
  EXPECT_EQ(found, 3u);
}

// Two readers, one load: whoever comes second waits for the first one's.
TEST(StoreTier, OneFlightForABlock) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 4);
  user.put_below(a, tokens);
  StoredPrefix first = user.look_up(a, tokens);
  StoredPrefix second = user.look_up(a, tokens);
  EXPECT_EQ(user.store->promote(first, tokens, 0, 4), 4u);
  EXPECT_EQ(user.store->promote(second, tokens, 0, 4), 4u);
  EXPECT_EQ(user.read_all(a, second, tokens), 4u);
  EXPECT_EQ(user.read_all(a, first, tokens), 4u);
  EXPECT_EQ(user.count(Counter::kPromotions), 4u);
}

// Asking twice for what is on its way, or for what did not arrive, leaves nothing behind.
TEST(StoreTier, AskedForTwiceIsHeldOnce) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 4);
  user.put_below(a, tokens);
  StoredPrefix prefix = user.look_up(a, tokens);
  EXPECT_EQ(user.store->promote(prefix, tokens, 0, 2), 2u);
  EXPECT_EQ(user.store->promote(prefix, tokens, 0, 4), 4u);
  EXPECT_EQ(user.read_all(a, prefix, tokens), 4u);
  prefix.release();
  EXPECT_EQ(user.store->block_counts().pinned, 0u);
  user.push_out();
  EXPECT_EQ(user.store->block_counts().resident, 0u) << "nobody reads it any more";
  user.faults->set_faults({.fail = 1});
  StoredPrefix failing = user.look_up(a, tokens);
  EXPECT_EQ(user.store->promote(failing, tokens, 0, 4), 4u);
  user.settle();
  user.faults->set_faults({});
  EXPECT_EQ(user.store->promote(failing, tokens, 0, 4), 4u);
  EXPECT_EQ(user.read_all(a, failing, tokens), 4u);
  failing.release();
  user.expect_at_rest();
}

// An object whose content was moved to another one knows nothing of it.
TEST(StoreTier, AMovedPrefixBeginsAnew) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> first = chain(1, 4);
  const std::vector<Token> second = chain(50, 4);
  user.put(a, first);
  user.put(a, second);
  user.write_all();
  user.push_out();
  StoredPrefix prefix = user.look_up(a, first);
  EXPECT_EQ(user.read_all(a, prefix, first), 4u);
  const StoredPrefix kept = std::move(prefix);
  user.store->lookup(a, second, prefix);
  EXPECT_EQ(prefix.loaded_blocks(), 0u);
  EXPECT_EQ(user.store->promote(prefix, second, 3, 4), 4u);
  EXPECT_TRUE(user.store->read(prefix, second, 3));
  EXPECT_EQ(user.count(Counter::kQuarantines), 0u);
}

// E8: when all memory is in somebody's hands, nothing is thrown away for nothing.
TEST(StoreTier, WhenAllIsPinnedNothingIsLostBelow) {
  TieredUser user({.memory_bytes = 3 << 20});
  const Root a = user.open(keyspace_named("a"), 24 << 10);
  user.put_below(a, chain(1, 20));
  std::vector<Token> tokens = chain(1000, 200);
  const size_t stored = user.put(a, tokens);
  ASSERT_GT(stored, 20u);
  tokens.resize(stored * 16);
  StoredPrefix held = user.look_up(a, tokens);
  EXPECT_EQ(user.read_all(a, held, tokens), stored);
  size_t refused = 0;
  for (Token i = 0; i < 30; ++i)
    refused += user.put(a, chain(5000 + i, 1)) == 0 ? 1 : 0;
  EXPECT_GT(refused, 0u) << "it was not full: the test shows nothing";
  EXPECT_EQ(user.store->peek(a, chain(1, 20)), 20u);
  held.release();
  EXPECT_EQ(user.get(a, chain(1, 20)), 20u);
  user.settle();
  user.expect_at_rest();
}

TEST(StoreTier, ExclusiveBlocksAreInOnePlace) {
  TieredUser user({.tiering = {.is_inclusive = false}});
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 4);
  user.put(a, tokens);
  user.store->flush(user.clock.monotonic_ns() + kSecondNs);
  user.push_out();
  EXPECT_EQ(user.get(a, tokens), 4u);
  user.settle();
  EXPECT_EQ(user.store->block_counts().copies, 0u);
  EXPECT_EQ(user.faults->usage().images, 0u);
  user.write_all();
  EXPECT_EQ(user.faults->usage().images, 0u) << "written only to leave";
  user.store->flush(user.clock.monotonic_ns() + kSecondNs);
  user.push_out();
  EXPECT_EQ(user.faults->usage().images, 4u);
  EXPECT_EQ(user.get(a, tokens), 4u);
}

TEST(StoreTier, WatermarksOfKvCacheFabric) {
  TieredUser user({.memory_bytes = 4 << 20, .tiering = {.watermarks = {.high = 90, .low = 70}}});
  const Root a = user.open(keyspace_named("a"), 24 << 10);
  uint64_t resident_most = 0;
  for (Token next = 0; user.count(Counter::kDemotions) == 0; next += 10) {
    ASSERT_LT(next, 2000u);
    resident_most = user.store->block_counts().resident;
    ASSERT_EQ(user.put(a, chain(next, 1)), 1u);
    user.write_all();
  }
  const double left = static_cast<double>(user.store->block_counts().resident) / static_cast<double>(resident_most);
  EXPECT_NEAR(left, 70.0 / 90, 0.04);
  EXPECT_EQ(user.count(Counter::kEvictions), 0u);
}

// Eight blocks that are in the tier alone, from where they took two seconds of the test's clock a first time; an engine
// that computes them in `compute_seconds`.
void learn_slow_loads(TieredUser& user, Root root, std::span<const Token> tokens, double compute_seconds) {
  user.put_below(root, tokens);
  StoredPrefix prefix = user.look_up(root, tokens);
  EXPECT_EQ(user.store->promote(prefix, tokens, 0, 8), 8u);
  user.clock.advance_ns(2 * kSecondNs);
  user.settle();
  EXPECT_EQ(user.read_all(root, prefix, tokens), 8u);
  prefix.release();
  for (int i = 0; i < 10; ++i)
    user.store->observe_compute(128, 0, compute_seconds);
  user.push_out();
}

// A tier that is slower than computing is left alone; computing is what the engine reported.
TEST(StoreTier, AThrottledTierIsNotWaitedFor) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 8);
  learn_slow_loads(user, a, tokens, 0.01);
  EXPECT_EQ(user.get(a, tokens), 0u);
  EXPECT_EQ(user.reason, Reason::kLoadFailed);
  EXPECT_EQ(user.count(Counter::kDecisionsCompute), 1u);
  EXPECT_EQ(user.count(Counter::kPromotions), 8u);
  // And the twin: an engine that needs ten seconds is better off with the two.
  TieredUser slow_engine;
  const Root b = slow_engine.open(keyspace_named("a"));
  learn_slow_loads(slow_engine, b, tokens, 10);
  EXPECT_EQ(slow_engine.get(b, tokens), 8u);
  EXPECT_EQ(slow_engine.count(Counter::kPromotions), 16u);
}

// Else nothing would be written to it, and so nothing loaded, ever again.
TEST(StoreTier, ATierThatWasSlowIsTriedAgain) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> old_tokens = chain(1, 8);
  const std::vector<Token> new_tokens = chain(1000, 8);
  learn_slow_loads(user, a, old_tokens, 0.01);
  const uint64_t written = user.count(Counter::kBlocksWritten);
  user.put(a, new_tokens);
  user.write_all();
  EXPECT_EQ(user.count(Counter::kBlocksWritten), written) << "it is not worth it";
  user.clock.advance_ns(600 * kSecondNs);
  EXPECT_EQ(user.get(a, old_tokens), 8u);
  user.clock.advance_ns(600 * kSecondNs);
  user.put(a, chain(2000, 8));
  user.write_all();
  EXPECT_EQ(user.count(Counter::kBlocksWritten), written + 8) << "and so it is known how fast it is now";
}

// A tier in whose collect() somebody copies blocks on the reader's way.
class CopyingTier final : public ForwardingTier {
 public:
  using ForwardingTier::ForwardingTier;
  size_t collect(std::span<TierCompletion> out, uint64_t wait_ns) override {
    if (copies) copy_block_bytes(to_, from_);
    return ForwardingTier::collect(out, wait_ns);
  }
  bool copies = false;

 private:
  std::vector<std::byte> from_ = std::vector<std::byte>(1000);
  std::vector<std::byte> to_ = std::vector<std::byte>(1000);
};

TEST(StoreTier, ACopyForAHitIsCounted) {
  ManualClock clock(kSecondNs);
  auto made = std::make_unique<CopyingTier>(std::make_unique<MemoryTier>(MemoryTierOptions{.clock = &clock}));
  CopyingTier& tier = *made;
  StoreUser user(StoreOptions{
      .memory_bytes = 4 << 20, .tier = std::move(made), .tiering = {.background = false, .clock = &clock}});
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 3);
  user.put(a, tokens);
  user.store->flush(clock.monotonic_ns() + kSecondNs);
  EXPECT_EQ(user.get(a, tokens), 3u);
  EXPECT_EQ(user.count(Counter::kHitCopiedBytes), 0u) << "hits in memory";
  while (StoreTestAccess::demote_one(*user.store)) {
  }
  tier.copies = true;
  EXPECT_EQ(user.get(a, tokens), 3u);
  EXPECT_GE(user.count(Counter::kHitCopiedBytes), 1000u);
}

// Bytes that went bad in memory are not carried into the tier.
TEST(StoreTier, WhatRottedInMemoryIsNotWritten) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = chain(1, 2);
  user.put(a, tokens);
  StoreTestAccess::flip(*user.store, user.look_up(a, tokens).locations()[1], 700);
  user.write_all();
  EXPECT_EQ(user.count(Counter::kBlocksWritten), 1u);
  EXPECT_EQ(user.get(a, tokens), 1u);
  EXPECT_EQ(user.count(Counter::kChecksumFailures), 1u);
}

TEST(StoreTier, ABudgetBoundsWhatIsWritten) {
  TieredUser user(
      {.memory_bytes = 32 << 20, .tiering = {.admission = {.bytes_per_second = 100 << 10, .bucket_seconds = 1}}});
  const Root a = user.open(keyspace_named("a"), 24 << 10);
  for (Token i = 0; i < 60; ++i)
    user.put(a, chain(100 * i, 4));
  uint64_t seconds = 1;
  for (; seconds < 20; ++seconds) {
    user.clock.advance_ns(kSecondNs);
    user.settle();
    EXPECT_LE(user.count(Counter::kBytesWrittenTier), (seconds + 2) * (100 << 10));
  }
  EXPECT_GT(user.count(Counter::kBytesWrittenTier), 15u * (100 << 10)) << "and it is used";
}

}  // namespace
}  // namespace rhizome
