// Keyspaces that end, prompts that go on, and bad input.
#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/index.h"
#include "index/policy.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlock = 4;

class IndexLife : public testing::Test {
 protected:
  explicit IndexLife(IndexOptions options = {.block_tokens = kBlock, .roots_max = 2, .recency = Recency::kExact})
      : index_(options) {}

  Root open(std::string_view name) { return *index_.open(std::as_bytes(std::span(name))); }

  static std::vector<Token> blocks_of(const std::vector<Token>& names) {
    std::vector<Token> tokens;
    for (const Token name : names)
      tokens.insert(tokens.end(), kBlock, name);
    return tokens;
  }

  // At locations that are the blocks' names.
  Handle store(Root root, const std::vector<Token>& names) {
    const std::vector<Token> tokens = blocks_of(names);
    std::vector<Location> canonical(names.size());
    Handle handle;
    Result<Inserted> inserted = index_.insert(root, handle, tokens, 0, names, canonical);
    EXPECT_TRUE(inserted);
    return inserted ? std::move(inserted->handle) : Handle();
  }

  std::vector<Location> look(Root root, const std::vector<Token>& names) {
    const std::vector<Token> tokens = blocks_of(names);
    std::vector<Location> found(names.size());
    Match match = index_.lookup(root, tokens, found);
    found.resize(match.blocks);
    reason_ = index_.explain(root, tokens, match).reason;
    EXPECT_TRUE(index_.release(std::move(match.handle)));
    return found;
  }

  std::vector<Location> drain(bool reap) {
    std::vector<Location> out(1000);
    out.resize(reap ? index_.reap(out) : index_.evict(out));
    std::sort(out.begin(), out.end());
    return out;
  }

  Index index_;
  Reason reason_ = Reason::kFull;
};

using Locations = std::vector<Location>;

TEST_F(IndexLife, OnlyWhatMayLeaveIsEvicted) {
  const Root a = open("a");
  EXPECT_TRUE(index_.release(store(a, {1, 2, 3, 4})));
  EXPECT_TRUE(index_.release(store(a, {1, 2, 5})));
  EXPECT_TRUE(index_.release(store(a, {6, 7})));
  Handle held = store(a, {8, 9});
  const auto evict_if = [&](size_t most, Locations may_leave) {
    Locations out(most);
    out.resize(index_.evict_if(out, [&](Location at) { return std::ranges::count(may_leave, at) > 0; }));
    std::sort(out.begin(), out.end());
    return out;
  };
  EXPECT_EQ(evict_if(10, {2, 3, 6}), Locations{}) << "something behind each of them stays";
  EXPECT_EQ(evict_if(10, {8, 9}), Locations{}) << "they are pinned";
  EXPECT_EQ(evict_if(10, {4, 7}), (Locations{4, 7}));
  EXPECT_EQ(look(a, {1, 2, 3, 4}), (Locations{1, 2, 3}));
  EXPECT_EQ(evict_if(1, {3, 5}).size(), 1u);
  EXPECT_EQ(evict_if(10, {3, 5}).size(), 1u);
  EXPECT_EQ(look(a, {1, 2, 5}), (Locations{1, 2}));
  // Trunks show when their branches are gone, in the same call.
  EXPECT_TRUE(index_.release(store(a, {1, 2, 10})));
  EXPECT_EQ(evict_if(10, {1, 2, 10}), (Locations{1, 2, 10}));
  EXPECT_TRUE(index_.release(std::move(held)));
  EXPECT_EQ(drain(false), (Locations{6, 8, 9}));
}

TEST_F(IndexLife, AllThatMayLeaveIsEvictedHoweverOftenItWasUsed) {
  const Root a = open("a");
  const Root b = open("b");
  EXPECT_TRUE(index_.release(store(b, {100, 101})));
  for (Location last = 3; last < 40; ++last)
    EXPECT_TRUE(index_.release(store(a, {1, 2, last})));
  // Hot: these are no candidates until somebody looks.
  for (int i = 0; i < 300; ++i)
    look(a, {1, 2, 3});
  Locations evicted;
  Locations out(7);
  while (const size_t count = index_.evict_all_if(out, [](Location at) { return at < 100; }))
    evicted.insert(evicted.end(), out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
  EXPECT_EQ(evicted.size(), 39u);
  EXPECT_EQ(look(a, {1, 2, 3}), Locations{});
  EXPECT_EQ(look(b, {100, 101}), (Locations{100, 101}));
}

TEST_F(IndexLife, AClosedKeyspaceIsGoneAtOnceAndReapedLater) {
  const Root a = open("a");
  const Root b = open("b");
  EXPECT_TRUE(index_.release(store(a, {1, 2})));
  EXPECT_TRUE(index_.release(store(b, {1, 3})));
  Handle held = store(a, {1, 4});
  EXPECT_TRUE(index_.close(a));
  EXPECT_TRUE(look(a, {1, 2}).empty());
  EXPECT_EQ(look(b, {1, 3}), (Locations{1, 3}));
  EXPECT_EQ(index_.close(a).error().code, Code::kNotFound);
  EXPECT_EQ(drain(true), (Locations{2})) << "the rest is pinned";
  EXPECT_TRUE(index_.release(std::move(held)));
  EXPECT_EQ(drain(true), (Locations{1, 4}));
  EXPECT_EQ(index_.usage().removed_blocks, 0u);
  EXPECT_EQ(drain(false), (Locations{1, 3}));
  EXPECT_EQ(index_.usage().roots, 1u);
}

// The number of a closed keyspace is used again, under another generation: the old name leads nowhere.
TEST_F(IndexLife, AnOldRootNeverNamesAnotherKeyspace) {
  const Root a = open("a");
  open("b");
  EXPECT_EQ(index_.open(std::as_bytes(std::span("c", 1))).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(index_.release(store(a, {1, 2})));
  EXPECT_TRUE(index_.close(a));
  const Root c = open("c");
  EXPECT_EQ(c.value, a.value);
  EXPECT_NE(c, a);
  EXPECT_TRUE(look(c, {1, 2}).empty());
  EXPECT_TRUE(index_.release(store(c, {5})));
  EXPECT_TRUE(look(a, {5}).empty());
  EXPECT_EQ(look(c, {5}), (Locations{5}));
  std::vector<Location> canonical(1);
  Handle none;
  EXPECT_EQ(index_.insert(a, none, blocks_of({6}), 0, Locations{6}, canonical).error().code, Code::kFailedPrecondition);
}

TEST_F(IndexLife, AClearedKeyspaceStaysOpenAndEmpty) {
  const Root a = open("a");
  Handle held = store(a, {1, 2});
  EXPECT_TRUE(index_.clear(a));
  EXPECT_TRUE(look(a, {1, 2}).empty());
  EXPECT_EQ(open("a"), a);
  std::vector<Location> canonical(1);
  EXPECT_EQ(index_.insert(a, held, blocks_of({1, 2, 3}), 2, Locations{3}, canonical).error().code,
            Code::kFailedPrecondition)
      << "its prefix is not reachable any more";
  EXPECT_TRUE(index_.release(store(a, {1, 7})));
  EXPECT_EQ(look(a, {1, 7}), (Locations{1, 7}));
  EXPECT_TRUE(index_.release(std::move(held)));
  EXPECT_EQ(drain(true), (Locations{1, 2}));
  EXPECT_EQ(look(a, {1, 7}), (Locations{1, 7}));
}

// W11: new weights: one call, whatever the number of keyspaces and blocks.
TEST_F(IndexLife, ANewEpochMakesAllOlderBlocksUnreachable) {
  const Root a = open("a");
  const Root b = open("b");
  EXPECT_TRUE(index_.release(store(a, {1, 2})));
  EXPECT_TRUE(index_.release(store(b, {3})));
  Handle held = store(a, {1, 4});
  index_.start_epoch();
  EXPECT_TRUE(look(a, {1, 2}).empty());
  EXPECT_EQ(reason_, Reason::kStaleEpoch);
  EXPECT_TRUE(look(b, {3}).empty());
  EXPECT_TRUE(index_.release(store(a, {1, 9})));
  EXPECT_EQ(look(a, {1, 9}), (Locations{1, 9}));
  EXPECT_TRUE(look(a, {8}).empty());
  EXPECT_EQ(reason_, Reason::kNeverStored);
  EXPECT_EQ(drain(true), (Locations{2, 3}));
  EXPECT_TRUE(index_.release(std::move(held)));
  EXPECT_EQ(drain(true), (Locations{1, 4}));
  EXPECT_EQ(look(a, {1, 9}), (Locations{1, 9}));
  EXPECT_EQ(drain(false), (Locations{1, 9}));
}

TEST_F(IndexLife, EvictionsAreRemembered) {
  const Root a = open("a");
  EXPECT_TRUE(index_.release(store(a, {1, 2, 3})));
  EXPECT_TRUE(index_.release(store(a, {1, 5})));
  std::vector<Location> one(1);
  EXPECT_EQ(index_.evict(one), 1u);
  EXPECT_EQ(one, (Locations{3}));
  EXPECT_EQ(look(a, {1, 2, 3}), (Locations{1, 2}));
  EXPECT_EQ(reason_, Reason::kEvicted);
  EXPECT_EQ(look(a, {1, 2, 4}), (Locations{1, 2}));
  EXPECT_EQ(reason_, Reason::kNeverStored);
  EXPECT_EQ(index_.evict(one), 1u);
  EXPECT_EQ(one, (Locations{5}));
  EXPECT_EQ(look(a, {1, 5}), (Locations{1}));
  EXPECT_EQ(reason_, Reason::kEvicted);
  drain(false);
  EXPECT_EQ(look(a, {1}), Locations{});
  EXPECT_EQ(reason_, Reason::kEvicted);
}

TEST_F(IndexLife, OtherKeyspacesAreAskedOnDemand) {
  const Root a = open("a");
  const Root b = open("b");
  EXPECT_TRUE(index_.release(store(b, {1, 2})));
  EXPECT_TRUE(look(a, {1, 2, 3}).empty());
  const auto elsewhere = index_.find_elsewhere(a, blocks_of({1, 2, 3}));
  EXPECT_EQ(elsewhere.root, b);
  EXPECT_EQ(elsewhere.blocks, 2u);
  EXPECT_EQ(index_.find_elsewhere(b, blocks_of({1, 2, 3})).root, Root());
}

TEST_F(IndexLife, AHandleGoesOnWhereItEnded) {
  const Root a = open("a");
  EXPECT_TRUE(index_.release(store(a, {1, 2, 3, 4})));
  std::vector<Location> found(2);
  Match match = index_.lookup(a, blocks_of({1, 2}), found);
  match = index_.resume(a, match.handle, blocks_of({3, 9}), found);
  EXPECT_EQ(match.blocks, 3u);
  EXPECT_EQ(found[0], 3u);
  EXPECT_EQ(match.handle.blocks(), 3u);
  // Nothing more: the same pin.
  match = index_.resume(a, match.handle, blocks_of({9}), found);
  EXPECT_EQ(match.blocks, 3u);
  std::vector<Location> canonical(2);
  Result<Inserted> grown = index_.extend(a, match.handle, blocks_of({4, 5}), Locations{40, 50}, canonical);
  ASSERT_TRUE(grown);
  EXPECT_EQ(canonical, (Locations{4, 50}));
  EXPECT_EQ(grown->stored_before, 1u);
  EXPECT_EQ(grown->handle.blocks(), 5u);
  EXPECT_EQ(look(a, {1, 2, 3, 4, 5}), (Locations{1, 2, 3, 4, 50}));
  drain(false);
  EXPECT_EQ(look(a, {1, 2, 3, 4, 5}).size(), 5u) << "the handle pins it all";
  EXPECT_TRUE(index_.release(std::move(grown->handle)));
  EXPECT_EQ(drain(false).size(), 5u);
}

TEST_F(IndexLife, ResumingFromNothingIsALookup) {
  const Root a = open("a");
  EXPECT_TRUE(index_.release(store(a, {1, 2})));
  std::vector<Location> found(2);
  Handle none;
  Match match = index_.resume(a, none, blocks_of({1, 2}), found);
  EXPECT_EQ(match.blocks, 2u);
  EXPECT_TRUE(index_.release(std::move(match.handle)));
}

TEST_F(IndexLife, BadHandlesChangeNothing) {
  const Root a = open("a");
  const Root b = open("b");
  Handle of_b = store(b, {1});
  std::vector<Location> canonical(1);
  EXPECT_EQ(index_.insert(a, of_b, blocks_of({1, 2}), 1, Locations{2}, canonical).error().code,
            Code::kFailedPrecondition)
      << "another root's";
  EXPECT_EQ(index_.pins(b).handles, 1u);
  EXPECT_TRUE(index_.release(std::move(of_b)));
  for (const uint64_t forged : {uint64_t{1} << 32 | 1, uint64_t{1} << 32 | 3, uint64_t{1} << 32 | UINT32_MAX,
                                uint64_t{5} << 32 | 1000, uint64_t{7}}) {
    EXPECT_FALSE(index_.release(Handle::unpack(forged))) << forged;
  }
  EXPECT_EQ(index_.usage().blocks, 1u);
  EXPECT_EQ(drain(false).size(), 1u);
}

// So many handles that they are counted apart from the run: it is reaped all the same when the last one goes.
TEST_F(IndexLife, ARemovedRunThatManyPinnedIsReaped) {
  const Root a = open("a");
  std::vector<Handle> held;
  held.push_back(store(a, {1, 2, 3}));
  std::vector<Location> found(3);
  for (int i = 0; i < 100; ++i)
    held.push_back(index_.lookup(a, blocks_of({1, 2, 3}), found).handle);
  EXPECT_EQ(index_.remove(held[0], 1), 2u);
  EXPECT_TRUE(drain(true).empty());
  for (Handle& handle : held)
    EXPECT_TRUE(index_.release(std::move(handle)));
  EXPECT_EQ(drain(true), (Locations{2, 3}));
  EXPECT_EQ(drain(false), Locations{1});
}

class SmallIndex : public IndexLife {
 protected:
  SmallIndex() : IndexLife({.block_tokens = kBlock, .memory_bytes = 64 * 64, .recency = Recency::kExact}) {}
};

// E4: the arena never grows past its limit. Full means evict, then busy.
TEST_F(SmallIndex, FullIsAValue) {
  const Root a = open("a");
  std::vector<Handle> held;
  std::vector<Location> canonical(1);
  Token name = 0;
  for (;; ++name) {
    ASSERT_LT(name, 1000u);
    Handle handle;
    Result<Inserted> inserted = index_.insert(a, handle, blocks_of({name}), 0, Locations{name}, canonical);
    if (!inserted) {
      EXPECT_EQ(inserted.error().code, Code::kResourceExhausted);
      EXPECT_TRUE(handle.empty());
      break;
    }
    held.push_back(std::move(inserted->handle));
  }
  EXPECT_GT(name, 10u);
  EXPECT_LE(index_.usage().bytes, 64u * 64 + 64 * 1024);
  EXPECT_EQ(index_.usage().blocks, name);
  for (Token i = 0; i < name; ++i)
    EXPECT_EQ(look(a, {i}), Locations{i});
  EXPECT_TRUE(drain(false).empty()) << "all is pinned";
  EXPECT_TRUE(index_.release(std::move(held[3])));
  EXPECT_EQ(drain(false), Locations{3});
  EXPECT_TRUE(index_.release(store(a, {5000}))) << "what was evicted makes room";
  for (Handle& handle : held)
    EXPECT_TRUE(index_.release(std::move(handle)));
  EXPECT_EQ(drain(false).size(), name);
}

// What a closed or cleared keyspace leaves behind waits for readers; that it waits is no reason to be full.
TEST_F(SmallIndex, KeyspacesComeAndGoForEver) {
  for (int i = 0; i < 200; ++i) {
    const Root a = open("a");
    ASSERT_TRUE(index_.close(a));
    const Root b = open("b");
    ASSERT_TRUE(index_.clear(b));
    index_.start_epoch();
    EXPECT_TRUE(index_.release(store(b, {1})));
    index_.start_epoch();
    EXPECT_EQ(drain(true), Locations{1});
  }
}

// What is stored already needs no memory.
TEST_F(SmallIndex, WhatIsStoredIsInsertedWhenFull) {
  const Root a = open("a");
  std::vector<Handle> held;
  held.push_back(store(a, {1, 2, 3}));
  held.push_back(store(a, {1, 4, 5}));
  std::vector<Location> canonical(3);
  for (Token name = 100; held.back().blocks() > 0; ++name) {
    Handle handle;
    Result<Inserted> inserted =
        index_.insert(a, handle, blocks_of({name}), 0, Locations{name}, std::span(canonical).first(1));
    held.push_back(inserted ? std::move(inserted->handle) : Handle());
  }
  Handle none;
  Result<Inserted> again = index_.insert(a, none, blocks_of({1, 4, 5}), 0, Locations{6, 7, 8}, canonical);
  ASSERT_TRUE(again);
  EXPECT_EQ(canonical, (Locations{1, 4, 5}));
  EXPECT_EQ(again->stored_before, 3u);
  held.push_back(std::move(again->handle));
  for (Handle& handle : held)
    EXPECT_TRUE(index_.release(std::move(handle)));
}

// Long runs have taken it all and are gone: shorter ones, cuts and roots find room where they were.
TEST_F(SmallIndex, WhatLongRunsLeaveIsRoomForShorterOnes) {
  const Root a = open("a");
  for (Token name = 1; name <= 100; ++name) {
    const std::vector<Token> tokens = blocks_of(std::vector<Token>(9, name));
    const std::vector<Location> locations(9, name);
    std::vector<Location> canonical(9);
    Handle handle;
    Result<Inserted> inserted = index_.insert(a, handle, tokens, 0, locations, canonical);
    if (!inserted) break;
    EXPECT_TRUE(index_.release(std::move(inserted->handle)));
  }
  EXPECT_GT(drain(false).size(), 50u);
  EXPECT_TRUE(index_.release(store(a, {1, 2, 3, 4, 5})));
  EXPECT_TRUE(index_.release(store(a, {1, 2, 6})));
  EXPECT_TRUE(index_.release(store(open("b"), {1, 2, 3})));
  EXPECT_EQ(look(a, {1, 2, 3, 4, 5}).size(), 5u);
  drain(false);
  EXPECT_EQ(index_.usage().blocks, 0u);
}

// The other way round: places do not merge, so a long run becomes several, one behind the other.
TEST_F(SmallIndex, WhatShortRunsLeaveIsRoomForLongerOnes) {
  const Root a = open("a");
  std::vector<Location> canonical(1);
  for (Token name = 1; name <= 1000; ++name) {
    Handle handle;
    Result<Inserted> inserted = index_.insert(a, handle, blocks_of({name}), 0, Locations{name}, canonical);
    if (!inserted) break;
    EXPECT_TRUE(index_.release(std::move(inserted->handle)));
  }
  EXPECT_GT(drain(false).size(), 8u);
  std::vector<Token> names(24);
  std::iota(names.begin(), names.end(), 500);
  for (int again = 0; again < 3; ++again) {
    EXPECT_TRUE(index_.release(store(a, names)));
    EXPECT_EQ(look(a, names), names);
    EXPECT_GT(index_.usage().runs, 3u) << "the places are small";
    for (size_t depth = 1; depth < names.size(); ++depth) {
      std::vector<Token> other(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(depth));
      other.push_back(8);
      EXPECT_EQ(look(a, other).size(), depth);
      EXPECT_EQ(reason_, Reason::kDiverged) << "also where one run ends and the next begins";
    }
    Locations oldest(5);
    ASSERT_EQ(index_.evict(oldest), 5u);
    EXPECT_EQ(oldest, (Locations{523, 522, 521, 520, 519}));
    EXPECT_TRUE(index_.release(store(a, {500, 501, 502, 7})));
    EXPECT_EQ(look(a, names).size(), 19u);
    EXPECT_EQ(look(a, {500, 501, 502, 7}).size(), 4u);
    EXPECT_EQ(drain(false).size(), 20u);

    // More than all places together; what was made for it must not stay, in the edge table neither.
    std::vector<Location> found(100);
    for (Token name = 1000; name < 1500; ++name) {
      const std::vector<Token> tokens(kBlock * 100, name);
      Handle handle;
      Result<Inserted> inserted = index_.insert(a, handle, tokens, 0, Locations(100, 1), found);
      ASSERT_EQ(inserted.error().code, Code::kResourceExhausted);
      ASSERT_EQ(index_.peek(a, tokens), 0u);
    }
    EXPECT_EQ(index_.usage().blocks, 0u);
  }
}

// A run for which the whole arena is too small.
TEST_F(SmallIndex, ARunThatCanNeverFit) {
  const Root a = open("a");
  const std::vector<Token> tokens(kBlock * 1000, 1);
  const std::vector<Location> locations(1000, 1);
  std::vector<Location> canonical(1000);
  Handle handle;
  EXPECT_EQ(index_.insert(a, handle, tokens, 0, locations, canonical).error().code, Code::kResourceExhausted);
  EXPECT_EQ(index_.usage().blocks, 0u);
  EXPECT_EQ(index_.peek(a, tokens), 0u);
}

// Nor does the attempt take room away: what could be stored before can be stored after it.
TEST_F(SmallIndex, WhatNeverFitsLeavesTheArenaAsItWas) {
  const auto short_runs = [&](Root root) {
    std::vector<Location> canonical(1);
    uint64_t stored = 0;
    for (Token name = 1; name <= 1000; ++name) {
      Handle handle;
      Result<Inserted> inserted = index_.insert(root, handle, blocks_of({name}), 0, Locations{name}, canonical);
      if (!inserted) break;
      EXPECT_TRUE(index_.release(std::move(inserted->handle)));
      ++stored;
    }
    return stored;
  };
  const Root a = open("a");
  const std::vector<Token> tokens(kBlock * 1000, 1);
  const std::vector<Location> locations(1000, 1);
  std::vector<Location> canonical(1000);
  Handle handle;
  EXPECT_FALSE(index_.insert(a, handle, tokens, 0, locations, canonical));
  EXPECT_GT(short_runs(a), 25u);
}

TEST_F(IndexLife, NothingIsAMatchOfNothing) {
  const Root a = open("a");
  EXPECT_TRUE(look(a, {}).empty());
  EXPECT_EQ(reason_, Reason::kFull);
  Match match = index_.lookup(a, std::vector<Token>{1, 2, 3}, {});
  EXPECT_TRUE(match.handle.empty());
  EXPECT_EQ(index_.evict({}), 0u);
  EXPECT_EQ(index_.reap({}), 0u);
}

TEST(PrehashedIndexTest, HashesAreComparedOneForABlock) {
  PrehashedIndex index({.block_tokens = 64});
  const char name = 'a';
  const Root a = *index.open(std::as_bytes(std::span(&name, 1)));
  const std::vector<uint64_t> hashes{11, 22, 33};
  std::vector<Location> canonical(3);
  Handle handle;
  Result<Inserted> inserted = index.insert(a, handle, hashes, 0, std::vector<Location>{1, 2, 3}, canonical);
  ASSERT_TRUE(inserted);
  EXPECT_TRUE(index.release(std::move(inserted->handle)));
  std::vector<Location> found(3);
  Match match = index.lookup(a, std::vector<uint64_t>{11, 22, 34}, found);
  EXPECT_EQ(match.blocks, 2u);
  EXPECT_EQ(index.explain(a, std::vector<uint64_t>{11, 22, 34}, match).stopped_at, 128u);
  EXPECT_TRUE(index.release(std::move(match.handle)));
}

}  // namespace
}  // namespace rhizome
