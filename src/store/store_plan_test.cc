// Computing from the front while loading from the back: where the two would meet.
#include <vector>

#include <gtest/gtest.h>

#include "store/store_tier_fixture.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlocks = 32;
constexpr uint64_t kTokens = kBlocks * 16;

class StorePlan : public testing::Test {
 protected:
  StorePlan() {
    user_.put_below(a_, tokens_);
    user_.put_below(a_, other_);
  }
  // All of one prompt comes in so many seconds of the test's clock, over a tier that only bytes cost anything.
  void observe_load(double seconds) {
    StoredPrefix prefix = user_.look_up(a_, other_);
    EXPECT_EQ(user_.store->load(prefix, other_, 0, kBlocks), kBlocks);
    user_.clock.advance_ns(static_cast<uint64_t>(seconds * static_cast<double>(kSecondNs)));
    user_.settle();
    prefix.release();
    user_.push_out();
  }
  void observe_compute(double seconds) { user_.store->observe_compute(kTokens, 0, seconds); }
  LoadSplit plan(uint32_t first = 0, uint32_t end = kBlocks) {
    const StoredPrefix prefix = user_.look_up(a_, tokens_);
    return user_.store->plan(prefix, tokens_, first, end);
  }

  TieredUser user_{{.tiering = {.load_wait_ns = 1000 * kSecondNs}}};
  const Root a_ = user_.open(keyspace_named("a"));
  const std::vector<Token> tokens_ = chain(1, kBlocks);
  const std::vector<Token> other_ = chain(1000, kBlocks);
};

TEST_F(StorePlan, HalfAndHalfWhereBothAreAsFast) {
  observe_load(1);
  observe_compute(1);
  const LoadSplit split = plan();
  EXPECT_EQ(split.compute_from, 0u);
  EXPECT_NEAR(static_cast<double>(split.load_from), kBlocks / 2.0, 2);
  EXPECT_EQ(split.end, kBlocks);
  EXPECT_EQ(split.compute_tokens, split.load_from * 16);
  EXPECT_EQ(split.compute_tokens + split.load_tokens, kTokens);
  EXPECT_NEAR(split.load_seconds, 1, 0.1);
  EXPECT_NEAR(split.compute_seconds, 1, 0.1);
  EXPECT_LT(split.split_seconds, 0.6);
}

// Nine times as slow as computing: a tenth still comes meanwhile, though all of it would not be worth it.
TEST_F(StorePlan, ASlowTierGetsItsShare) {
  observe_load(9);
  observe_compute(1);
  const LoadSplit split = plan();
  EXPECT_NEAR(static_cast<double>(split.load_tokens), kTokens / 10.0, 16);
  EXPECT_LT(split.split_seconds, split.compute_seconds);
  StoredPrefix prefix = user_.look_up(a_, tokens_);
  EXPECT_EQ(user_.store->promote(prefix, tokens_, 0, kBlocks), 0u) << "not worth it: the test shows nothing";
  const auto from = static_cast<uint32_t>(split.load_from);
  EXPECT_EQ(user_.store->load(prefix, tokens_, from, kBlocks), kBlocks);
  for (uint32_t block = kBlocks; block-- > from;) {
    const auto bytes = user_.store->read(prefix, tokens_, block);
    ASSERT_TRUE(bytes);
    EXPECT_TRUE(oracle_matches(*bytes, user_.digest(a_), std::span(tokens_).first((block + 1) * 16)));
  }
}

TEST_F(StorePlan, AllIsLoadedFromAFastTier) {
  observe_load(0.000001);
  observe_compute(1);
  EXPECT_EQ(plan().load_from, 0u);
  EXPECT_EQ(plan().load_tokens, kTokens);
  EXPECT_EQ(plan().compute_tokens, 0u);
}

TEST_F(StorePlan, AllIsComputedBesideAHopelessTier) {
  observe_load(900);
  observe_compute(0.001);
  const LoadSplit split = plan();
  EXPECT_EQ(split.load_from, kBlocks);
  EXPECT_EQ(split.load_tokens, 0u);
  EXPECT_EQ(split.compute_tokens, kTokens);
  EXPECT_DOUBLE_EQ(split.split_seconds, split.compute_seconds);
}

TEST_F(StorePlan, BeforeCostsAreKnownAllIsLoaded) {
  const LoadSplit split = plan();
  EXPECT_EQ(split.load_tokens, kTokens);
  EXPECT_EQ(split.load_from, 0u);
  EXPECT_EQ(split.split_seconds, 0);
}

TEST_F(StorePlan, WhatIsInMemoryIsNeitherLoadedNorComputed) {
  observe_load(1);
  observe_compute(1);
  StoredPrefix front = user_.look_up(a_, tokens_);
  EXPECT_EQ(user_.store->load(front, tokens_, 0, 8), 8u);
  user_.settle();
  const LoadSplit split = plan();
  EXPECT_EQ(split.compute_from, 8u);
  EXPECT_EQ(split.compute_tokens + split.load_tokens, kTokens - 128);
  EXPECT_EQ(split.load_from, 8 + split.compute_tokens / 16);
  const LoadSplit nothing = plan(0, 8);
  EXPECT_EQ(nothing.compute_from, 8u);
  EXPECT_EQ(nothing.load_from, 8u);
  EXPECT_EQ(nothing.load_tokens + nothing.compute_tokens, 0u);
}

TEST_F(StorePlan, TakesNoPinAndBeginsNothing) {
  observe_load(900);
  observe_compute(0.001);
  const uint64_t computed = user_.count(Counter::kDecisionsCompute);
  const uint64_t loaded = user_.count(Counter::kDecisionsLoad);
  for (int i = 0; i < 200; ++i)
    plan();
  EXPECT_FALSE(user_.store->step());
  EXPECT_EQ(user_.store->block_counts().pinned + user_.store->block_counts().resident, 0u);
  EXPECT_EQ(user_.count(Counter::kDecisionsCompute), computed);
  EXPECT_EQ(user_.count(Counter::kDecisionsLoad), loaded);
  // It is one question of 64 that a load is tried for: asking for a plan is none.
  StoredPrefix prefix = user_.look_up(a_, tokens_);
  for (int i = 0; i < 63; ++i)
    EXPECT_EQ(user_.store->promote(prefix, tokens_, 0, kBlocks), 0u) << i;
}

}  // namespace
}  // namespace rhizome
