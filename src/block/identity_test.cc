#include "block/identity.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "block/block_fixture.h"

namespace rhizome {
namespace {

struct Sample {
  std::vector<Token> tokens;
  Identity identity;

  explicit Sample(size_t tokens_count) : tokens(tokens_count) {
    std::iota(tokens.begin(), tokens.end(), 100u);
    identity = {
        .keyspace = counting_digest(), .parent = {counting_digest(64)}, .position = 0x01020304, .tokens = tokens};
  }
  std::vector<std::byte> encoded(std::byte fill = std::byte{0}) const {
    std::vector<std::byte> bytes(identity_bytes(tokens.size()), fill);
    encode_identity(identity, bytes);
    return bytes;
  }
};

TEST(IdentityBytes, IsAMultipleOf64ThatHoldsTheTokens) {
  const std::pair<size_t, size_t> rows[] = {{0, 128},  {1, 128},  {14, 128}, {15, 192},  {16, 192},  {30, 192},
                                            {31, 256}, {32, 256}, {64, 384}, {128, 640}, {256, 1152}};
  for (const auto& [tokens_count, bytes] : rows)
    EXPECT_EQ(identity_bytes(tokens_count), bytes) << tokens_count;
}

TEST(Identity, EncodesAsTheFormatSays) {
  EXPECT_EQ(hex_of(Sample(2).encoded()),
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
            "404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f"
            "04030201"
            "02000000"
            "64000000"
            "65000000"
            "000000000000000000000000000000000000000000000000"
            "000000000000000000000000000000000000000000000000");
}

TEST(Identity, LeavesNothingOfWhatWasInTheBuffer) {
  for (const size_t tokens_count : {0u, 1u, 14u, 15u, 16u, 64u}) {
    const Sample sample(tokens_count);
    EXPECT_EQ(sample.encoded(std::byte{0x00}), sample.encoded(std::byte{0xff})) << tokens_count;
    EXPECT_EQ(sample.encoded(std::byte{0xa5}), sample.encoded(std::byte{0x5a})) << tokens_count;
  }
}

TEST(Identity, MatchesItselfAndNothingWithABitChanged) {
  for (const size_t tokens_count : {0u, 2u, 14u, 16u}) {
    const Sample sample(tokens_count);
    std::vector<std::byte> bytes = sample.encoded();
    ASSERT_TRUE(identity_matches(bytes, sample.identity));
    // The padding is covered too.
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
      EXPECT_FALSE(identity_matches(bytes, sample.identity)) << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    }
    EXPECT_TRUE(identity_matches(bytes, sample.identity));
  }
}

TEST(Identity, DoesNotMatchAnotherOne) {
  const Sample sample(16);
  const std::vector<std::byte> bytes = sample.encoded();
  Sample other(16);
  other.identity.keyspace = counting_digest(1);
  EXPECT_FALSE(identity_matches(bytes, other.identity));
  other = Sample(16);
  other.identity.tokens = other.tokens;
  other.identity.parent.bytes = counting_digest(65);
  EXPECT_FALSE(identity_matches(bytes, other.identity));
  other.identity.parent = sample.identity.parent;
  other.identity.position += 16;
  EXPECT_FALSE(identity_matches(bytes, other.identity));
  other.identity.position = sample.identity.position;
  EXPECT_TRUE(identity_matches(bytes, other.identity));
  for (size_t i = 0; i < other.tokens.size(); ++i) {
    ++other.tokens[i];
    EXPECT_FALSE(identity_matches(bytes, other.identity)) << i;
    --other.tokens[i];
  }
  EXPECT_TRUE(identity_matches(bytes, other.identity));
}

TEST(Identity, DoesNotMatchAnotherTokenCountOfTheSameSize) {
  // 15 and 16 tokens take the same bytes; the 16th token is 0, as padding is.
  std::vector<Token> tokens(16, 5);
  tokens[15] = 0;
  Identity sixteen = Sample(0).identity;
  sixteen.tokens = tokens;
  Identity fifteen = sixteen;
  fifteen.tokens = std::span(tokens).first(15);
  ASSERT_EQ(identity_bytes(15), identity_bytes(16));
  std::vector<std::byte> bytes(identity_bytes(16));
  encode_identity(sixteen, bytes);
  EXPECT_TRUE(identity_matches(bytes, sixteen));
  EXPECT_FALSE(identity_matches(bytes, fifteen));
}

TEST(Identity, DoesNotMatchTruncatedOrExtendedBytes) {
  const Sample sample(16);
  std::vector<std::byte> bytes = sample.encoded();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(identity_matches(std::span(bytes).first(size), sample.identity)) << size;
  }
  bytes.resize(bytes.size() + 64);
  EXPECT_FALSE(identity_matches(bytes, sample.identity));
}

TEST(IdentityParent, IsTheKeyThatWasEncoded) {
  const Sample sample(16);
  EXPECT_EQ(identity_parent(sample.encoded()), sample.identity.parent);
  EXPECT_EQ(identity_parent(Sample(0).encoded()), sample.identity.parent);
}

TEST(IdentityDeathTest, AbortsWhereNoParentCanStand) {
  const std::vector<std::byte> bytes(identity_bytes(0) - 1);
  EXPECT_DEATH(identity_parent(bytes), "check failed");
}

TEST(IdentityDeathTest, AbortsOnABufferOfAnotherSize) {
  const Sample sample(16);
  std::vector<std::byte> bytes(identity_bytes(16) + 64);
  EXPECT_DEATH(encode_identity(sample.identity, bytes), "check failed");
  EXPECT_DEATH(encode_identity(sample.identity, std::span(bytes).first(identity_bytes(16) - 1)), "check failed");
}

TEST(Identity, DecodesWhatItEncodes) {
  const std::vector<Token> tokens{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  const Digest keyspace = sha256(std::as_bytes(std::span("keyspace")));
  const Identity identity{.keyspace = keyspace, .parent = root_key(keyspace), .position = 48, .tokens = tokens};
  std::vector<std::byte> bytes(identity_bytes(tokens.size()));
  encode_identity(identity, bytes);
  const Result<IdentityRecord> decoded = decode_identity(bytes, 16);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->keyspace, keyspace);
  EXPECT_EQ(decoded->parent, identity.parent);
  EXPECT_EQ(decoded->position, 48u);
  EXPECT_EQ(decoded->tokens, tokens);
  EXPECT_EQ(decode_identity(bytes, 15).error().code, Code::kDataLoss) << "more tokens than there can be";
  EXPECT_FALSE(decode_identity(std::span(bytes).first(bytes.size() - 1), 16));
  EXPECT_FALSE(decode_identity(std::span(bytes).first(70), 16));
  bytes.back() = std::byte{1};
  EXPECT_FALSE(decode_identity(bytes, 16)) << "padding that is not zero";
}

}  // namespace
}  // namespace rhizome
