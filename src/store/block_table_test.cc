#include "store/block_table.h"

#include <algorithm>
#include <optional>

#include <gtest/gtest.h>

#include "contract/check.h"

namespace rhizome {
namespace {

constexpr uint64_t kAge = 1000;

template <class T>
T there(const std::optional<T>& found) {
  RHIZOME_CHECK(found.has_value());
  return *found;
}

BlockKey key_of(uint32_t number) {
  return next_key(root_key({}), std::span(&number, 1));
}

class BlockTableTest : public testing::Test {
 protected:
  Location add(uint32_t number, uint64_t now_ns = 0) {
    return table_.add({.keyspace = 1, .key = key_of(number), .slot = {number, 1}, .now_ns = now_ns});
  }
  Location add_written(uint32_t number) {
    const Location location = add(number);
    const auto unwritten = table_.next_unwritten(kAge, kAge);
    EXPECT_TRUE(unwritten);
    table_.written(there(unwritten).ref, 100);
    return location;
  }

  BlockTable table_{1000};
};

TEST_F(BlockTableTest, OnlyWhatTheTierHasAndNobodyHoldsLeaves) {
  const Location dirty = add(1);
  EXPECT_FALSE(table_.demote(100)) << "only memory has it";
  EXPECT_EQ(table_.state(dirty), BlockState::kResident);
  table_.forget(dirty);
  const Location clean = add_written(2);
  const auto pinned = table_.pin(clean);
  ASSERT_TRUE(pinned);
  EXPECT_FALSE(table_.demote(100)) << "it is pinned";
  table_.unpin(there(pinned).ref);
  const auto demoted = table_.demote(100);
  ASSERT_TRUE(demoted);
  EXPECT_EQ(there(demoted).slot, (SlotRef{2, 1}));
  EXPECT_TRUE(table_.is_below(clean));
  EXPECT_FALSE(table_.pin(clean));
}

TEST_F(BlockTableTest, ADemotionOfAnotherUseOfTheNumberIsRefused) {
  const Location location = add_written(1);
  const BlockRef before = there(table_.pin(location)).ref;
  table_.unpin(before);
  table_.forget(location);
  ASSERT_EQ(add_written(2), location);
  EXPECT_FALSE(table_.demote(before, 0));
  EXPECT_EQ(table_.state(location), BlockState::kResident);
  table_.unpin(before);
  EXPECT_EQ(table_.counts().pinned, 0u);
  EXPECT_TRUE(table_.demote(there(table_.pin(location)).ref, 1)) << "its own pin does not count";
}

TEST_F(BlockTableTest, OneLoadAndAllWaitForIt) {
  const Location location = table_.add_below(1, key_of(1), 100);
  const auto first = table_.await(location);
  const auto second = table_.await(location);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(there(first).begins);
  EXPECT_FALSE(there(second).begins);
  EXPECT_FALSE(table_.slot_of(there(first).ref));
  EXPECT_TRUE(table_.land(there(first).ref, {5, 1}, true, 0));
  EXPECT_FALSE(table_.land(there(first).ref, {6, 1}, true, 0)) << "it is there already";
  EXPECT_EQ(table_.slot_of(there(second).ref), (SlotRef{5, 1}));
  EXPECT_FALSE(table_.demote(100)) << "those who waited hold it";
  table_.unpin(there(first).ref);
  table_.unpin(there(second).ref);
  EXPECT_EQ(table_.counts().pinned, 0u);
  EXPECT_TRUE(table_.demote(100));
}

TEST_F(BlockTableTest, ALoadForABlockThatIsForgottenLandsNowhere) {
  const Location location = table_.add_below(1, key_of(1), 100);
  const auto awaited = table_.await(location);
  table_.forget(location);
  EXPECT_FALSE(table_.land(there(awaited).ref, {5, 1}, true, 0));
  EXPECT_EQ(table_.counts().resident, 0u);
  EXPECT_EQ(table_.counts().below, 0u);
  EXPECT_EQ(table_.counts().copies, 0u);
}

TEST_F(BlockTableTest, WhatTheTierForgetsIsGoneUnlessMemoryHasIt) {
  const Location resident = add_written(1);
  EXPECT_FALSE(table_.forgotten_below(key_of(1)));
  EXPECT_EQ(table_.state(resident), BlockState::kResident);
  EXPECT_TRUE(table_.next_unwritten(kAge, kAge)) << "it waits for a write again";
  const Location below = table_.add_below(1, key_of(2), 100);
  EXPECT_TRUE(table_.forgotten_below(key_of(2)));
  EXPECT_TRUE(table_.is_gone(below));
  EXPECT_FALSE(table_.await(below));
  EXPECT_FALSE(table_.forgotten_below(key_of(2)));
  EXPECT_FALSE(table_.forgotten_below(key_of(3)));
}

// The tier forgets a block while it is being read.
TEST_F(BlockTableTest, ForgottenOnTheWay) {
  const Location first = table_.add_below(1, key_of(1), 100);
  const auto landing = table_.await(first);
  EXPECT_FALSE(table_.forgotten_below(key_of(1)));
  EXPECT_TRUE(table_.land(there(landing).ref, {5, 1}, true, 0));
  EXPECT_EQ(table_.image_bytes(first), 0u);
  EXPECT_TRUE(table_.next_unwritten(kAge, 0));
  const Location second = table_.add_below(1, key_of(2), 100);
  const auto failing = table_.await(second);
  EXPECT_FALSE(table_.forgotten_below(key_of(2)));
  table_.give_up_load(there(failing).ref, false);
  EXPECT_TRUE(table_.is_gone(second));
}

// Whoever began something with a block and comes back when its number is another one's changes nothing.
TEST_F(BlockTableTest, ALoadOrAWriteOfAnotherUseOfTheNumberIsRefused) {
  const Location location = table_.add_below(1, key_of(1), 100);
  const BlockRef old = there(table_.await(location)).ref;
  table_.forget(location);
  ASSERT_EQ(table_.add_below(1, key_of(2), 200), location);
  const auto awaited = table_.await(location);
  ASSERT_TRUE(awaited);
  EXPECT_FALSE(table_.land(old, {1, 1}, true, 0));
  table_.give_up_load(old, true);
  table_.unpin(old);
  EXPECT_EQ(table_.state(location), BlockState::kLoading);
  EXPECT_FALSE(table_.slot_of(old));
  EXPECT_TRUE(table_.land(there(awaited).ref, {2, 1}, false, 0));
  EXPECT_FALSE(table_.slot_of(old));
  EXPECT_EQ(table_.counts().pinned, 1u);
  table_.written(old, 300);
  table_.write_later(old, false);
  EXPECT_EQ(table_.image_bytes(location), 0u);
  EXPECT_EQ(table_.counts().copies, 0u);
  EXPECT_EQ(table_.counts().pinned, 1u);
  table_.unpin(there(awaited).ref);
  EXPECT_EQ(table_.counts().pinned, 0u);
}

TEST_F(BlockTableTest, UsedOnesAreWrittenFirstEachOnce) {
  const Location a = add(1, 0);
  const Location b = add(2, 10);
  EXPECT_FALSE(table_.next_unwritten(kAge - 1, kAge));
  EXPECT_EQ(table_.next_write_ns(kAge), kAge);
  table_.unpin(there(table_.pin(b)).ref);
  EXPECT_EQ(table_.next_write_ns(kAge), 0u);
  const auto used = table_.next_unwritten(20, kAge);
  ASSERT_TRUE(used);
  EXPECT_EQ(there(used).ref.location, b);
  EXPECT_EQ(there(used).uses, 1u);
  EXPECT_FALSE(table_.next_unwritten(20, kAge));
  const auto aged = table_.next_unwritten(kAge, kAge);
  ASSERT_TRUE(aged);
  EXPECT_EQ(there(aged).ref.location, a);
  EXPECT_FALSE(table_.next_unwritten(10 * kAge, kAge)) << "both are being written";
  table_.write_later(there(aged).ref, true);
  EXPECT_TRUE(table_.next_unwritten(10 * kAge, kAge));
  table_.write_later(there(used).ref, false);
  EXPECT_FALSE(table_.next_unwritten(10 * kAge, kAge)) << "not before it is used again";
  table_.unpin(there(table_.pin(b)).ref);
  EXPECT_TRUE(table_.next_unwritten(10 * kAge, kAge));
}

// The tier stands still: nobody takes from the queues, whatever comes and goes.
TEST_F(BlockTableTest, QueuesDoNotGrowWithoutEnd) {
  uint64_t most = 0;
  for (uint32_t number = 0; number < 50000; ++number) {
    const Location location = add(number);
    table_.unpin(there(table_.pin(location)).ref);
    most = std::max(most, table_.counts().queued);
    table_.forget(location);
  }
  EXPECT_LT(most, 5000u);
  add(1);
  EXPECT_TRUE(table_.next_unwritten(kAge, kAge)) << "what waits is still found";
  EXPECT_FALSE(table_.next_unwritten(kAge, kAge));
}

// Somebody else has come to use the block while it was being written.
TEST_F(BlockTableTest, AReaderKeepsOneBlockFromItsDemotion) {
  const Location location = add_written(1);
  const auto reader = there(table_.pin(location));
  EXPECT_FALSE(table_.demote(reader.ref, 0));
  EXPECT_EQ(table_.state(location), BlockState::kResident);
  const auto another = there(table_.pin(location));
  EXPECT_FALSE(table_.demote(reader.ref, 1));
  table_.unpin(another.ref);
  table_.unpin(reader.ref);
  EXPECT_TRUE(table_.demote(reader.ref, 0));
}

TEST_F(BlockTableTest, WithoutTiersNothingWaitsForAWrite) {
  BlockTable table(0);
  const Location location = table.add({.keyspace = 1, .key = key_of(1), .slot = {1, 1}, .now_ns = 0});
  table.unpin(there(table.pin(location)).ref);
  EXPECT_FALSE(table.has_unwritten());
  EXPECT_FALSE(table.next_unwritten(kAge, 0));
}

}  // namespace
}  // namespace rhizome
