#include "slab/block_copy.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "slab/copy_variants.h"

namespace rhizome {
namespace {

std::vector<std::byte> random_bytes(std::mt19937_64& random, size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes)
    byte = static_cast<std::byte>(random());
  return bytes;
}

// Every way from every address to every address, with what lies around it left alone.
TEST(BlockCopy, VariantsLeaveTheSameBytesAtEveryAlignment) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  ASSERT_GE(copy_variants().size(), 1u);
  const std::vector<std::byte> from = random_bytes(random, 3000);
  const std::vector<std::byte> around = random_bytes(random, 3000);
  for (const CopyVariant& variant : copy_variants()) {
    for (int i = 0; i < 3000; ++i) {
      const size_t size = i < 700 ? static_cast<size_t>(i) : random() % 2500;
      const size_t source = random() % 130;
      const size_t place = random() % 130;
      std::vector<std::byte> to = around;
      std::vector<std::byte> expected = around;
      for (size_t at = 0; at < size; ++at)
        expected[place + at] = from[source + at];
      variant.copy(to.data() + place, from.data() + source, size);
      ASSERT_TRUE(to == expected) << variant.name << ": " << size << " bytes from " << source << " to " << place;
    }
  }
}

TEST(BlockCopy, CopiesAndCountsOnBothSidesOfTheThreshold) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (const size_t size : {size_t{0}, size_t{1}, size_t{256} << 10, (size_t{256} << 10) + 1, size_t{1'500'003}}) {
    const std::vector<std::byte> from = random_bytes(random, size);
    std::vector<std::byte> to(size);
    const uint64_t before = copied_block_bytes();
    copy_block_bytes(to, from);
    EXPECT_TRUE(to == from) << size;
    EXPECT_EQ(copied_block_bytes() - before, size);
  }
}

TEST(BlockCopyDeathTest, RefusesSizesThatDifferAndRangesThatOverlap) {
  std::vector<std::byte> bytes(100);
  const std::span<std::byte> all(bytes);
  EXPECT_DEATH(copy_block_bytes(all.first(10), all.subspan(50, 11)), "check failed");
  EXPECT_DEATH(copy_block_bytes(all.first(50), all.subspan(49, 50)), "check failed");
  EXPECT_DEATH(copy_block_bytes(all.subspan(49, 50), all.first(50)), "check failed");
  copy_block_bytes(all.first(50), all.subspan(50, 50));
}

}  // namespace
}  // namespace rhizome
