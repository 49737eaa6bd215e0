#include "index/prefix_cache.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/prefix_cache_fixture.h"

namespace rhizome {
namespace {

class PartialTailTest : public PrefixCacheTest {
 protected:
  PartialTailTest() : PrefixCacheTest(small(true)) {}
};

// --- matches

// Feature 1: exact, multi-block, partial and divergent matches. U11: what is counted is covered by blocks.
TEST_F(PrefixCacheTest, Feature1MatchesWholeBlocksOfTheLongestPrefix) {
  store(base_, kTwelve);
  const struct {
    Tokens tokens;
    uint64_t matched;
  } cases[] = {
      {kTwelve, 12},
      {kEight, 8},
      {{1, 2, 3, 4}, 4},
      {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 8},
      {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, 12},
      {{1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12}, 4},
      {{1, 2, 3}, 0},
      {{0, 2, 3, 4}, 0},
      {{5, 6, 7, 8}, 0},
      {{}, 0},
  };
  for (const auto& tested : cases) {
    EXPECT_EQ(matched(base_, tested.tokens), tested.matched) << testing::PrintToString(tested.tokens);
    EXPECT_EQ(last_found_.size() * kBlock, tested.matched);
    EXPECT_EQ(cache_.peek(base_, tested.tokens), tested.matched);
  }
  EXPECT_EQ(matched(base_, kTwelve), 12u);
  EXPECT_EQ(last_found_, (Blocks{0, 1, 2}));
}

// Feature 2, bug 1: what the first sequence stored is found after it released it.
TEST_F(PrefixCacheTest, Feature2Bug1StoredBlocksSurviveTheirFirstRelease) {
  Request first = run(base_, kEight);
  EXPECT_EQ(first.matched, 0u);
  EXPECT_EQ(first.acquired.blocks, (Blocks{0, 1}));
  EXPECT_EQ(pools_.blocks.count(0), 2u);
  finish(std::move(first));
  EXPECT_EQ(pools_.blocks.count(0), 1u);
  EXPECT_EQ(matched(base_, kEight), 8u);
  EXPECT_EQ(last_found_, (Blocks{0, 1}));
}

// Feature 3: what was used last stays, whenever it was inserted.
TEST_F(PrefixCacheTest, Feature3EvictsByUseAndNotByInsertion) {
  store(base_, {1, 1, 1, 1});  // block 0
  store(base_, {2, 2, 2, 2});  // 1
  EXPECT_EQ(matched(base_, {1, 1, 1, 1}), 4u);
  EXPECT_EQ(evict(1), (Blocks{1}));
  EXPECT_EQ(matched(base_, {1, 1, 1, 1}), 4u);
  EXPECT_EQ(matched(base_, {2, 2, 2, 2}), 0u);
}

// Feature 4: what is held stays, and so does what is before it; the rest goes from its end, block by block.
TEST_F(PrefixCacheTest, Feature4EvictsLeafByLeafAndNothingHeld) {
  Request held = run(base_, kEight);
  store(base_, {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 8, 8, 8, 8});  // 2, 3
  EXPECT_EQ(evict(1), (Blocks{3}));
  EXPECT_EQ(evict(10), (Blocks{2}));
  EXPECT_EQ(evict(10), Blocks());
  EXPECT_EQ(matched(base_, kEight), 8u);
  finish(std::move(held));
  EXPECT_EQ(evict(1), (Blocks{1}));
  EXPECT_EQ(evict(10), (Blocks{0}));
  EXPECT_EQ(evict(10), Blocks());
}

// Feature 5: nothing is stored twice; who comes second keeps his duplicates.
TEST_F(PrefixCacheTest, Feature5ReinsertMakesNoDuplicate) {
  store(base_, kEight);  // 0, 1
  PrefixHandle handle;
  const Blocks duplicates{pools_.blocks.take(), pools_.blocks.take()};
  Result<PrefixInserted> again = cache_.insert(base_, handle, kEight, 0, {.blocks = duplicates});
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->acquired.blocks.empty());
  EXPECT_EQ(again->stored_before, 2u);
  EXPECT_EQ(again->canonical, (Blocks{0, 1}));
  EXPECT_EQ(cache_.usage().blocks, 2u);
  EXPECT_EQ(cache_.usage().entries, 2u);
  // The same blocks again are nothing new either.
  EXPECT_TRUE(cache_.insert(base_, handle, kEight, 0, {.blocks = again->canonical})->acquired.blocks.empty());
  EXPECT_TRUE(cache_.release(std::move(handle)));
  pools_.blocks.lower(duplicates);
  EXPECT_EQ(evict(10), (Blocks{1, 0}));
}

// Feature 6: less than a block is stored nowhere, and no error.
TEST_F(PrefixCacheTest, Feature6LessThanABlockStoresNothing) {
  for (const Tokens& tokens : {Tokens(), Tokens{1}, Tokens{1, 2, 3}}) {
    Request request = run(base_, tokens);
    EXPECT_TRUE(request.acquired.blocks.empty());
    EXPECT_TRUE(request.handle.empty());
    finish(std::move(request));
  }
  EXPECT_EQ(cache_.usage().entries, 0u);
}

// Feature 19.
TEST(PrefixCacheOff, Feature19InactiveIsEmptyEverywhere) {
  PrefixCacheOptions options = small(true);
  options.active = false;
  PrefixCache cache(options);
  EXPECT_FALSE(cache.is_active());
  const Root root = *cache.open({});
  Found found = look_up(cache, root, kEight);
  EXPECT_EQ(found.match.blocks + found.match.matched_tokens, 0u);
  EXPECT_TRUE(found.match.handle.empty());
  Result<PrefixInserted> inserted = cache.insert(root, found.match.handle, kEight, 0, {.blocks = Blocks{1, 2}});
  ASSERT_TRUE(inserted);
  EXPECT_TRUE(inserted->acquired.blocks.empty() && inserted->canonical.empty());
  EXPECT_TRUE(cache.extend(found.match.handle, kEight, {.blocks = Blocks{1, 2}}));
  EXPECT_EQ(resume(cache, found.match.handle, kEight).match.blocks, 0u);
  EXPECT_TRUE(cache.release(std::move(found.match.handle)));
  EXPECT_EQ(cache.peek(root, kEight), 0u);
  EXPECT_TRUE(cache.evict(10).physical.empty() && cache.reap(10).physical.empty());
  EXPECT_TRUE(cache.clear(root) && cache.close(root));
  cache.start_epoch();
  EXPECT_EQ(cache.counters().lookups + cache.usage().blocks + cache.pins().handles, 0u);

  PrefixCache on(small());
  EXPECT_TRUE(on.is_active());
}

// Feature 20: a peek counts nothing, holds nothing, is no use; a look-up is and does all that.
TEST_F(PrefixCacheTest, Feature20PeekLeavesNoTrace) {
  store(base_, {1, 1, 1, 1});  // 0
  store(base_, {2, 2, 2, 2});  // 1
  const PrefixCounters before = cache_.counters();
  EXPECT_EQ(before.lookups, 2u);
  EXPECT_EQ(before.misses, 2u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(cache_.peek(base_, Tokens{1, 1, 1, 1}), 4u);
    EXPECT_EQ(cache_.peek(base_, Tokens{3, 3, 3, 3}), 0u);
  }
  EXPECT_EQ(cache_.counters().lookups, 2u);
  EXPECT_EQ(cache_.pins().handles, 0u);
  EXPECT_EQ(evict(1), (Blocks{0}));

  Found found = look_up(cache_, base_, Tokens{2, 2, 2, 2});
  EXPECT_EQ(cache_.counters().lookups, 3u);
  EXPECT_EQ(cache_.counters().hits, 1u);
  EXPECT_EQ(cache_.pins().handles, 1u);
  EXPECT_EQ(evict(1), Blocks());
  EXPECT_TRUE(cache_.release(std::move(found.match.handle)));
}

// Feature 21: what is rolled back is what was matched, although somebody has stored more behind it since.
TEST_F(PrefixCacheTest, Feature21RollbackReleasesWhatWasMatched) {
  store(base_, {1, 2, 3, 4});                           // 0
  Found rolled_back = look_up(cache_, base_, kTwelve);  // one block
  Request longer = run(base_, kTwelve);                 // 1, 2
  Found stays = look_up(cache_, base_, Tokens{1, 2, 3, 4, 9, 9, 9, 9});
  EXPECT_EQ(cache_.pins().handles, 3u);
  EXPECT_TRUE(cache_.release_matched(std::move(rolled_back.match.handle), rolled_back.match.matched_tokens));
  EXPECT_EQ(cache_.pins().handles, 2u);
  EXPECT_EQ(evict(10), Blocks());
  // A handle that an insert has made longer is no look-up's any more.
  EXPECT_EQ(cache_.release_matched(std::move(longer.handle), 4).error().code, Code::kInvalidArgument);
  EXPECT_EQ(cache_.pins().handles, 2u);
  finish(std::move(longer));
  EXPECT_EQ(evict(10), (Blocks{2, 1}));
  EXPECT_TRUE(cache_.release_matched(std::move(stays.match.handle), 4));
  EXPECT_EQ(evict(10), (Blocks{0}));
}

// R1: who looks up and never comes back to fetch only has to end.
TEST_F(PrefixCacheTest, LookupsThatFetchNothingLeaveNothing) {
  store(base_, kEight);
  std::vector<PrefixHandle> handles;
  for (int i = 0; i < 1000; ++i)
    handles.push_back(look_up(cache_, base_, kEight).match.handle);
  EXPECT_EQ(evict(10), Blocks());
  for (PrefixHandle& handle : handles)
    EXPECT_TRUE(cache_.release(std::move(handle)));
  EXPECT_EQ(evict(10), (Blocks{1, 0}));
}

// --- references

// Bug 2: a disk id is counted when the cache begins to name it, never again; a block without one gains its first.
TEST_F(PrefixCacheTest, Bug2DiskReferencesAreNotTakenTwice) {
  const Blocks blocks{pools_.blocks.take(), pools_.blocks.take(), pools_.blocks.take()};
  const Blocks disk{pools_.disk.take(), pools_.disk.take(), pools_.disk.take()};
  PrefixHandle handle;
  const auto insert = [&](const Tokens& tokens, size_t count, const Blocks& ids) {
    const Result<PrefixInserted> inserted =
        cache_.insert(base_, handle, tokens, 0, {std::span(blocks).first(count), ids});
    EXPECT_TRUE(inserted);
    pools_.apply(inserted->acquired);
    return inserted->acquired.disk_block_ids;
  };
  EXPECT_EQ(insert(kEight, 2, {disk[0], kNoBlock}), (Blocks{disk[0]}));
  EXPECT_EQ(insert(kEight, 2, {disk[0], kNoBlock}), Blocks());
  EXPECT_EQ(insert(kEight, 2, {}), Blocks());
  EXPECT_EQ(insert(kTwelve, 3, {disk[0], disk[1], disk[2]}), (Blocks{disk[1], disk[2]}));
  EXPECT_EQ(insert(kTwelve, 3, {disk[0], disk[1], disk[2]}), Blocks());
  EXPECT_EQ(insert(kTwelve, 3, {disk[2], disk[0], disk[1]}), Blocks());  // others than the ones it has
  Found found = look_up(cache_, base_, kTwelve);
  EXPECT_EQ(found.disk_block_ids, disk);
  for (const uint32_t id : disk)
    EXPECT_EQ(pools_.disk.count(id), 2u);
  EXPECT_TRUE(cache_.release(std::move(found.match.handle)));
  EXPECT_TRUE(cache_.release(std::move(handle)));
  pools_.blocks.lower(blocks);
  pools_.disk.lower(disk);
  const EvictedBlocks evicted = cache_.evict(2);
  EXPECT_EQ(evicted.disk_block_ids, (Blocks{disk[2], disk[1]}));
  pools_.apply(evicted);
}

// The ids of blocks that are on no disk are not given back either.
TEST_F(PrefixCacheTest, NoDiskIdIsNoReference) {
  Request request = run(base_, kEight);
  Found found = look_up(cache_, base_, kEight);
  EXPECT_EQ(found.disk_block_ids, (Blocks{kNoBlock, kNoBlock}));
  EXPECT_TRUE(cache_.release(std::move(found.match.handle)));
  finish(std::move(request));
  const EvictedBlocks evicted = cache_.evict(9);
  EXPECT_EQ(evicted.physical.size(), 2u);
  EXPECT_TRUE(evicted.disk_block_ids.empty());
  pools_.apply(evicted);
}

// Bug 3: the cache's reference is of the block it stores. Two sequences compute the same prompt at the same time; the
// second one's blocks are its own, and the stored ones outlive it.
TEST_F(PrefixCacheTest, Bug3ReferencesFollowTheStoredBlock) {
  Found first = look_up(cache_, base_, kEight);
  Found second = look_up(cache_, base_, kEight);
  const Blocks firsts{pools_.blocks.take(), pools_.blocks.take()};
  const Blocks seconds{pools_.blocks.take(), pools_.blocks.take(), pools_.blocks.take()};
  Result<PrefixInserted> stored = cache_.insert(base_, first.match.handle, kEight, 0, {.blocks = firsts});
  ASSERT_TRUE(stored);
  pools_.apply(stored->acquired);
  Result<PrefixInserted> later = cache_.insert(base_, second.match.handle, kTwelve, 0, {.blocks = seconds});
  ASSERT_TRUE(later);
  pools_.apply(later->acquired);
  EXPECT_EQ(later->acquired.blocks, (Blocks{seconds[2]}));
  EXPECT_EQ(later->canonical, (Blocks{firsts[0], firsts[1], seconds[2]}));
  EXPECT_TRUE(cache_.release(std::move(second.match.handle)));
  pools_.blocks.lower(seconds);
  EXPECT_EQ(pools_.blocks.count(seconds[0]), 0u);
  EXPECT_EQ(pools_.blocks.count(seconds[2]), 1u);
  EXPECT_TRUE(cache_.release(std::move(first.match.handle)));
  pools_.blocks.lower(firsts);
  EXPECT_EQ(pools_.blocks.count(firsts[0]), 1u);
  EXPECT_EQ(matched(base_, kTwelve), 12u);
  EXPECT_EQ(last_found_, later->canonical);
  EXPECT_EQ(evict(10), (Blocks{seconds[2], firsts[1], firsts[0]}));
}

// U15: a fork shares blocks and copies none; the ends of two forks are different blocks; the source may go first.
TEST_F(PrefixCacheTest, ForksShareBlocksAndOutliveTheirSource) {
  Request source = run(base_, kEight);
  Request one = run(base_, {1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 1, 1});
  Request two = run(base_, {1, 2, 3, 4, 5, 6, 7, 8, 2, 2, 2, 2});
  EXPECT_EQ(one.blocks, (Blocks{0, 1, 2}));
  EXPECT_EQ(two.blocks, (Blocks{0, 1, 3}));
  finish(std::move(source));
  EXPECT_EQ(evict(10), Blocks());
  EXPECT_EQ(pools_.blocks.count(0), 3u);
  finish(std::move(one));
  finish(std::move(two));
}

// --- going on

// A next turn is looked up and stored from where the last one ended.
TEST_F(PrefixCacheTest, ResumeAndExtendBeginWhereTheHandleEnds) {
  store(base_, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});  // 0 to 3
  Found found = look_up(cache_, base_, kEight);
  EXPECT_EQ(found.match.blocks, 2u);
  Found more = resume(cache_, found.match.handle, Tokens{9, 10, 11, 12, 0, 0, 0, 0, 0});
  EXPECT_TRUE(found.match.handle.empty());
  EXPECT_EQ(more.match.blocks, 3u);
  EXPECT_EQ(more.match.matched_tokens, 12u);
  EXPECT_EQ(more.blocks, (Blocks{2}));
  EXPECT_EQ(cache_.pins().handles, 1u);
  const Blocks fresh{pools_.blocks.take()};
  Result<PrefixInserted> grown = cache_.extend(more.match.handle, Tokens{0, 0, 0, 0, 0}, {.blocks = fresh});
  ASSERT_TRUE(grown);
  pools_.apply(grown->acquired);
  EXPECT_EQ(grown->acquired.blocks, fresh);
  EXPECT_EQ(grown->split_at, 3u);
  EXPECT_EQ(more.match.handle.blocks(), 4u);
  // Nothing more to find is no error, and the handle is as good as before.
  Found nothing = resume(cache_, more.match.handle, Tokens{1, 1, 1, 1});
  EXPECT_EQ(nothing.match.blocks, 4u);
  EXPECT_TRUE(cache_.release(std::move(nothing.match.handle)));
  pools_.blocks.lower(fresh);
  EXPECT_EQ(matched(base_, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0}), 16u);
  EXPECT_EQ(last_found_, (Blocks{0, 1, 2, fresh[0]}));
}

// W9: a token is left to compute, and whole blocks are used.
TEST(UsableTokens, LeaveWhatMustBeComputed) {
  const struct {
    uint64_t matched, prompt, tail, usable;
  } cases[] = {
      {8, 8, 1, 4},    {8, 9, 1, 8},   {12, 12, 1, 8}, {8, 8, 3, 4},     {8, 9, 3, 4},  {12, 12, 3, 8},
      {8, 8, 0, 4},    {0, 1, 1, 0},   {0, 0, 1, 0},   {4, 4, 1, 0},     {4, 4, 99, 0}, {4, 100, 1, 4},
      {10, 11, 1, 10}, {10, 10, 1, 8}, {11, 12, 3, 8}, {8, 8, ~0ull, 0},
  };
  for (const auto& tested : cases)
    EXPECT_EQ(usable_tokens(tested.matched, tested.prompt, tested.tail, 4), tested.usable)
        << tested.matched << " of " << tested.prompt << ", tail " << tested.tail;
}

// --- partial tails

// U17, bug 5: off unless asked for, and then nothing is kept and nothing is counted.
TEST_F(PrefixCacheTest, Bug5PartialTailsAreOffByDefault) {
  store(base_, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(matched(base_, {1, 2, 3, 4, 5, 6}), 4u);
  EXPECT_EQ(cache_.usage().tails, 0u);
}

// U17, bug 5, W10: two agents fork behind token 6. The one that finds the tail is told to copy; the shared block
// keeps its first content, and both read their own.
TEST_F(PartialTailTest, Bug5WhoWritesOnCopiesFirst) {
  Request first = run(base_, {1, 2, 3, 4, 5, 6});  // 1 is the whole block, 0 the tail's
  const uint32_t shared = first.acquired.blocks.back();
  pools_.blocks.content(shared) = 56;
  Found second = look_up(cache_, base_, kEight);
  EXPECT_EQ(second.match.blocks, 1u);
  EXPECT_EQ(second.match.matched_tokens, 6u);
  EXPECT_TRUE(second.match.must_copy());
  EXPECT_EQ(second.match.tail.block, shared);
  EXPECT_EQ(second.match.tail.disk_block_id, kNoBlock);
  const uint32_t own = pools_.blocks.take();
  pools_.blocks.content(own) = pools_.blocks.content(second.match.tail.block) * 100 + 78;
  const Blocks given{own};
  Result<PrefixInserted> grown = cache_.insert(base_, second.match.handle, kEight, 1, {.blocks = given});
  ASSERT_TRUE(grown);
  pools_.apply(grown->acquired);
  EXPECT_EQ(pools_.blocks.content(shared), 56u);
  EXPECT_EQ(matched(base_, kEight), 8u);
  EXPECT_EQ(last_found_.back(), own);
  EXPECT_EQ(matched(base_, {1, 2, 3, 4, 5, 6, 9, 9}), 6u);
  // No tail without all of it, and none of a prompt that ends before.
  Found none = look_up(cache_, base_, Tokens{1, 2, 3, 4, 5, 0});
  EXPECT_FALSE(none.match.must_copy());
  EXPECT_EQ(none.match.matched_tokens, 4u);
  EXPECT_TRUE(cache_.release(std::move(none.match.handle)));
  EXPECT_EQ(matched(base_, {1, 2, 3, 4, 5}), 4u);
  EXPECT_TRUE(cache_.release(std::move(second.match.handle)));
  pools_.blocks.lower(given);
  finish(std::move(first));
}

// Feature 18, bug 4: the cache has a reference of the tail's block and gives it back once, with the block before it.
TEST_F(PartialTailTest, Feature18Bug4ATailIsOwnedAndReleasedOnce) {
  PrefixHandle handle;
  const Blocks blocks{pools_.blocks.take(), pools_.blocks.take()};
  const uint32_t tail = pools_.blocks.take();
  const uint32_t id = pools_.disk.take();
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8, 9};
  const SequenceBlocks given{.blocks = blocks, .tail_block = tail, .tail_disk_block_id = id};
  Result<PrefixInserted> inserted = cache_.insert(base_, handle, tokens, 0, given);
  ASSERT_TRUE(inserted);
  pools_.apply(inserted->acquired);
  EXPECT_EQ(inserted->acquired.blocks, (Blocks{blocks[0], blocks[1], tail}));
  EXPECT_EQ(inserted->acquired.disk_block_ids, (Blocks{id}));
  // Once more, fifty times: nothing new.
  for (int i = 0; i < 50; ++i) {
    inserted = cache_.insert(base_, handle, tokens, 0, given);
    ASSERT_TRUE(inserted);
    EXPECT_TRUE(inserted->acquired.blocks.empty() && inserted->acquired.released_blocks.empty());
    EXPECT_TRUE(inserted->acquired.disk_block_ids.empty());
  }
  pools_.blocks.lower(blocks);
  pools_.blocks.lower(std::span(&tail, 1));
  pools_.disk.lower(std::span(&id, 1));
  EXPECT_EQ(pools_.blocks.count(tail), 1u);
  EXPECT_EQ(evict(10), Blocks());
  EXPECT_TRUE(cache_.release(std::move(handle)));
  // One was asked for; its tail comes on top.
  const EvictedBlocks evicted = cache_.evict(1);
  EXPECT_EQ(evicted.physical, (Blocks{tail, blocks[1]}));
  EXPECT_EQ(evicted.disk_block_ids, (Blocks{id}));
  pools_.apply(evicted);
  EXPECT_EQ(evict(10), (Blocks{blocks[0]}));
  EXPECT_EQ(matched(base_, tokens), 0u);
}

// Feature 9: what is replaced is given back, once; what is held, or says more, is not replaced.
TEST_F(PartialTailTest, Feature9AReplacedTailIsGivenBackOnce) {
  const auto insert = [&](PrefixHandle& handle, const Tokens& tokens, uint32_t tail, uint32_t disk) {
    const uint32_t first = handle.blocks();
    const Blocks fresh(first == 0 ? 1 : 0, first == 0 ? pools_.blocks.take() : 0);
    Result<PrefixInserted> inserted =
        cache_.insert(base_, handle, tokens, first, {.blocks = fresh, .tail_block = tail, .tail_disk_block_id = disk});
    EXPECT_TRUE(inserted);
    pools_.apply(inserted->acquired);
    pools_.blocks.lower(fresh);
    return inserted->acquired;
  };
  const Blocks tails{pools_.blocks.take(), pools_.blocks.take(), pools_.blocks.take()};
  const Blocks disk{pools_.disk.take(), pools_.disk.take()};
  PrefixHandle one;
  insert(one, {1, 2, 3, 4, 5}, tails[0], disk[0]);
  PrefixHandle two = look_up(cache_, base_, Tokens{1, 2, 3, 4}).match.handle;
  InsertAcquired held = insert(two, {1, 2, 3, 4, 6, 6}, tails[1], disk[1]);
  EXPECT_TRUE(held.blocks.empty() && held.released_blocks.empty() && held.disk_block_ids.empty());
  // Its own is no obstacle.
  InsertAcquired longer = insert(one, {1, 2, 3, 4, 5, 5}, tails[2], kNoBlock);
  EXPECT_EQ(longer.blocks, (Blocks{tails[2]}));
  EXPECT_EQ(longer.released_blocks, (Blocks{tails[0]}));
  EXPECT_EQ(longer.released_disk_block_ids, (Blocks{disk[0]}));
  EXPECT_TRUE(cache_.release(std::move(one)));
  InsertAcquired shorter = insert(two, {1, 2, 3, 4, 5}, tails[0], disk[0]);
  EXPECT_TRUE(shorter.blocks.empty() && shorter.released_blocks.empty());
  InsertAcquired other = insert(two, {1, 2, 3, 4, 6, 6}, tails[1], disk[1]);
  EXPECT_EQ(other.blocks, (Blocks{tails[1]}));
  EXPECT_EQ(other.released_blocks, (Blocks{tails[2]}));
  EXPECT_TRUE(other.released_disk_block_ids.empty());
  EXPECT_TRUE(cache_.release(std::move(two)));
  pools_.blocks.lower(tails);
  pools_.disk.lower(disk);
  EXPECT_EQ(cache_.usage().tails, 1u);
  // A cleared keyspace gives its tails back, too.
  EXPECT_TRUE(cache_.clear(base_));
  const EvictedBlocks reaped = cache_.reap(1);
  EXPECT_EQ(reaped.physical.size(), 2u);
  EXPECT_EQ(reaped.disk_block_ids, (Blocks{disk[1]}));
  pools_.apply(reaped);
}

TEST_F(PartialTailTest, ResumeLooksForTheTailAgain) {
  finish(run(base_, {1, 2, 3, 4, 5, 6}));
  Found found = look_up(cache_, base_, Tokens{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(found.match.matched_tokens, 6u);
  Found same = resume(cache_, found.match.handle, Tokens{5, 6, 7});
  EXPECT_EQ(same.match.matched_tokens, 6u);
  EXPECT_TRUE(same.match.must_copy());
  Found other = resume(cache_, same.match.handle, Tokens{9, 9});
  EXPECT_EQ(other.match.matched_tokens, 4u);
  EXPECT_FALSE(other.match.must_copy());
  EXPECT_TRUE(cache_.release(std::move(other.match.handle)));
}

// --- bad input

TEST_F(PrefixCacheTest, BadInputChangesNothing) {
  store(base_, {1, 2, 3, 4});
  const PrefixUsage before = cache_.usage();
  PrefixHandle handle = look_up(cache_, base_, kEight).match.handle;
  const Blocks one{50};
  const Blocks two{50, 51};
  const auto code = [&](Root root, const Tokens& tokens, uint32_t first, const SequenceBlocks& given) {
    const Result<PrefixInserted> inserted = cache_.insert(root, handle, tokens, first, given);
    return inserted ? Code::kOk : inserted.error().code;
  };
  EXPECT_EQ(code(base_, kEight, 0, {.blocks = one}), Code::kInvalidArgument);
  EXPECT_EQ(code(base_, kEight, 1, {.blocks = two}), Code::kInvalidArgument);
  EXPECT_EQ(code(base_, kEight, 3, {}), Code::kInvalidArgument);
  EXPECT_EQ(code(base_, {}, 0, {.blocks = one}), Code::kInvalidArgument);
  EXPECT_EQ(code(base_, kEight, 1, {one, two}), Code::kInvalidArgument);
  EXPECT_EQ(code(base_, kEight, 1, {.blocks = Blocks{kNoBlock}}), Code::kInvalidArgument);
  EXPECT_EQ(code(base_, kEight, 1, {.blocks = one, .tail_block = 7}), Code::kInvalidArgument);
  EXPECT_EQ(code(base_, kEight, 1, {.blocks = one, .tail_disk_block_id = 7}), Code::kInvalidArgument);
  EXPECT_EQ(code(base_, {1, 2}, 0, {}), Code::kInvalidArgument);  // less than the handle holds
  EXPECT_EQ(code(base_, kTwelve, 2, {.blocks = one}), Code::kFailedPrecondition);
  EXPECT_EQ(code(base_, kTwelve, 3, {}), Code::kFailedPrecondition);
  EXPECT_EQ(code({}, kEight, 1, {.blocks = one}), Code::kFailedPrecondition);
  EXPECT_EQ(code(*cache_.open({.adapter = 1}), kEight, 1, {.blocks = one}), Code::kFailedPrecondition);
  PrefixHandle nothing;
  EXPECT_EQ(cache_.extend(nothing, kEight, {.blocks = two}).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(resume(cache_, nothing, kEight).match.blocks, 0u);
  EXPECT_EQ(handle.blocks(), 1u);
  EXPECT_TRUE(cache_.release(std::move(handle)));
  EXPECT_TRUE(cache_.release({}));             // empty
  EXPECT_TRUE(cache_.release_matched({}, 0));  // empty
  EXPECT_TRUE(cache_.evict(0).physical.empty());
  EXPECT_TRUE(cache_.reap(0).physical.empty());
  EXPECT_EQ(look_up(cache_, {}, kEight).match.blocks, 0u);
  EXPECT_EQ(look_up(cache_, {4711, 3}, kEight).match.blocks, 0u);
  EXPECT_EQ(cache_.usage().blocks, before.blocks);
  EXPECT_EQ(cache_.usage().entries, before.entries);
}

TEST_F(PrefixCacheTest, AnotherCachesHandleIsRefused) {
  PrefixCache other(small());
  Request request = run(base_, kEight);
  EXPECT_EQ(other.release(std::move(request.handle)).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(other.insert(*other.open({}), request.handle, kTwelve, 2, {.blocks = Blocks{1}}).error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(request.handle.blocks(), 2u);
  finish(std::move(request));
}

TEST_F(PrefixCacheTest, TokensAtTheirLimitAreTokens) {
  const Token last = UINT32_MAX;
  store(base_, {last, last, last, last});
  EXPECT_EQ(matched(base_, {last, last, last, last}), 4u);
  EXPECT_EQ(matched(base_, {last, last, last, last - 1}), 0u);
}

// Full is said before anything is changed, and evicting makes room. A handle's own blocks need none.
TEST_F(PrefixCacheTest, FullIsBusy) {
  Tokens tokens(100 * kBlock);
  std::iota(tokens.begin(), tokens.end(), 0);
  Request all = run(base_, tokens);
  EXPECT_EQ(cache_.usage().entries, 100u);
  const Blocks one{pools_.blocks.take()};
  PrefixHandle handle;
  EXPECT_EQ(cache_.insert(base_, handle, Tokens{9, 9, 9, 9}, 0, {.blocks = one}).error().code,
            Code::kResourceExhausted);
  EXPECT_TRUE(cache_.insert(base_, all.handle, tokens, 99, {.blocks = one}));
  EXPECT_EQ(cache_.usage().blocks, 100u);
  finish(std::move(all));
  EXPECT_EQ(evict(1), (Blocks{99}));
  Result<PrefixInserted> fits = cache_.insert(base_, handle, Tokens{9, 9, 9, 9}, 0, {.blocks = one});
  ASSERT_TRUE(fits);
  pools_.apply(fits->acquired);
  EXPECT_TRUE(cache_.release(std::move(handle)));
  pools_.blocks.lower(one);
}

TEST(PrefixCacheLimits, InsertBeyondTheArenaIsBusy) {
  PrefixCacheOptions options = small();
  options.index_bytes = 2 << 20;
  options.blocks_max = 1 << 20;
  PrefixCache cache(options);
  const Root root = *cache.open({});
  Blocks blocks(1);
  uint32_t stored = 0;
  Code code = Code::kOk;
  for (uint32_t i = 0; i < 1 << 20 && code == Code::kOk; ++i) {
    PrefixHandle handle;
    blocks[0] = i;
    const Result<PrefixInserted> inserted = cache.insert(root, handle, Tokens{i, 0, 0, i}, 0, {.blocks = blocks});
    code = inserted ? Code::kOk : inserted.error().code;
    stored += inserted.has_value();
    EXPECT_TRUE(cache.release(std::move(handle)));
  }
  EXPECT_EQ(code, Code::kResourceExhausted);
  EXPECT_GT(stored, 1000u);
  EXPECT_EQ(cache.usage().blocks, stored);
  EXPECT_EQ(cache.usage().entries, stored);
  EXPECT_EQ(cache.evict(SIZE_MAX).physical.size(), stored);
  EXPECT_EQ(cache.usage().entries, 0u);
}

TEST(PrefixCacheLimits, AMillionTokensAreOnePrompt) {
  PrefixCacheOptions options = small();
  options.block_tokens = 16;
  options.blocks_max = 1 << 16;
  PrefixCache cache(options);
  const Root root = *cache.open({});
  Tokens tokens(1'000'000);
  std::iota(tokens.begin(), tokens.end(), 0);
  Blocks blocks(tokens.size() / 16);
  std::iota(blocks.begin(), blocks.end(), 0);
  PrefixHandle handle;
  Result<PrefixInserted> inserted = cache.insert(root, handle, tokens, 0, {.blocks = blocks});
  ASSERT_TRUE(inserted);
  EXPECT_EQ(inserted->acquired.blocks, blocks);
  EXPECT_TRUE(cache.release(std::move(handle)));
  Found found = look_up(cache, root, tokens);
  EXPECT_EQ(found.match.matched_tokens, 1'000'000u);
  EXPECT_EQ(found.blocks, blocks);
  EXPECT_TRUE(cache.release(std::move(found.match.handle)));
  EXPECT_EQ(cache.evict(SIZE_MAX).physical.size(), blocks.size());
}

TEST(PrefixCacheDeathTest, TooLittleRoomIsAMistake) {
  PrefixCache cache(small());
  const Root root = *cache.open({});
  Blocks room(1);
  EXPECT_DEATH({ [[maybe_unused]] auto match = cache.lookup(root, kEight, {room, {}}); }, "check failed");
}

}  // namespace
}  // namespace rhizome
