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

}  // namespace
}  // namespace rhizome
