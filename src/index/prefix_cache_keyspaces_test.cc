#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "block/keyspace.h"
#include "index/prefix_cache.h"
#include "index/prefix_cache_fixture.h"
#include "index/weak_kernels.h"

namespace rhizome {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Feature 10, W3: an adapter's blocks are its own, in look-ups and peeks; adapter 0 is none.
TEST_F(PrefixCacheTest, Feature10AdaptersNeverMeet) {
  std::vector<Root> roots;
  for (uint64_t adapter = 0; adapter < 4; ++adapter)
    roots.push_back(*cache_.open({.adapter = adapter}));
  EXPECT_EQ(roots[0], base_);
  for (size_t stored = 0; stored < roots.size(); ++stored) {
    store(roots[stored], kEight);
    EXPECT_EQ(cache_.usage().blocks, 2 * (stored + 1));
    for (size_t asked = 0; asked < roots.size(); ++asked) {
      const uint64_t expected = asked <= stored ? 8 : 0;
      EXPECT_EQ(matched(roots[asked], kEight), expected);
      EXPECT_EQ(cache_.peek(roots[asked], kEight), expected);
    }
  }
  // The same adapter, opened again, is the same keyspace.
  EXPECT_EQ(matched(*cache_.open({.adapter = 3}), kEight), 8u);
}

// Feature 22, bug 14, W5: equal placeholder tokens, different pictures, however little their digests differ.
TEST_F(PrefixCacheTest, Feature22Bug14PicturesNeverMeet) {
  std::vector<std::byte> digest(32, std::byte{7});
  const Root picture = *cache_.open({.media = digest});
  store(picture, {7, 7, 7, 7, 7, 7, 7, 7});
  EXPECT_EQ(matched(base_, {7, 7, 7, 7, 7, 7, 7, 7}), 0u);
  for (const size_t at : {0, 15, 29, 31}) {
    std::vector<std::byte> other = digest;
    other[at] ^= std::byte{1};
    EXPECT_EQ(matched(*cache_.open({.media = other}), {7, 7, 7, 7, 7, 7, 7, 7}), 0u) << at;
  }
  EXPECT_EQ(matched(*cache_.open({.media = digest}), {7, 7, 7, 7, 7, 7, 7, 7}), 8u);
}

// Bug 15, U14: two models that differ in one field of their identity.
TEST_F(PrefixCacheTest, Bug15EveryFieldOfTheModelCounts) {
  const KeyspaceTag tags[] = {KeyspaceTag::kEngine,   KeyspaceTag::kWeights,       KeyspaceTag::kOverrides,
                              KeyspaceTag::kLayout,   KeyspaceTag::kMemoryClass,   KeyspaceTag::kRope,
                              KeyspaceTag::kRotation, KeyspaceTag::kAttention,     KeyspaceTag::kAdapters,
                              KeyspaceTag::kSalt,     KeyspaceTag::kControlVector, KeyspaceTag::kTenant,
                              KeyspaceTag::kNumerics, KeyspaceTag::kEpoch,         KeyspaceTag::kMedia};
  const auto model = [&](KeyspaceTag changed, std::string_view value) {
    KeyspaceBuilder builder;
    for (const KeyspaceTag tag : tags)
      builder.set(tag, tag == changed ? value : "same");
    return *builder.seal();
  };
  const Keyspace stored = model(KeyspaceTag::kEngine, "same");
  store(*cache_.open({.base = stored.encoding()}), kEight);
  for (const KeyspaceTag tag : tags) {
    const Keyspace other = model(tag, "another");
    EXPECT_EQ(matched(*cache_.open({.base = other.encoding()}), kEight), 0u) << keyspace_tag_name(tag);
  }
  const Keyspace again = model(KeyspaceTag::kEngine, "same");
  EXPECT_EQ(matched(*cache_.open({.base = again.encoding()}), kEight), 8u);
}

// The parts are framed: bytes that move from one to the next make another keyspace.
TEST(PrefixCacheEncoding, PartsAreFramed) {
  const KeyspaceParts all[] = {
      {},
      {.base = bytes("ab")},
      {.base = bytes("a")},
      {.base = bytes("a"), .media = bytes("b")},
      {.media = bytes("ab")},
      {.media = bytes("a")},
      {.base = bytes("a"), .adapter = 'b'},
      {.adapter = 'a'},
      {.adapter = uint64_t{'a'} << 8},
      {.adapter = 'a', .media = bytes("a")},
      {.base = bytes(std::string_view("a\0\0\0\0\0\0\0", 8))},
      {.media = bytes(std::string_view("a\0\0\0\0\0\0\0", 8))},
      // What looks like a frame of media behind "a", of length 1 and of none.
      {.base = bytes(std::string_view("a\3\0\1\0\0\0b", 8))},
      {.base = bytes(std::string_view("a\3\0\0\0\0\0b", 8))},
  };
  for (const KeyspaceParts& one : all) {
    for (const KeyspaceParts& other : all)
      EXPECT_EQ(encode(one) == encode(other), &one == &other);
  }
  // What another set of parts is encoded as, given as a part, is not that set.
  const std::vector<std::byte> inner = encode(all[3]);
  EXPECT_NE(encode({.base = inner}), inner);
  EXPECT_TRUE(encode({}).empty());
}

// W1: every hash collides, and tokens decide.
TEST(PrefixCacheCollisions, TokensDecide) {
  const Kernels kernels = weak_kernels<0>(kBlock);
  PrefixCacheOptions options = small();
  options.kernels = &kernels;
  PrefixCache cache(options);
  const Root root = *cache.open({});
  PrefixHandle handle;
  ASSERT_TRUE(cache.insert(root, handle, kEight, 0, {.blocks = Blocks{5, 6}}));
  EXPECT_EQ(cache.peek(root, Tokens{8, 7, 6, 5, 4, 3, 2, 1}), 0u);
  EXPECT_EQ(cache.peek(root, kEight), 8u);
  EXPECT_TRUE(cache.release(std::move(handle)));
}

// --- clearing

// W11: what was stored, looked up or computed before new weights is not found and not stored after them.
TEST_F(PrefixCacheTest, EpochsLeaveNothingBehind) {
  const Root other = *cache_.open({.adapter = 1});
  store(base_, kEight);
  store(other, kEight);
  Request held = run(base_, kEight);
  PrefixHandle missed = look_up(cache_, base_, Tokens{9, 9, 9, 9}).match.handle;
  cache_.start_epoch();
  EXPECT_EQ(matched(base_, kEight) + matched(other, kEight), 0u);
  const Blocks late{pools_.blocks.take()};
  EXPECT_EQ(cache_.insert(base_, missed, Tokens{9, 9, 9, 9}, 0, {.blocks = late}).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(cache_.insert(base_, held.handle, kTwelve, 2, {.blocks = late}).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(resume(cache_, held.handle, Tokens{9, 9, 9, 9}).match.matched_tokens, 0u);
  EXPECT_TRUE(held.handle.empty());
  EXPECT_TRUE(cache_.release(std::move(missed)));
  pools_.blocks.lower(late);
  finish(std::move(held));
  store(base_, {9, 9, 9, 9});
  EXPECT_EQ(matched(base_, {9, 9, 9, 9}), 4u);
  const EvictedBlocks reaped = cache_.reap(100);
  EXPECT_EQ(reaped.physical.size(), 4u);
  pools_.apply(reaped);
}

TEST_F(PrefixCacheTest, ClearEmptiesOneKeyspace) {
  const Root other = *cache_.open({.adapter = 1});
  Request held = run(base_, kEight);
  store(other, kEight);
  EXPECT_TRUE(cache_.clear(base_));
  EXPECT_EQ(matched(base_, kEight), 0u);
  EXPECT_EQ(matched(other, kEight), 8u);
  EXPECT_EQ(cache_.reap(100).physical, Blocks());  // still held
  finish(std::move(held));
  EXPECT_EQ(evict(1).size(), 1u);
  EXPECT_EQ(evict(1).size(), 1u);
  EXPECT_EQ(matched(other, kEight), 8u);  // what was cleared goes first
  EXPECT_TRUE(cache_.close(other));
  EXPECT_EQ(matched(other, kEight), 0u);
  EXPECT_EQ(cache_.close(other).error().code, Code::kNotFound);
  EXPECT_EQ(cache_.clear({4711}).error().code, Code::kNotFound);
  PrefixHandle none;
  EXPECT_EQ(cache_.insert(other, none, kEight, 0, {.blocks = Blocks{1, 2}}).error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace rhizome
