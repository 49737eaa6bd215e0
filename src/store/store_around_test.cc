// Blocks that are stored while all of memory is in somebody's hands: they go straight into the tier.
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "store/forwarding_tier_fixture.h"
#include "store/store_tier_fixture.h"

namespace rhizome {
namespace {

constexpr uint64_t kPayload = 24 << 10;
// Of the 1 MiB of I/O buffers half is lent at most, 64 KiB each.
constexpr size_t kBuffers = 8;

class StoreAround : public testing::Test {
 protected:
  // Of which nothing is written by itself, so that all that the tier has went there around memory.
  static TieredOptions options() { return {.memory_bytes = 3 << 20, .tiering = {.is_inclusive = false}}; }

  void fill_memory() {
    held_ = user_.pin_all(a_, chain(10000, 300));
    ASSERT_GT(held_.blocks(), 20u);
    ASSERT_EQ(user_.store->block_counts().pinned, held_.blocks());
  }
  void let_go() { held_.release(); }
  // All that is held is still the oracle's.
  void expect_held() {
    std::vector<Token> tokens = chain(10000, 300);
    tokens.resize(size_t{held_.blocks()} * 16);
    EXPECT_EQ(user_.read_all(a_, held_, tokens), held_.blocks());
  }
  void expect_rest() {
    let_go();
    user_.settle();
    user_.expect_at_rest();
  }

  TieredUser user_{options()};
  const Root a_ = user_.open(keyspace_named("a"), kPayload);
  StoredPrefix held_;
};

TEST_F(StoreAround, WhatMemoryHasNoPlaceForIsFoundBelow) {
  fill_memory();
  const std::vector<Token> tokens = chain(1, 5);
  const uint64_t used = user_.store->slab_usage().used_bytes;
  EXPECT_EQ(user_.put(a_, tokens), 0u) << "not yet";
  EXPECT_EQ(user_.store->peek(a_, tokens), 0u) << "before the tier has it, it is not promised";
  EXPECT_EQ(user_.store->around_blocks(), 5u);
  user_.settle();
  EXPECT_EQ(user_.store->peek(a_, tokens), 5u);
  EXPECT_EQ(user_.count(Counter::kBlocksWrittenAround), 5u);
  EXPECT_EQ(user_.store->around_blocks(), 0u);
  EXPECT_EQ(user_.store->lent_bytes(), 0u);
  EXPECT_EQ(user_.count(Counter::kEvictions), 0u);
  StoredPrefix found = user_.look_up(a_, tokens);
  for (const Location location : found.locations())
    EXPECT_EQ(user_.table().state(location), BlockState::kBelow);
  EXPECT_EQ(user_.store->slab_usage().used_bytes, used);
  expect_held();
  found.release();
  let_go();
  EXPECT_EQ(user_.get(a_, tokens), 5u);
  EXPECT_EQ(user_.count(Counter::kPromotions), 5u);
  expect_rest();
}

TEST_F(StoreAround, OnlyWhenTheBuffersAreGoneTooItIsRefused) {
  fill_memory();
  std::vector<BlockDraft> drafts;
  for (Token i = 0; i < 20; ++i) {
    Result<BlockDraft> draft = user_.store->reserve(a_, chain(100 * i, 1), 0);
    if (!draft) {
      EXPECT_EQ(draft.error().code, Code::kResourceExhausted);
      break;
    }
    EXPECT_EQ(draft->slots_count(), 0u);
    user_.fill(*draft, a_, chain(100 * i, 1));
    drafts.push_back(std::move(*draft));
  }
  EXPECT_EQ(drafts.size(), kBuffers);
  EXPECT_EQ(user_.store->lent_bytes(), uint64_t{512} << 10);
  drafts.clear();
  EXPECT_EQ(user_.store->lent_bytes(), 0u) << "dropped without a commit";
  Result<BlockDraft> draft = user_.store->reserve(a_, chain(1, 20), 0);
  ASSERT_TRUE(draft);
  EXPECT_EQ(draft->blocks_count(), kBuffers) << "fewer than asked for";
  user_.fill(*draft, a_, chain(1, 20));
  user_.store->commit(std::move(*draft));
  user_.settle();
  EXPECT_EQ(user_.store->peek(a_, chain(1, 20)), kBuffers);
  expect_rest();
}

// Some in slots and the rest in buffers, all filled from elsewhere.
TEST_F(StoreAround, BlocksThatAreFilledFromElsewhere) {
  fill_memory();
  const size_t places = held_.blocks();
  let_go();
  user_.store->clear();
  const std::vector<Token> tokens = chain(1, places + 4);
  Result<BlockDraft> draft = user_.store->reserve(a_, tokens, 0);
  ASSERT_TRUE(draft);
  ASSERT_EQ(draft->slots_count(), places);
  ASSERT_EQ(draft->blocks_count(), places + 4);
  user_.fill_next(*draft, a_, tokens, places + 4);
  EXPECT_EQ(user_.store->commit(std::move(*draft)), places);
  user_.settle();
  EXPECT_EQ(user_.store->peek(a_, tokens), places + 4);
  user_.store->flush(user_.clock.monotonic_ns() + kSecondNs);
  user_.push_out();
  StoredPrefix found = user_.look_up(a_, tokens);
  const auto end = static_cast<uint32_t>(places + 4);
  EXPECT_EQ(user_.store->promote(found, tokens, end - 8, end), end);
  for (uint32_t i = end - 8; i < end; ++i) {
    const auto bytes = user_.store->read(found, tokens, i);
    ASSERT_TRUE(bytes);
    EXPECT_TRUE(oracle_matches(*bytes, user_.digest(a_), std::span(tokens).first((i + 1) * 16)));
  }
  found.release();
  expect_rest();
}

// A draft may be kept for long: loads still find buffers.
TEST_F(StoreAround, LoadsDoNotStarve) {
  user_.put(a_, chain(1, 8));
  user_.store->flush(user_.clock.monotonic_ns() + kSecondNs);
  user_.push_out();
  fill_memory();
  Result<BlockDraft> draft = user_.store->reserve(a_, chain(500, 20), 0);
  ASSERT_TRUE(draft);
  EXPECT_EQ(draft->blocks_count(), kBuffers);
  let_go();
  EXPECT_EQ(user_.get(a_, chain(1, 8)), 8u);
  draft->abort();
  expect_rest();
}

// A part of the draft that memory has a place for is visible at once.
TEST_F(StoreAround, SlotsFirstThenBuffers) {
  fill_memory();
  const size_t places = held_.blocks();
  let_go();
  user_.store->clear();
  const std::vector<Token> tokens = chain(1, places + 4);
  Result<BlockDraft> draft = user_.store->reserve(a_, tokens, 0);
  ASSERT_TRUE(draft);
  EXPECT_EQ(draft->slots_count(), places);
  EXPECT_EQ(draft->blocks_count(), places + 4);
  user_.fill(*draft, a_, tokens);
  EXPECT_EQ(user_.store->commit(std::move(*draft)), places);
  EXPECT_EQ(user_.store->peek(a_, tokens), places);
  user_.settle();
  EXPECT_EQ(user_.store->peek(a_, tokens), places + 4);
  user_.store->flush(user_.clock.monotonic_ns() + kSecondNs);
  user_.push_out();
  StoredPrefix found = user_.look_up(a_, tokens);
  EXPECT_EQ(found.blocks(), places + 4);
  EXPECT_EQ(user_.store->promote(found, tokens, static_cast<uint32_t>(places), found.blocks()), found.blocks());
  for (uint32_t i = static_cast<uint32_t>(places); i < found.blocks(); ++i) {
    const auto bytes = user_.store->read(found, tokens, i);
    ASSERT_TRUE(bytes);
    EXPECT_TRUE(oracle_matches(*bytes, user_.digest(a_), std::span(tokens).first((i + 1) * 16)));
  }
  found.release();
  expect_rest();
}

TEST_F(StoreAround, AWriteThatFailsLosesTheBlockOnly) {
  for (const TierFaults& faults : {TierFaults{.refuse = 1}, TierFaults{.fail = 1}}) {
    fill_memory();
    user_.faults->set_faults(faults);
    EXPECT_EQ(user_.put(a_, chain(1, 3)), 0u);
    user_.settle();
    EXPECT_EQ(user_.store->peek(a_, chain(1, 3)), 0u);
    EXPECT_EQ(user_.store->around_blocks(), 0u);
    EXPECT_EQ(user_.store->lent_bytes(), 0u);
    expect_held();
    user_.faults->set_faults({});
    user_.put(a_, chain(1, 3));
    user_.settle();
    EXPECT_EQ(user_.store->peek(a_, chain(1, 3)), 3u);
    expect_rest();
    user_.store->clear();
  }
}

// The block before was forgotten while the tier was writing: nothing can lead to this one.
TEST_F(StoreAround, WithoutTheBlockBeforeItIsNotFound) {
  user_.put(a_, chain(1, 1));
  StoredPrefix parent = user_.look_up(a_, chain(1, 1));
  fill_memory();
  EXPECT_EQ(user_.put(a_, chain(1, 3)), 0u);
  EXPECT_EQ(user_.store->around_blocks(), 2u);
  parent.release();
  user_.store->clear();
  user_.settle();
  EXPECT_EQ(user_.store->peek(a_, chain(1, 3)), 0u);
  EXPECT_EQ(user_.store->around_blocks(), 0u);
  EXPECT_EQ(user_.store->block_counts().below, 0u);
  expect_rest();
}

// Who goes on behind blocks that are on their way does not have to wait for them.
TEST_F(StoreAround, TheNextDraftContinuesWhatIsOnItsWay) {
  fill_memory();
  user_.put(a_, chain(1, 2));
  const Result<BlockDraft> refused = user_.store->reserve(a_, chain(1, 4), 3);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition) << "nobody has the third";
  Result<BlockDraft> draft = user_.store->reserve(a_, chain(1, 4), 2);
  ASSERT_TRUE(draft);
  EXPECT_EQ(draft->first_block(), 2u);
  user_.fill(*draft, a_, chain(1, 4));
  user_.store->commit(std::move(*draft));
  EXPECT_EQ(user_.store->around_blocks(), 4u);
  user_.settle();
  EXPECT_EQ(user_.store->peek(a_, chain(1, 4)), 4u);
  let_go();
  EXPECT_EQ(user_.get(a_, chain(1, 4)), 4u);
  expect_rest();
}

TEST_F(StoreAround, OneWriteForABlock) {
  fill_memory();
  user_.put(a_, chain(1, 3));
  const Result<BlockDraft> same = user_.store->reserve(a_, chain(1, 3), 0);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->blocks_count(), 0u) << "somebody has computed them already";
  user_.settle();
  EXPECT_EQ(user_.count(Counter::kBlocksWrittenAround), 3u);
  expect_rest();
}

// Memory had a place again meanwhile, and somebody stored the block there: that one stays.
TEST_F(StoreAround, WhoIsInMemoryFirstStays) {
  fill_memory();
  user_.put(a_, chain(1, 2));
  let_go();
  user_.store->clear();
  EXPECT_EQ(user_.put(a_, chain(1, 2)), 2u);
  const auto numbers = [this] {
    const StoredPrefix found = user_.look_up(a_, chain(1, 2));
    return std::vector<Location>(found.locations().begin(), found.locations().end());
  };
  const std::vector<Location> before = numbers();
  user_.settle();
  EXPECT_EQ(user_.count(Counter::kBlocksWrittenAround), 2u) << "the tier has it from both";
  EXPECT_EQ(numbers(), before);
  EXPECT_EQ(user_.store->block_counts().resident + user_.store->block_counts().below, 2u);
  EXPECT_EQ(user_.get(a_, chain(1, 2)), 2u);
  expect_rest();
}

TEST_F(StoreAround, WhatRottedInTheBufferIsNotWritten) {
  fill_memory();
  Result<BlockDraft> draft = user_.store->reserve(a_, chain(1, 2), 0);
  ASSERT_TRUE(draft);
  user_.fill(*draft, a_, chain(1, 2));
  const std::span<std::byte> second = draft->payload(1);
  user_.store->commit(std::move(*draft));
  second[1234] ^= std::byte{4};
  user_.settle();
  EXPECT_EQ(user_.store->peek(a_, chain(1, 2)), 1u);
  expect_rest();
}

// One tenant's bytes are not shown to another.
TEST_F(StoreAround, BuffersComeEmpty) {
  const Root b = user_.open(keyspace_named("b"), kPayload);
  fill_memory();
  for (const Root root : {a_, b}) {
    Result<BlockDraft> draft = user_.store->reserve(root, chain(1, kBuffers), 0);
    ASSERT_TRUE(draft);
    ASSERT_EQ(draft->blocks_count(), kBuffers);
    for (size_t i = 0; i < draft->blocks_count(); ++i) {
      EXPECT_TRUE(std::ranges::all_of(draft->payload(i), [](std::byte byte) { return byte == std::byte{0}; }));
    }
    user_.fill(*draft, root, chain(1, kBuffers));
  }
  expect_rest();
}

TEST(StoreAroundBudget, NothingIsLentThatMayNotBeWritten) {
  TieredUser user({.memory_bytes = 3 << 20,
                   .tiering = {.admission = {.bytes_per_second = 10, .bucket_seconds = 1}, .is_inclusive = false}});
  const Root a = user.open(keyspace_named("a"), kPayload);
  StoredPrefix held = user.pin_all(a, chain(10000, 300));
  const Result<BlockDraft> draft = user.store->reserve(a, chain(1, 1), 0);
  ASSERT_FALSE(draft);
  EXPECT_EQ(draft.error().code, Code::kResourceExhausted);
  EXPECT_EQ(user.store->lent_bytes(), 0u);
}

class StuckTier final : public ForwardingTier {
 public:
  using ForwardingTier::ForwardingTier;
  size_t submit(std::span<const TierRequest> requests) override {
    return is_busy ? 0 : ForwardingTier::submit(requests);
  }
  bool is_busy = true;
};

// A tier that takes nothing: nobody counts on the blocks after a while, and then they are lost.
TEST(StoreAroundBudget, ATierThatIsAlwaysBusyIsGivenUp) {
  ManualClock clock(kSecondNs);
  auto made = std::make_unique<StuckTier>(std::make_unique<MemoryTier>(MemoryTierOptions{.clock = &clock}));
  StuckTier& tier = *made;
  StoreUser user(StoreOptions{.memory_bytes = 3 << 20,
                              .tier = std::move(made),
                              .tiering = {.is_inclusive = false, .background = false, .clock = &clock}});
  const Root a = user.open(keyspace_named("a"), kPayload);
  const std::vector<Token> many = chain(10000, 300);
  const size_t in_memory = user.put(a, many);
  StoredPrefix held = user.look_up(a, many);
  EXPECT_EQ(user.read_all(a, held, many), in_memory);
  EXPECT_EQ(user.store->around_blocks(), kBuffers);
  for (int i = 0; i < 10; ++i)
    user.store->step();
  EXPECT_EQ(user.store->around_blocks(), kBuffers) << "it may come to its senses";
  clock.advance_ns(10 * kSecondNs);
  const Result<BlockDraft> draft = user.store->reserve(a, many, static_cast<uint32_t>(in_memory) + 1);
  ASSERT_FALSE(draft);
  EXPECT_EQ(draft.error().code, Code::kFailedPrecondition);
  while (user.store->step()) {
  }
  EXPECT_EQ(user.store->around_blocks(), 0u);
  EXPECT_EQ(user.store->lent_bytes(), 0u);
  tier.is_busy = false;
  EXPECT_EQ(user.store->peek(a, many), in_memory);
}

}  // namespace
}  // namespace rhizome
