#include "tier/disk/recovered_blocks.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

constexpr uint32_t kTokens = 16;
constexpr uint64_t kBlockBytesMost = 250;

Digest keyspace_of(uint32_t number) {
  return sha256(std::as_bytes(std::span(&number, 1)));
}

class RecoveredBlocksTest : public testing::Test {
 protected:
  // A chain of so many blocks, each written after all that was added before.
  void add_chain(uint32_t keyspace, uint32_t blocks) {
    const Digest digest = keyspace_of(keyspace);
    SegmentEntries entries;
    BlockKey parent = root_key(digest);
    for (uint32_t i = 0; i < blocks; ++i) {
      const std::vector<Token> tokens(kTokens, i);
      SegmentEntry entry;
      entry.key = next_key(parent, tokens);
      entry.lsn = ++lsn_;
      entry.image_bytes = 100;
      entry.page = static_cast<uint32_t>(lsn_);
      ImageIdentity identity;
      identity.keyspace = digest;
      identity.parent = parent;
      identity.position = i * kTokens;
      identity.tokens = std::as_bytes(std::span(tokens));
      entries.add(entry, &identity);
      index_.put(entry.key, {segment_, entry.page, entry.image_bytes});
      parent = entry.key;
    }
    recovered_.add(segment_++, entries);
  }
  uint32_t count(uint32_t keyspace) {
    uint32_t blocks = 0;
    recovered_.for_each(keyspace_of(keyspace), index_, [&](const RecoveredBlock& block) {
      EXPECT_EQ(block.position, blocks * kTokens);
      EXPECT_EQ(block.tokens[0], blocks);
      ++blocks;
    });
    return blocks;
  }

  RecoveredBlocks recovered_;
  DiskIndex index_;
  uint64_t lsn_ = 0;
  uint32_t segment_ = 0;
};

TEST_F(RecoveredBlocksTest, WhatWasAskedForCostsNothingAnyMore) {
  add_chain(1, 20);
  add_chain(2, 10);
  EXPECT_EQ(recovered_.keyspaces().size(), 2u);
  EXPECT_EQ(count(1), 20u);
  const uint64_t before = recovered_.bytes();
  recovered_.forget(keyspace_of(1));
  EXPECT_EQ(count(1), 0u);
  EXPECT_EQ(count(2), 10u);
  EXPECT_LT(recovered_.bytes(), before / 2);
  recovered_.forget(keyspace_of(2));
  EXPECT_EQ(recovered_.bytes(), 0u);
}

TEST_F(RecoveredBlocksTest, TheKeyspaceWrittenToLongestAgoGoesFirst) {
  add_chain(1, 20);
  add_chain(2, 20);
  add_chain(3, 20);
  add_chain(1, 1);  // again: its first block, moved
  const uint64_t all = recovered_.bytes();
  recovered_.bound(all);
  EXPECT_EQ(recovered_.bytes(), all);
  recovered_.bound(all - 1);
  EXPECT_EQ(count(1), 20u);
  EXPECT_EQ(count(2), 0u);
  EXPECT_EQ(count(3), 20u);
  EXPECT_LT(recovered_.bytes(), all);
}

// A restart is as warm as the bound lets it be: beginnings are kept, which others continue.
TEST_F(RecoveredBlocksTest, OfTheLastOneTheBeginningsAreKept) {
  add_chain(1, 1000);
  add_chain(2, 100);
  uint64_t bound = 100000;
  for (; recovered_.bytes() > 0; bound /= 2) {
    recovered_.bound(bound);
    EXPECT_LE(recovered_.bytes(), bound);
    EXPECT_EQ(count(1), 0u);
    EXPECT_GE(count(2), std::min<uint64_t>(bound / 2 / kBlockBytesMost, 100));
  }
  EXPECT_TRUE(recovered_.keyspaces().empty());
}

}  // namespace
}  // namespace rhizome
