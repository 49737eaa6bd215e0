#include "store/staging.h"

#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

constexpr uint64_t kKiB = 1024;

TEST(Staging, NeverMoreThanTheLimitAndAlwaysOne) {
  Staging staging(256 * kKiB);
  std::vector<Staging::Buffer> out;
  while (Staging::Buffer buffer = staging.take(60 * kKiB))
    out.push_back(std::move(buffer));
  EXPECT_EQ(out.size(), 4u);
  for (Staging::Buffer& buffer : out) {
    EXPECT_GE(buffer.bytes().size(), 60 * kKiB);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.bytes().data()) % 4096, 0u);
    staging.give_back(std::move(buffer));
  }
  const auto large = staging.take(1024 * kKiB);
  EXPECT_TRUE(large) << "an image that is larger than the limit has to move, too";
  EXPECT_FALSE(staging.take(1));
}

TEST(Staging, BuffersAreUsedAgain) {
  Staging staging(256 * kKiB);
  auto first = staging.take(100 * kKiB);
  const std::byte* const where = first.bytes().data();
  staging.give_back(std::move(first));
  auto second = staging.take(90 * kKiB);
  EXPECT_EQ(second.bytes().data(), where);
  staging.give_back(std::move(second));
  // One of another size has to make room for itself.
  auto other = staging.take(250 * kKiB);
  ASSERT_TRUE(other);
  staging.give_back(std::move(other));
  EXPECT_TRUE(staging.take(250 * kKiB));
}

// What is lent may never come back: what moves must still find room.
TEST(Staging, LendsHalfAtMostAndLeavesWhatMovesItsRoom) {
  Staging staging(1024 * kKiB);
  std::vector<Staging::Buffer> lent;
  while (Staging::Buffer buffer = staging.lend(60 * kKiB, 100 * kKiB))
    lent.push_back(std::move(buffer));
  EXPECT_EQ(lent.size(), 8u);
  EXPECT_EQ(staging.lent_bytes(), 512 * kKiB);
  EXPECT_TRUE(staging.take(512 * kKiB));
  for (Staging::Buffer& buffer : lent)
    staging.give_back(std::move(buffer));
  EXPECT_EQ(staging.lent_bytes(), 0u);
  EXPECT_FALSE(staging.lend(600 * kKiB, 0)) << "more than half";
  EXPECT_FALSE(staging.lend(60 * kKiB, 1000 * kKiB)) << "a load could not move any more";
}

TEST(Staging, WhatIsLentStopsNoLoad) {
  Staging staging(256 * kKiB);
  const auto lent = staging.lend(64 * kKiB, 0);
  ASSERT_TRUE(lent);
  const auto large = staging.take(1024 * kKiB);
  EXPECT_TRUE(large) << "an image that is larger than the limit has to move, too";
  EXPECT_FALSE(staging.take(1));
  EXPECT_FALSE(staging.lend(1, 0));
}

}  // namespace
}  // namespace rhizome
