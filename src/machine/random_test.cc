#include "machine/random.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(Random, FillsEveryByteOfALongBuffer) {
  std::vector<std::byte> bytes(100'000);
  fill_random(bytes);
  size_t zeros = 0;
  for (const std::byte byte : bytes)
    zeros += byte == std::byte{0} ? 1 : 0;
  // One in 256 is expected: 391 +- 20. A tail that was left out would be all zeros.
  EXPECT_GT(zeros, 200u);
  EXPECT_LT(zeros, 600u);
}

TEST(Random, TakesAnEmptyBuffer) {
  fill_random({});
}

TEST(Random, DoesNotRepeat) {
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i)
    seen.insert(random_u64());
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace rhizome
