#include "index/sequence_handles.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/prefix_cache_fixture.h"

namespace rhizome {
namespace {

const std::vector<Token> kEight{1, 2, 3, 4, 5, 6, 7, 8};

// A stale or unknown number is refused, and what another sequence with the same tokens holds stays.
TEST(SequenceHandles, ASequenceReleasesItsOwnHandleOnce) {
  PrefixCache cache({.block_tokens = 4, .blocks_max = 10});
  const Root root = *cache.open({});
  PrefixHandle first;
  ASSERT_TRUE(cache.insert(root, first, kEight, 0, {.blocks = std::vector<uint32_t>{1, 2}}));
  SequenceHandles sequences(cache);
  EXPECT_TRUE(sequences.hold(1, std::move(first)));
  EXPECT_TRUE(sequences.hold(2, look_up(cache, root, kEight).match.handle));
  PrefixHandle third = look_up(cache, root, kEight).match.handle;
  EXPECT_EQ(sequences.hold(2, std::move(third)).error().code, Code::kAlreadyExists);
  // A handle that was refused is still there.
  EXPECT_EQ(third.blocks(), 2u);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(cache.release(std::move(third)));
  EXPECT_TRUE(sequences.release(1));
  EXPECT_EQ(sequences.release(1).error().code, Code::kNotFound);
  EXPECT_EQ(sequences.take(9).error().code, Code::kNotFound);
  EXPECT_TRUE(cache.evict(10).physical.empty());
  PrefixHandle second = std::move(*sequences.take(2));
  EXPECT_EQ(second.blocks(), 2u);
  EXPECT_EQ(sequences.count(), 0u);
  EXPECT_TRUE(cache.release(std::move(second)));
  EXPECT_EQ(cache.evict(10).physical.size(), 2u);
}

TEST(SequenceHandles, WhatIsLeftIsReleased) {
  PrefixCache cache({.block_tokens = 4, .blocks_max = 10});
  const Root root = *cache.open({});
  PrefixHandle handle;
  ASSERT_TRUE(cache.insert(root, handle, kEight, 0, {.blocks = std::vector<uint32_t>{1, 2}}));
  {
    SequenceHandles sequences(cache);
    EXPECT_TRUE(sequences.hold(1, std::move(handle)));
    EXPECT_EQ(cache.pins().handles, 1u);
  }
  EXPECT_EQ(cache.pins().handles, 0u);
}

}  // namespace
}  // namespace rhizome
