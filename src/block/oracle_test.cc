#include "block/oracle.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "block/block_fixture.h"

namespace rhizome {
namespace {

std::vector<std::byte> oracle(size_t bytes_count, const Digest& keyspace, std::span<const Token> prefix) {
  std::vector<std::byte> bytes(bytes_count);
  fill_oracle(bytes, keyspace, prefix);
  return bytes;
}

TEST(Oracle, GivesTheGoldenBytes) {
  const Token prefix[] = {1, 2, 3};
  EXPECT_EQ(hex_of(oracle(20, counting_digest(), prefix)), "c83eb7439016dd83352ff137381cbaab4ffb2df5");
}

TEST(Oracle, MatchesOnlyItsOwnPrefixAndKeyspace) {
  std::vector<Token> prefix(64);
  std::iota(prefix.begin(), prefix.end(), 1u);
  const std::vector<std::byte> bytes = oracle(1001, counting_digest(), prefix);
  EXPECT_TRUE(oracle_matches(bytes, counting_digest(), prefix));
  EXPECT_FALSE(oracle_matches(bytes, counting_digest(1), prefix));
  EXPECT_FALSE(oracle_matches(bytes, counting_digest(), std::span(prefix).first(63)));
  for (size_t i = 0; i < prefix.size(); ++i) {
    prefix[i] ^= 1u << (i % 32);
    EXPECT_FALSE(oracle_matches(bytes, counting_digest(), prefix)) << i;
    prefix[i] ^= 1u << (i % 32);
  }
  EXPECT_TRUE(oracle_matches(bytes, counting_digest(), prefix));
}

TEST(Oracle, SeesEveryByte) {
  const Token prefix[] = {9};
  for (const size_t size : {1u, 7u, 8u, 9u, 33u}) {
    std::vector<std::byte> bytes = oracle(size, counting_digest(), prefix);
    for (size_t i = 0; i < size; ++i) {
      bytes[i] ^= std::byte{1};
      EXPECT_FALSE(oracle_matches(bytes, counting_digest(), prefix)) << size << " " << i;
      bytes[i] ^= std::byte{1};
    }
    EXPECT_TRUE(oracle_matches(bytes, counting_digest(), prefix));
  }
}

TEST(Oracle, DoesNotRepeatWithinAPayload) {
  const Token prefix[] = {9};
  const std::vector<std::byte> bytes = oracle(400'000, counting_digest(), prefix);
  // Neighbouring parts of a payload must not be alike, or a shift by a row would go unseen.
  const std::vector<std::byte> first(bytes.begin(), bytes.begin() + 4096);
  for (size_t at = 4096; at + 4096 <= bytes.size(); at += 4096) {
    EXPECT_FALSE(std::equal(first.begin(), first.end(), bytes.begin() + static_cast<ptrdiff_t>(at))) << at;
  }
}

}  // namespace
}  // namespace rhizome
