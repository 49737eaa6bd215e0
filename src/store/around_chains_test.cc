#include "store/around_chains.h"

#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

constexpr Location kNumbers = 100;  // block i has the number kNumbers + i

BlockKey key_of(uint32_t number) {
  return next_key(root_key({}), std::span(&number, 1));
}

class AroundChainsTest : public testing::Test {
 protected:
  // Blocks [first, end) of one prompt.
  uint64_t add(uint32_t first, uint32_t end) {
    AroundChains::Chain chain{.first_block = first, .parent = key_of(first - 1), .deadline_ns = 1000};
    for (uint32_t block = first; block < end; ++block)
      chain.keys.push_back(key_of(block));
    return chains_.add(std::move(chain));
  }
  void end(uint64_t chain, uint32_t block, uint32_t number) { chains_.end({chain, block}, kNumbers + number); }
  void fail(uint64_t chain, uint32_t block) { chains_.end({chain, block}, std::nullopt); }
  size_t resolve() {
    return chains_.resolve(
        [this](const AroundChains::Chain& chain, uint32_t first, std::span<const Location> blocks) {
          EXPECT_EQ(blocks.front(), kNumbers + chain.first_block + first);
          if (refuses_) return false;
          published_.insert(published_.end(), blocks.begin(), blocks.end());
          return true;
        },
        [this](Location location) { lost_.push_back(location); });
  }

  AroundChains chains_;
  bool refuses_ = false;
  std::vector<Location> published_;
  std::vector<Location> lost_;
};

TEST_F(AroundChainsTest, ABlockIsPublishedBehindTheOneBefore) {
  const uint64_t chain = add(5, 8);
  EXPECT_EQ(chains_.blocks(), 3u);
  end(chain, 1, 6);
  EXPECT_EQ(resolve(), 0u);
  end(chain, 0, 5);
  EXPECT_EQ(resolve(), 2u);
  EXPECT_EQ(published_, (std::vector<Location>{105, 106}));
  EXPECT_FALSE(chains_.is_under_way(key_of(6), 0));
  EXPECT_TRUE(chains_.is_under_way(key_of(7), 0));
  EXPECT_FALSE(chains_.is_under_way(key_of(7), 1000)) << "too late";
  end(chain, 2, 7);
  EXPECT_EQ(resolve(), 1u);
  EXPECT_EQ(chains_.blocks(), 0u);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(AroundChainsTest, WhatIsBehindALostBlockIsLost) {
  const uint64_t chain = add(5, 9);
  end(chain, 2, 7);
  end(chain, 0, 5);
  fail(chain, 1);
  EXPECT_FALSE(chains_.is_under_way(key_of(7), 0));
  EXPECT_EQ(resolve(), 3u);
  EXPECT_EQ(published_, (std::vector<Location>{105}));
  EXPECT_EQ(lost_, (std::vector<Location>{107}));
  EXPECT_EQ(chains_.blocks(), 1u) << "one is still being written";
  end(chain, 3, 8);
  EXPECT_EQ(resolve(), 1u);
  EXPECT_EQ(lost_, (std::vector<Location>{107, 108}));
  EXPECT_EQ(chains_.blocks(), 0u);
}

TEST_F(AroundChainsTest, AChainWaitsForTheOneThatItContinues) {
  const uint64_t first = add(5, 7);
  const uint64_t second = add(7, 8);
  end(second, 0, 7);
  EXPECT_EQ(resolve(), 0u);
  end(first, 0, 5);
  EXPECT_EQ(resolve(), 1u);
  end(first, 1, 6);
  EXPECT_EQ(resolve(), 2u);
  EXPECT_EQ(published_, (std::vector<Location>{105, 106, 107}));
}

TEST_F(AroundChainsTest, WhatMayNotBePublishedIsGivenBack) {
  const uint64_t chain = add(5, 7);
  end(chain, 0, 5);
  end(chain, 1, 6);
  refuses_ = true;
  EXPECT_EQ(resolve(), 2u);
  EXPECT_EQ(lost_, (std::vector<Location>{105, 106}));
  EXPECT_EQ(chains_.blocks(), 0u);
}

}  // namespace
}  // namespace rhizome
