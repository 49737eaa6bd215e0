#include "index/index.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/weak_kernels.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlock = 4;

// An index and one caller of it, who stores a block of tokens under the location that is its number.
class IndexTest : public testing::Test {
 protected:
  explicit IndexTest(IndexOptions options = {.block_tokens = kBlock, .roots_max = 3, .recency = Recency::kExact})
      : index_(options) {}

  Root open(std::string_view name) { return *index_.open(std::as_bytes(std::span(name))); }

  Match look(Root root, const std::vector<Token>& tokens) {
    found_.assign(tokens.size() / kBlock, 0);
    Match match = index_.lookup(root, tokens, found_);
    found_.resize(match.blocks);
    return match;
  }

  size_t hit(Root root, const std::vector<Token>& tokens) {
    Match match = look(root, tokens);
    EXPECT_TRUE(index_.release(std::move(match.handle)));
    return match.blocks;
  }

  // Stores all whole blocks that are not stored, in new locations; the pin is the caller's.
  Handle store_and_hold(Root root, const std::vector<Token>& tokens) {
    Match match = look(root, tokens);
    const size_t blocks = tokens.size() / kBlock;
    if (match.blocks == blocks) return std::move(match.handle);
    std::vector<Location> locations;
    for (size_t i = match.blocks; i < blocks; ++i)
      locations.push_back(++last_location_);
    std::vector<Location> canonical(locations.size());
    Result<Inserted> inserted =
        index_.insert(root, match.handle, std::span(tokens).first(blocks * kBlock), match.blocks, locations, canonical);
    EXPECT_TRUE(inserted);
    split_at_ = inserted->split_at;
    return std::move(inserted->handle);
  }

  void store(Root root, const std::vector<Token>& tokens) { EXPECT_TRUE(index_.release(store_and_hold(root, tokens))); }

  std::vector<Location> evict(size_t count) {
    std::vector<Location> out(count);
    out.resize(index_.evict(out));
    return out;
  }

  std::vector<Location> reap() {
    std::vector<Location> out(100);
    out.resize(index_.reap(out));
    return out;
  }

  Index index_;
  std::vector<Location> found_;
  Location last_location_ = 0;
  uint32_t split_at_ = Inserted::kNoSplit;
};

class CollidingIndexTest : public IndexTest {
 protected:
  CollidingIndexTest() : IndexTest({.block_tokens = kBlock, .recency = Recency::kExact, .kernels = &kWeak}) {}

 private:
  inline static const Kernels kWeak = weak_kernels<0>(kBlock);
};

const std::vector<Token> kEight{1, 2, 3, 4, 5, 6, 7, 8};

// W1: every hash collides, and the tokens decide all the same.
TEST_F(CollidingIndexTest, TokensAreComparedWhateverTheirHashes) {
  const Root a = open("a");
  store(a, kEight);
  EXPECT_EQ(hit(a, {9, 10, 11, 12, 13, 14, 15, 16}), 0u);
  EXPECT_EQ(hit(a, kEight), 2u);
  EXPECT_EQ(found_, (std::vector<Location>{1, 2}));
}

// W2: equal in the last block and in length is not equal.
TEST_F(CollidingIndexTest, TheWholePrefixIsPartOfTheKey) {
  const Root a = open("a");
  store(a, {1, 2, 3, 4, 7, 7, 7, 7});
  EXPECT_EQ(hit(a, {5, 6, 7, 8, 7, 7, 7, 7}), 0u);
  EXPECT_EQ(hit(a, {7, 7, 7, 7}), 0u);
  store(a, {5, 6, 7, 8});
  EXPECT_EQ(hit(a, {5, 6, 7, 8, 7, 7, 7, 7}), 1u);
  EXPECT_EQ(hit(a, {1, 2, 3, 4, 7, 7, 7, 7}), 2u);
}

TEST_F(CollidingIndexTest, RootsNeverMeet) {
  const Root a = open("a");
  const Root b = open("b");
  store(a, kEight);
  EXPECT_EQ(hit(b, kEight), 0u);
  EXPECT_EQ(hit(a, kEight), 2u);
}

TEST_F(IndexTest, OneEncodingIsOneRoot) {
  const Root a = open("a");
  EXPECT_EQ(open("a"), a);
  EXPECT_NE(open("ab"), a);
  EXPECT_NE(open(std::string_view("a\0", 2)), a);
  EXPECT_EQ(index_.open({}).error().code, Code::kResourceExhausted);
  EXPECT_EQ(open("a"), a);
}

TEST_F(IndexTest, UnknownRootIsAMiss) {
  Match match = look({7}, kEight);
  EXPECT_EQ(match.blocks, 0u);
  EXPECT_TRUE(match.handle.empty());
  EXPECT_EQ(index_.peek({0}, kEight), 0u);
}

TEST_F(IndexTest, ReasonsSayWhereALookupStopped) {
  const Root a = open("a");
  store(a, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const struct {
    std::vector<Token> tokens;
    Reason reason;
    uint64_t stopped_at;
  } cases[] = {
      {{}, Reason::kFull, 0},
      {{1}, Reason::kPartialBlock, 0},
      {{2, 2, 2, 2}, Reason::kNeverStored, 0},
      {{1, 2, 3, 5}, Reason::kNeverStored, 0},
      {kEight, Reason::kFull, 8},
      {{1, 2, 3, 4, 5, 6, 7, 8, 9}, Reason::kPartialBlock, 8},
      {{1, 2, 3, 4, 5, 6, 0, 8}, Reason::kDiverged, 6},
      {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 1, 1, 1}, Reason::kNeverStored, 12},
  };
  for (const auto& tested : cases) {
    Match match = look(a, tested.tokens);
    const Explanation why = index_.explain(a, tested.tokens, match);
    EXPECT_EQ(why.reason, tested.reason) << testing::PrintToString(tested.tokens);
    EXPECT_EQ(why.stopped_at, tested.stopped_at) << testing::PrintToString(tested.tokens);
    EXPECT_TRUE(index_.release(std::move(match.handle)));
  }
  // Where several continuations branch off, one of them is looked at.
  store(a, {1, 2, 3, 4, 8, 8, 8, 8});
  store(a, {1, 2, 3, 4, 8, 8, 9, 9});
  const std::vector<Token> other{1, 2, 3, 4, 8, 8, 9, 8};
  Match match = look(a, other);
  const Explanation why = index_.explain(a, other, match);
  EXPECT_EQ(why.reason, Reason::kDiverged);
  EXPECT_GE(why.stopped_at, 4u);
  EXPECT_LE(why.stopped_at, 7u);
  EXPECT_TRUE(index_.release(std::move(match.handle)));
}

TEST_F(IndexTest, InsertReportsWhereItSplit) {
  const Root a = open("a");
  store(a, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(split_at_, Inserted::kNoSplit);
  store(a, {1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0});
  EXPECT_EQ(split_at_, 2u);
  EXPECT_EQ(hit(a, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), 3u);
  EXPECT_EQ(found_, (std::vector<Location>{1, 2, 3}));
  EXPECT_EQ(hit(a, {1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0}), 3u);
  EXPECT_EQ(found_, (std::vector<Location>{1, 2, 4}));
}

// R7, and node-owned references: whoever comes second gets the first one's blocks.
TEST_F(IndexTest, DuplicatesComeBackToWhoeverCameSecond) {
  const Root a = open("a");
  Match first = look(a, kEight);
  Match second = look(a, kEight);
  std::vector<Location> canonical(2);
  Result<Inserted> stored = index_.insert(a, first.handle, kEight, 0, std::vector<Location>{10, 11}, canonical);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->stored_before, 0u);
  const std::vector<Token> longer{1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9};
  canonical.resize(3);
  Result<Inserted> again = index_.insert(a, second.handle, longer, 0, std::vector<Location>{20, 21, 22}, canonical);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->stored_before, 2u);
  EXPECT_EQ(canonical, (std::vector<Location>{10, 11, 22}));
  EXPECT_EQ(index_.usage().blocks, 3u);
  EXPECT_TRUE(index_.release(std::move(stored->handle)));
  EXPECT_TRUE(index_.release(std::move(again->handle)));
}

TEST_F(IndexTest, BadInsertsChangeNothing) {
  const Root a = open("a");
  Match match = look(a, kEight);
  std::vector<Location> canonical(1);
  const std::vector<Location> one{5};
  EXPECT_EQ(index_.insert(a, match.handle, {}, 0, {}, {}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(index_.insert(a, match.handle, kEight, 0, one, canonical).error().code, Code::kInvalidArgument);
  EXPECT_EQ(index_.insert(a, match.handle, std::span(kEight).first(3), 0, one, canonical).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(index_.insert(a, match.handle, kEight, 1, one, canonical).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(index_.usage().blocks, 0u);
  EXPECT_TRUE(index_.release(std::move(match.handle)));
}

// R5: a second release is refused, and what was evictable stays so.
TEST_F(IndexTest, SecondReleaseIsRefused) {
  const Root a = open("a");
  const uint64_t pin = Handle::pack(store_and_hold(a, kEight));
  EXPECT_TRUE(index_.release(Handle::unpack(pin)));
  EXPECT_EQ(index_.release(Handle::unpack(pin)).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(index_.release(Handle::unpack(uint64_t{3} << 32 | 4711)).error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(index_.release(Handle()));
  EXPECT_EQ(evict(9).size(), 2u);
}

TEST_F(IndexTest, EvictsDeepestFirstFromTheLeastRecentlyUsed) {
  const Root a = open("a");
  store(a, {1, 1, 1, 1, 2, 2, 2, 2});  // locations 1, 2
  store(a, {3, 3, 3, 3});              // 3
  EXPECT_EQ(evict(0).size(), 0u);
  EXPECT_EQ(hit(a, {1, 1, 1, 1, 2, 2, 2, 2}), 2u);
  EXPECT_EQ(index_.peek(open("a"), std::vector<Token>{3, 3, 3, 3}), 1u);  // a peek is no use
  EXPECT_EQ(evict(1), (std::vector<Location>{3}));
  EXPECT_EQ(evict(1), (std::vector<Location>{2}));
  EXPECT_EQ(hit(a, {1, 1, 1, 1, 2, 2, 2, 2}), 1u);
  EXPECT_EQ(evict(5), (std::vector<Location>{1}));
}

// E5: a trunk outlives its branches, and is as fresh as they are.
TEST_F(IndexTest, ParentsOutliveTheirChildren) {
  const Root a = open("a");
  store(a, {1, 1, 1, 1});              // 1
  store(a, {9, 9, 9, 9});              // 2
  store(a, {1, 1, 1, 1, 2, 2, 2, 2});  // 3
  store(a, {1, 1, 1, 1, 3, 3, 3, 3});  // 4
  EXPECT_EQ(evict(2), (std::vector<Location>{2, 3}));
  store(a, {8, 8, 8, 8});  // 5
  EXPECT_EQ(evict(3), (std::vector<Location>{4, 1, 5}));
}

// What is held is in use until it is let go.
TEST_F(IndexTest, AUseCountsWhenItEnds) {
  const Root a = open("a");
  Handle other = store_and_hold(a, {9, 9, 9, 9});  // 1
  store(a, {1, 1, 1, 1});                          // 2
  store(a, {1, 1, 1, 1, 3, 3, 3, 3});              // 3
  EXPECT_TRUE(index_.release(std::move(other)));
  EXPECT_EQ(evict(3), (std::vector<Location>{3, 2, 1}));
}

// Of a run that a prompt left half-way, only the part that it used is as fresh as the prompt.
TEST_F(IndexTest, WhatIsBehindACutIsAsOldAsItWas) {
  const Root a = open("a");
  store(a, {1, 1, 1, 1, 2, 2, 2, 2});  // 1, 2
  store(a, {5, 5, 5, 5});              // 3
  store(a, {1, 1, 1, 1, 7, 7, 7, 7});  // 4
  EXPECT_EQ(evict(4), (std::vector<Location>{2, 3, 4, 1}));
}

TEST_F(IndexTest, HeldBlocksAreNotEvicted) {
  const Root a = open("a");
  Handle held = store_and_hold(a, kEight);
  store(a, {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9});
  store(a, {6, 6, 6, 6});
  EXPECT_EQ(index_.pins(a).blocks, 2u);
  EXPECT_EQ(evict(10).size(), 2u);
  EXPECT_EQ(hit(a, kEight), 2u);
  EXPECT_TRUE(index_.release(std::move(held)));
  EXPECT_EQ(index_.pins(a).blocks, 0u);
  EXPECT_EQ(evict(10).size(), 2u);
}

// R8: a pin taken in the middle of a run comes off wherever the run is cut later.
TEST_F(IndexTest, PinInTheMiddleOfARunSurvivesItsSplit) {
  const Root a = open("a");
  store(a, kEight);
  Match match = look(a, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(match.blocks, 1u);
  store(a, {1, 2, 3, 4, 9, 9, 9, 9});
  EXPECT_EQ(split_at_, 1u);
  EXPECT_TRUE(index_.release(std::move(match.handle)));
  EXPECT_EQ(evict(10).size(), 3u);
  EXPECT_EQ(index_.usage().runs, 1u);
}

TEST_F(IndexTest, PinInTheMiddleOfARunLeadsOnAfterItsSplit) {
  const Root a = open("a");
  store(a, {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9});
  Match match = look(a, {1, 2, 3, 4});
  store(a, {1, 2, 3, 4, 5, 6, 7, 8, 7, 7, 7, 7});
  std::vector<Location> canonical(2);
  const std::vector<Token> other{1, 2, 3, 4, 6, 6, 6, 6, 6, 6, 6, 6};
  Result<Inserted> inserted = index_.insert(a, match.handle, other, 1, std::vector<Location>{50, 51}, canonical);
  ASSERT_TRUE(inserted);
  EXPECT_EQ(inserted->split_at, 1u);
  EXPECT_TRUE(index_.release(std::move(inserted->handle)));
  EXPECT_EQ(hit(a, other), 3u);
  EXPECT_EQ(found_, (std::vector<Location>{1, 50, 51}));
}

TEST_F(IndexTest, RemovedBlocksAreGoneAtOnceAndTheirMemoryWithTheLastPin) {
  const Root a = open("a");
  store(a, {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});               // 1 2 3
  store(a, {1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4});               // 4
  Handle reader = store_and_hold(a, {1, 1, 1, 1, 5, 5, 5, 5});  // 5
  Match match = look(a, {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  EXPECT_EQ(index_.remove(match.handle, 1), 3u);
  EXPECT_EQ(index_.remove(match.handle, 1), 0u);
  EXPECT_EQ(hit(a, {1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3}), 1u);
  EXPECT_EQ(hit(a, {1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4}), 1u);
  EXPECT_EQ(hit(a, {1, 1, 1, 1, 5, 5, 5, 5}), 2u);
  EXPECT_EQ(reap(), (std::vector<Location>{4}));
  EXPECT_EQ(index_.usage().removed_blocks, 2u);
  // The same blocks, stored anew beside the old ones that are still held.
  store(a, {1, 1, 1, 1, 2, 2, 2, 2});  // 6
  EXPECT_EQ(hit(a, {1, 1, 1, 1, 2, 2, 2, 2}), 2u);
  EXPECT_EQ(found_, (std::vector<Location>{1, 6}));
  EXPECT_TRUE(index_.release(std::move(match.handle)));
  std::vector<Location> gone = reap();
  std::sort(gone.begin(), gone.end());
  EXPECT_EQ(gone, (std::vector<Location>{2, 3}));
  EXPECT_TRUE(index_.release(std::move(reader)));
  EXPECT_EQ(evict(10).size(), 3u);
  EXPECT_EQ(index_.usage().runs, 1u);
}

TEST_F(IndexTest, InsertBelowARemovedBlockIsRefused) {
  const Root a = open("a");
  Handle held = store_and_hold(a, kEight);
  EXPECT_EQ(index_.remove(held, 1), 1u);
  const std::vector<Token> longer{1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9};
  std::vector<Location> canonical(1);
  EXPECT_EQ(index_.insert(a, held, longer, 2, std::vector<Location>{30}, canonical).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(index_.usage().blocks, 1u);
  EXPECT_TRUE(index_.release(std::move(held)));
  EXPECT_EQ(reap().size(), 1u);
}

TEST_F(IndexTest, TokensAtTheEndsOfTheirRangeAndAVeryLongRun) {
  const Root a = open("a");
  store(a, {0, UINT32_MAX, 0, UINT32_MAX});
  EXPECT_EQ(hit(a, {0, UINT32_MAX, 0, UINT32_MAX}), 1u);
  EXPECT_EQ(hit(a, {0, UINT32_MAX, 0, UINT32_MAX - 1}), 0u);
  std::vector<Token> tokens(1 << 20);
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<Token>(i * 2654435761u);
  store(a, tokens);
  EXPECT_EQ(hit(a, tokens), tokens.size() / kBlock);
  EXPECT_EQ(index_.usage().runs, 3u);
}

// Decode growth: block after block, by one who holds the end.
TEST_F(IndexTest, ATextThatOneHolderExtendsTakesFewRuns) {
  const Root a = open("a");
  std::vector<Token> tokens{1, 2, 3, 4};
  Handle handle = store_and_hold(a, tokens);
  for (Token i = 0; i < 100; ++i) {
    tokens.insert(tokens.end(), {i, i, i, i});
    std::vector<Location> canonical(1);
    Result<Inserted> inserted = index_.insert(a, handle, tokens, i + 1, std::vector<Location>{1000 + i}, canonical);
    ASSERT_TRUE(inserted);
    handle = std::move(inserted->handle);
  }
  EXPECT_LE(index_.usage().runs, 8u);
  EXPECT_EQ(index_.pins(a).blocks, 101u);
  EXPECT_TRUE(index_.release(std::move(handle)));
  EXPECT_EQ(hit(a, tokens), 101u);
}

TEST_F(IndexTest, DescriptionOfABlockIsSmall) {
  EXPECT_LE(Index::block_bytes_max(16), 512u);
  EXPECT_LE(Index::block_bytes_max(256), 4800u);
}

}  // namespace
}  // namespace rhizome
