#include "block/block_key.h"

#include <set>

#include <gtest/gtest.h>

#include "block/block_fixture.h"

namespace rhizome {
namespace {

TEST(BlockKey, GivesTheGoldenChain) {
  const Keyspace keyspace = golden_builder().seal().value();
  const BlockKey root = root_key(keyspace.digest());
  EXPECT_EQ(hex(root.bytes), "411678ae3a7de180b5396ce704fbf2e656fcf4b66fc026763cff1ecd94e3f371");

  const Token first[] = {1, 2, 3, 4};
  const Token second[] = {5, 0xffffffff, 7, 8};
  const BlockKey one = next_key(root, first);
  EXPECT_EQ(hex(one.bytes), "a1d012c53fb7aebce74531ec508658841d79af9cb8abade2c79354b7dbd4f18c");
  const BlockKey two = next_key(one, second);
  EXPECT_EQ(hex(two.bytes), "afd09d3cf0fa70930926d291b9985f0d738e30733b5b1499e3063655b544a4dc");
  EXPECT_EQ(two.name(), "afd09d3cf0fa70930926d291b9985f0d");
}

TEST(BlockKey, ChangesWithEveryTokenOfTheBlock) {
  const BlockKey root = root_key(counting_digest());
  std::vector<Token> tokens(16, 7);
  const BlockKey base = next_key(root, tokens);
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (const Token changed : {0u, 6u, 8u, 7u + (1u << 16), 7u + (1u << 31)}) {
      tokens[i] = changed;
      EXPECT_FALSE(next_key(root, tokens) == base) << i << " " << changed;
    }
    tokens[i] = 7;
  }
  EXPECT_EQ(next_key(root, tokens), base);
}

TEST(BlockKey, ChangesWithTheOrderOfTokensAndBlocks) {
  const BlockKey root = root_key(counting_digest());
  const Token ab[] = {1, 2};
  const Token ba[] = {2, 1};
  EXPECT_FALSE(next_key(root, ab) == next_key(root, ba));
  EXPECT_FALSE(next_key(next_key(root, ab), ba) == next_key(next_key(root, ba), ab));
}

TEST(BlockKey, ChangesWithTheKeyspace) {
  const Token tokens[] = {1, 2, 3, 4};
  EXPECT_FALSE(next_key(root_key(counting_digest(0)), tokens) == next_key(root_key(counting_digest(1)), tokens));
  EXPECT_EQ(next_key(root_key(counting_digest(1)), tokens), next_key(root_key(counting_digest(1)), tokens));
}

TEST(BlockKey, IsNoKeyOfAnEmptyBlock) {
  const BlockKey root = root_key(counting_digest());
  EXPECT_FALSE(next_key(root, {}) == root);
}

}  // namespace
}  // namespace rhizome
