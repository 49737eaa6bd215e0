// Faults that other caches had, at the level of keys and identities. Every "must not match" has its
// twin that must: a key that never matches anything would pass the negatives alone.

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "block/block_fixture.h"
#include "block/block_key.h"
#include "block/identity.h"
#include "block/layout.h"
#include "block/oracle.h"

namespace rhizome {
namespace {

// The keys of all whole blocks of a prompt.
std::vector<BlockKey> keys_of(const Keyspace& keyspace, std::span<const Token> prompt, size_t block_tokens) {
  std::vector<BlockKey> keys;
  BlockKey parent = root_key(keyspace.digest());
  for (size_t at = 0; at + block_tokens <= prompt.size(); at += block_tokens) {
    parent = next_key(parent, prompt.subspan(at, block_tokens));
    keys.push_back(parent);
  }
  return keys;
}

// Encoded identities of all whole blocks of a prompt.
std::vector<std::vector<std::byte>> identities_of(const Keyspace& keyspace, std::span<const Token> prompt,
                                                  size_t block_tokens) {
  std::vector<std::vector<std::byte>> out;
  BlockKey parent = root_key(keyspace.digest());
  for (size_t at = 0; at + block_tokens <= prompt.size(); at += block_tokens) {
    const std::span<const Token> tokens = prompt.subspan(at, block_tokens);
    const Identity identity{
        .keyspace = keyspace.digest(), .parent = parent, .position = static_cast<uint32_t>(at), .tokens = tokens};
    encode_identity(identity, out.emplace_back(identity_bytes(block_tokens)));
    parent = next_key(parent, tokens);
  }
  return out;
}

// True if no block of one is a block of the other, by key and by identity.
bool share_nothing(const Keyspace& a, const Keyspace& b, std::span<const Token> prompt, size_t block_tokens) {
  for (const BlockKey& key_a : keys_of(a, prompt, block_tokens)) {
    for (const BlockKey& key_b : keys_of(b, prompt, block_tokens)) {
      if (key_a == key_b) return false;
    }
  }
  return identities_of(a, prompt, block_tokens) != identities_of(b, prompt, block_tokens);
}

const std::vector<Token> kPrompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

TEST(NegativePairs, BlocksWithTheSameEndDiffer) {
  const Keyspace keyspace = golden_builder().seal().value();
  const std::vector<Token> a = {1, 2, 3, 4, 7, 7, 7, 7};
  const std::vector<Token> b = {5, 6, 7, 8, 7, 7, 7, 7};
  EXPECT_FALSE(keys_of(keyspace, a, 4)[1] == keys_of(keyspace, b, 4)[1]);
  EXPECT_NE(identities_of(keyspace, a, 4)[1], identities_of(keyspace, b, 4)[1]);
  EXPECT_EQ(keys_of(keyspace, a, 4), keys_of(keyspace, a, 4));
  EXPECT_EQ(identities_of(keyspace, a, 4), identities_of(keyspace, a, 4));
}

TEST(NegativePairs, BlocksWithTheSameTokensBehindAnotherPrefixDiffer) {
  const Keyspace keyspace = golden_builder().seal().value();
  const BlockKey p = next_key(root_key(keyspace.digest()), std::vector<Token>{1});
  const BlockKey q = next_key(root_key(keyspace.digest()), std::vector<Token>{9});
  const std::vector<Token> x = {7, 7};
  EXPECT_FALSE(next_key(p, x) == next_key(q, x));
  EXPECT_EQ(next_key(p, x), next_key(p, x));

  std::vector<std::byte> bytes(identity_bytes(2));
  encode_identity({.keyspace = keyspace.digest(), .parent = p, .position = 1, .tokens = x}, bytes);
  EXPECT_FALSE(identity_matches(bytes, {.keyspace = keyspace.digest(), .parent = q, .position = 1, .tokens = x}));
  EXPECT_TRUE(identity_matches(bytes, {.keyspace = keyspace.digest(), .parent = p, .position = 1, .tokens = x}));
}

TEST(NegativePairs, TheSameTokensInOtherBlocksDiffer) {
  const Keyspace keyspace = golden_builder().seal().value();
  const std::vector<BlockKey> fours = keys_of(keyspace, kPrompt, 4);
  const std::vector<BlockKey> eights = keys_of(keyspace, kPrompt, 8);
  for (const BlockKey& four : fours) {
    for (const BlockKey& eight : eights)
      EXPECT_FALSE(four == eight);
  }
  // The same 8 tokens end here in both cuttings.
  EXPECT_FALSE(fours[1] == eights[0]);
  // And the block size is in the layout, so the keyspaces differ before that.
  const Layout small{.block_tokens = 4, .parts = {{.row_bytes = 64}}};
  const Layout large{.block_tokens = 8, .parts = {{.row_bytes = 64}}};
  const Keyspace four = golden_builder().set(KeyspaceTag::kLayout, small.encoding()).seal().value();
  const Keyspace eight = golden_builder().set(KeyspaceTag::kLayout, large.encoding()).seal().value();
  EXPECT_FALSE(four == eight);
  EXPECT_EQ(four, golden_builder().set(KeyspaceTag::kLayout, small.encoding()).seal().value());
}

TEST(NegativePairs, AdaptersAndTheirScalesDiffer) {
  const auto with_adapter = [](unsigned adapter, float scale) {
    std::string value(reinterpret_cast<const char*>(counting_digest(adapter).data()), sizeof(Digest));
    value.append(reinterpret_cast<const char*>(&scale), sizeof scale);
    return golden_builder().set(KeyspaceTag::kAdapters, value).seal().value();
  };
  const Keyspace keyspaces[] = {golden_builder().seal().value(), with_adapter(1, 1.0f), with_adapter(1, 0.5f),
                                with_adapter(2, 1.0f)};
  for (const Keyspace& a : keyspaces) {
    for (const Keyspace& b : keyspaces) {
      EXPECT_EQ(share_nothing(a, b, kPrompt, 4), &a != &b);
    }
  }
  EXPECT_FALSE(share_nothing(with_adapter(1, 0.5f), with_adapter(1, 0.5f), kPrompt, 4));
}

TEST(NegativePairs, MediaDifferInEveryByteOfTheirDigest) {
  const auto with_media = [](const Digest& media) {
    return golden_builder().set(KeyspaceTag::kMedia, media).seal().value();
  };
  // Placeholders all share one token; only the digest tells the pictures apart.
  const std::vector<Token> placeholders(16, 32'000);
  const Keyspace base = with_media(counting_digest());
  for (size_t i = 0; i < sizeof(Digest); ++i) {
    Digest other = counting_digest();
    other[i] ^= std::byte{0x80};
    EXPECT_TRUE(share_nothing(base, with_media(other), placeholders, 4)) << i;
  }
  EXPECT_FALSE(share_nothing(base, with_media(counting_digest()), placeholders, 4));
  EXPECT_TRUE(share_nothing(base, golden_builder().seal().value(), placeholders, 4));
}

TEST(NegativePairs, EverythingTheBytesDependOnDiffers) {
  const auto layout = [](uint32_t block_tokens, uint32_t layers, uint32_t type, uint64_t row_bytes) {
    Layout made{.block_tokens = block_tokens, .parts = {}};
    for (uint32_t layer = 0; layer < layers; ++layer) {
      made.parts.push_back({.layer = layer, .element_type = type, .row_bytes = row_bytes});
    }
    return made.encoding();
  };
  const auto base = [&layout] { return golden_builder().set(KeyspaceTag::kLayout, layout(4, 2, 1, 64)); };
  const std::pair<const char*, KeyspaceBuilder> rows[] = {
      {"weights", base().set(KeyspaceTag::kWeights, counting_digest(1))},
      {"KV type of the same width", base().set(KeyspaceTag::kLayout, layout(4, 2, 30, 64))},
      {"KV width", base().set(KeyspaceTag::kLayout, layout(4, 2, 1, 32))},
      {"layers", base().set(KeyspaceTag::kLayout, layout(4, 1, 1, 64))},
      {"block size", base().set(KeyspaceTag::kLayout, layout(8, 2, 1, 64))},
      {"rope base", base().set(KeyspaceTag::kRope, "neox,1e4")},
      {"rope scaling", base().set(KeyspaceTag::kRope, "neox,1e6,yarn")},
      {"rotation", base().set(KeyspaceTag::kRotation, "1")},
      {"attention", base().set(KeyspaceTag::kAttention, "bidirectional")},
      {"memory class", base().set(KeyspaceTag::kMemoryClass, "window:128")},
      {"engine revision", base().set(KeyspaceTag::kEngine, "llama.cpp/seq-4")},
      {"overrides", base().set(KeyspaceTag::kOverrides, "experts=4")},
      {"control vector", base().set(KeyspaceTag::kControlVector, counting_digest())},
      {"tenant", base().set(KeyspaceTag::kTenant, "b")},
      {"salt", base().set(KeyspaceTag::kSalt, "s")},
      {"epoch", base().set(KeyspaceTag::kEpoch, "2")},
      {"numerics", base().set(KeyspaceTag::kNumerics, "exact")},
  };
  const Keyspace one = base().seal().value();
  std::set<Digest> digests{one.digest()};
  for (const auto& [what, builder] : rows) {
    const Keyspace other = builder.seal().value();
    EXPECT_TRUE(share_nothing(one, other, kPrompt, 4)) << what;
    EXPECT_TRUE(digests.insert(other.digest()).second) << what;
    std::vector<std::byte> payload(256);
    fill_oracle(payload, one.digest(), kPrompt);
    EXPECT_FALSE(oracle_matches(payload, other.digest(), kPrompt)) << what;
  }
  EXPECT_FALSE(share_nothing(one, base().seal().value(), kPrompt, 4));
}

}  // namespace
}  // namespace rhizome
