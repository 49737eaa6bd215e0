#include "concurrency/race_point.h"

#if defined(RHIZOME_RACE_POINTS) && RHIZOME_RACE_POINTS

#include <algorithm>
#include <atomic>
#include <numeric>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/index.h"
#include "machine/clock.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlock = 4;

// One thread is held at a named point of the index while another one passes it.
class IndexRace : public testing::Test {
 protected:
  explicit IndexRace(uint64_t memory_bytes = 4 << 20) : index_({.block_tokens = kBlock, .memory_bytes = memory_bytes}) {
    const char name = 'a';
    root_ = *index_.open(std::as_bytes(std::span(&name, 1)));
  }

  static std::vector<Token> blocks_of(const std::vector<Token>& names) {
    std::vector<Token> tokens;
    for (const Token name : names)
      tokens.insert(tokens.end(), kBlock, name);
    return tokens;
  }

  // Stores a prompt at locations that begin with `first`; the pin is the caller's.
  Handle store(const std::vector<Token>& tokens, Location first) {
    std::vector<Location> locations(tokens.size() / kBlock);
    std::iota(locations.begin(), locations.end(), first);
    std::vector<Location> canonical(locations.size());
    Handle handle;
    Result<Inserted> inserted = index_.insert(root_, handle, tokens, 0, locations, canonical);
    EXPECT_TRUE(inserted);
    return std::move(inserted->handle);
  }
  void store_and_release(const std::vector<Token>& tokens, Location first) {
    EXPECT_TRUE(index_.release(store(tokens, first)));
  }

  std::vector<Location> look(const std::vector<Token>& tokens) {
    std::vector<Location> found(tokens.size() / kBlock);
    Match match = index_.lookup(root_, tokens, found);
    found.resize(match.blocks);
    EXPECT_TRUE(index_.release(std::move(match.handle)));
    return found;
  }

  std::vector<Location> evict(size_t count) {
    std::vector<Location> out(count);
    out.resize(index_.evict(out));
    return out;
  }

  void expect_drained() {
    evict(1000);
    EXPECT_EQ(index_.usage().blocks, 0u);
    EXPECT_EQ(index_.usage().runs, 1u);
    EXPECT_EQ(index_.pins(root_).handles, 0u);
  }

  Thread in_thread(std::function<void()> run) { return std::move(*start_thread("racer", std::move(run))); }

  Index index_;
  Root root_;
};

// C2: between the walk and the pin the blocks are evicted and their places taken by another prompt.
TEST_F(IndexRace, BlocksEvictedBeforeThePinAreAMiss) {
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  store_and_release(tokens, 10);
  RaceHold hold("index.lookup.before_pin");
  std::vector<Location> found{99};
  {
    Thread reader = in_thread([&] { found = look(tokens); });
    hold.wait_reached();
    EXPECT_EQ(evict(9).size(), 3u);
    store_and_release(blocks_of({7, 7, 7}), 20);
    hold.let_go();
  }
  EXPECT_TRUE(found.empty());
  expect_drained();
}

TEST_F(IndexRace, BlocksTrimmedBeforeThePinAreNotReturned) {
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  store_and_release(tokens, 10);
  RaceHold hold("index.lookup.before_pin");
  std::vector<Location> found;
  {
    Thread reader = in_thread([&] { found = look(tokens); });
    hold.wait_reached();
    EXPECT_EQ(evict(1), (std::vector<Location>{12}));
    hold.let_go();
  }
  EXPECT_EQ(found, (std::vector<Location>{10, 11}));
  expect_drained();
}

TEST_F(IndexRace, ARunSplitBeforeThePinIsFoundAgain) {
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  store_and_release(tokens, 10);
  RaceHold hold("index.lookup.before_pin");
  std::vector<Location> found;
  {
    Thread reader = in_thread([&] { found = look(tokens); });
    hold.wait_reached();
    store_and_release(blocks_of({1, 9}), 20);
    hold.let_go();
  }
  EXPECT_EQ(found, (std::vector<Location>{10, 11, 12}));
  EXPECT_EQ(look(blocks_of({1, 9})), (std::vector<Location>{10, 21}));
  expect_drained();
}

// A reader meets a split that does not go on: it ends, with what it is sure of.
TEST_F(IndexRace, ASplitThatStandsStillStopsNoReader) {
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  store_and_release(tokens, 10);
  RaceHold hold("index.split.half_way");
  {
    Thread splitter = in_thread([&] { store_and_release(blocks_of({1, 9}), 20); });
    hold.wait_reached();
    EXPECT_EQ(look(tokens), (std::vector<Location>{}));
    EXPECT_EQ(index_.peek(root_, tokens), 0u);
    hold.let_go();
  }
  EXPECT_EQ(look(tokens), (std::vector<Location>{10, 11, 12}));
  expect_drained();
}

// Two want to split one run at the same place, and at different ones.
TEST_F(IndexRace, TwoWhoSplitOneRun) {
  store_and_release(blocks_of({1, 2, 3, 4}), 10);
  for (const std::vector<Token>& other : {blocks_of({1, 2, 8}), blocks_of({1, 7}), blocks_of({1, 2, 3, 6})}) {
    RaceHold hold("index.split.before_lock");
    Thread first = in_thread([&] { store_and_release(blocks_of({1, 2, 9}), 20); });
    hold.wait_reached();
    store_and_release(other, 30);
    hold.let_go();
    first.join();
    EXPECT_EQ(look(blocks_of({1, 2, 3, 4})), (std::vector<Location>{10, 11, 12, 13}));
    EXPECT_EQ(look(blocks_of({1, 2, 9})), (std::vector<Location>{10, 11, 22}));
    EXPECT_EQ(look(other).size(), other.size() / kBlock);
    evict(1000);
    store_and_release(blocks_of({1, 2, 3, 4}), 10);
  }
  expect_drained();
}

// C7: two store the same blocks; the first one's stay.
TEST_F(IndexRace, TwoWhoAttachTheSameBlocks) {
  Handle trunk = store(blocks_of({1}), 10);
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  RaceHold hold("index.attach.before_lock");
  std::vector<Location> canonical(3);
  {
    Thread second = in_thread([&] {
      const std::vector<Location> mine{30, 31, 32};
      Handle handle;
      Result<Inserted> inserted = index_.insert(root_, handle, tokens, 0, mine, canonical);
      EXPECT_EQ(inserted->stored_before, 3u);
      EXPECT_TRUE(index_.release(std::move(inserted->handle)));
    });
    hold.wait_reached();
    store_and_release(tokens, 20);
    hold.let_go();
  }
  EXPECT_EQ(canonical, (std::vector<Location>{10, 21, 22}));
  EXPECT_EQ(index_.usage().blocks, 3u);
  EXPECT_TRUE(index_.release(std::move(trunk)));
  expect_drained();
}

// Somebody pins the run while its only holder appends: the append must not move under him.
TEST_F(IndexRace, APinDuringAnAppendMakesItARunOfItsOwn) {
  std::vector<Token> tokens = blocks_of({1});
  Handle handle = store(tokens, 10);
  const auto grow = [&](Token name, Location location) {
    tokens = blocks_of({1, 2});
    tokens.resize(kBlock);
    const std::vector<Token> more = blocks_of({name});
    Location canonical = 0;
    Result<Inserted> inserted = index_.extend(root_, handle, more, std::span(&location, 1), std::span(&canonical, 1));
    EXPECT_TRUE(inserted);
    handle = std::move(inserted->handle);
  };
  grow(2, 11);
  RaceHold hold("index.append.before_publish");
  Match match;
  std::vector<Location> found(2);
  {
    Thread owner = in_thread([&] { grow(3, 12); });
    hold.wait_reached();
    match = index_.lookup(root_, blocks_of({1, 2}), found);
    EXPECT_EQ(match.blocks, 2u);
    hold.let_go();
  }
  EXPECT_EQ(look(blocks_of({1, 2, 3})), (std::vector<Location>{10, 11, 12}));
  EXPECT_TRUE(index_.release(std::move(match.handle)));
  EXPECT_TRUE(index_.release(std::move(handle)));
  expect_drained();
}

TEST_F(IndexRace, APinBeforeTheVictimDiesKeepsIt) {
  const std::vector<Token> tokens = blocks_of({1, 2});
  store_and_release(tokens, 10);
  RaceHold hold("index.evict.before_exchange");
  std::vector<Location> gone{99};
  Match match;
  std::vector<Location> found(2);
  {
    Thread evictor = in_thread([&] { gone = evict(5); });
    hold.wait_reached();
    match = index_.lookup(root_, tokens, found);
    hold.let_go();
  }
  EXPECT_TRUE(gone.empty());
  EXPECT_EQ(match.blocks, 2u);
  EXPECT_TRUE(index_.release(std::move(match.handle)));
  expect_drained();
}

// The last pin goes while the evictor puts a pinned run aside: one of the two must see it.
TEST_F(IndexRace, ARunReleasedWhileItIsPutAsideIsACandidateAgain) {
  // After it was seen to be pinned, and after it was put aside.
  for (const char* const point : {"index.evict.pinned", "index.evict.not_queued"}) {
    SCOPED_TRACE(point);
    const std::vector<Token> tokens = blocks_of({1, 2});
    store_and_release(tokens, 10);
    std::vector<Location> found(2);
    Match match = index_.lookup(root_, tokens, found);
    RaceHold hold(point);
    std::vector<Location> gone;
    {
      Thread evictor = in_thread([&] { gone = evict(5); });
      hold.wait_reached();
      EXPECT_TRUE(index_.release(std::move(match.handle)));
      hold.let_go();
    }
    EXPECT_EQ(gone.size() + evict(5).size(), 2u);
    expect_drained();
  }
}

// Whoever lets go last is slow to say so; meanwhile another one pins and lets go, and the run dies.
TEST_F(IndexRace, ALateReleaserFindsTheRunDead) {
  const std::vector<Token> tokens = blocks_of({1, 2});
  Handle handle = store(tokens, 10);
  RaceHold hold("index.unpin.before_enqueue");
  {
    Thread late = in_thread([&] { EXPECT_TRUE(index_.release(std::move(handle))); });
    hold.wait_reached();
    EXPECT_EQ(look(tokens).size(), 2u);
    EXPECT_EQ(evict(5).size(), 2u);
    store_and_release(blocks_of({5, 5}), 30);
    hold.let_go();
  }
  EXPECT_EQ(look(blocks_of({5, 5})), (std::vector<Location>{30, 31}));
  expect_drained();
}

// Cleared while an insert is on its way: it is stored in the new tree or in the old one, never in both or none.
TEST_F(IndexRace, ClearingWaitsForAnInsert) {
  RaceHold hold("index.attach.before_lock");
  std::atomic<bool> cleared{false};
  {
    Thread inserter = in_thread([&] { store_and_release(blocks_of({1, 2}), 10); });
    hold.wait_reached();
    Thread clearer = in_thread([&] {
      EXPECT_TRUE(index_.clear(root_));
      cleared = true;
    });
    for (int i = 0; i < 100; ++i)
      yield_thread();
    EXPECT_FALSE(cleared);
    hold.let_go();
  }
  EXPECT_TRUE(look(blocks_of({1, 2})).empty());
  std::vector<Location> out(5);
  EXPECT_EQ(index_.reap(out), 2u);
  expect_drained();
}

// The evictor looks at a run that was idle a moment ago, while somebody who pinned it since is splitting it.
TEST_F(IndexRace, ARunBeingSplitIsNoVictim) {
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  store_and_release(tokens, 10);
  RaceHold evictor_hold("index.evict.still_idle");
  RaceHold splitter_hold("index.split.half_way");
  std::vector<Location> gone{99};
  {
    Thread evictor = in_thread([&] { gone = evict(5); });
    evictor_hold.wait_reached();
    Thread splitter = in_thread([&] { store_and_release(blocks_of({1, 9}), 20); });
    splitter_hold.wait_reached();
    RaceHold looked("index.evict.put_back");
    Thread releaser = in_thread([&] {
      looked.wait_reached();
      splitter_hold.let_go();
      looked.let_go();
    });
    evictor_hold.let_go();
    releaser.join();
  }
  EXPECT_LE(gone.size(), 5u);
  expect_drained();
}

// Two insert into a keyspace that the new epoch has emptied: the slower one must not empty it again.
TEST_F(IndexRace, ANewEpochEmptiesAKeyspaceOnce) {
  store_and_release(blocks_of({1}), 10);
  index_.start_epoch();
  RaceHold hold("index.renew.before_lock");
  {
    Thread slow = in_thread([&] { store_and_release(blocks_of({5}), 20); });
    hold.wait_reached();
    store_and_release(blocks_of({6, 7}), 30);
    hold.let_go();
  }
  EXPECT_EQ(look(blocks_of({5})), (std::vector<Location>{20}));
  EXPECT_EQ(look(blocks_of({6, 7})), (std::vector<Location>{30, 31}));
  std::vector<Location> out(5);
  EXPECT_EQ(index_.reap(out), 1u);
  expect_drained();
}

// A new run is split before its parent hints at it: the hint must not lead around what is removed later.
TEST_F(IndexRace, AHintNeverLeadsToWhatIsRemoved) {
  Handle trunk = store(blocks_of({1}), 10);
  RaceHold hold("index.attach.linked");
  {
    Thread first = in_thread([&] { store_and_release(blocks_of({1, 2, 3}), 20); });
    hold.wait_reached();
    store_and_release(blocks_of({1, 2, 9}), 30);
    hold.let_go();
  }
  std::vector<Location> found(3);
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  Match match = index_.lookup(root_, tokens, found);
  ASSERT_EQ(match.blocks, 3u);
  EXPECT_EQ(index_.remove(match.handle, 1), 3u);
  EXPECT_EQ(index_.peek(root_, tokens), 1u);
  EXPECT_EQ(look(tokens), (std::vector<Location>{10}));
  store_and_release(tokens, 40);
  EXPECT_EQ(look(tokens), (std::vector<Location>{10, 41, 42}));
  EXPECT_TRUE(index_.release(std::move(match.handle)));
  EXPECT_TRUE(index_.release(std::move(trunk)));
  std::vector<Location> out(5);
  EXPECT_EQ(index_.reap(out), 3u);
  expect_drained();
}

// Then the pin is no deeper than what was found: what is behind the split may go.
TEST_F(IndexRace, APinOnARunThatWasSplitKeepsOnlyWhatWasFound) {
  store_and_release(blocks_of({1, 2, 3}), 10);
  RaceHold hold("index.lookup.before_pin");
  Match match;
  std::vector<Location> found(1);
  {
    Thread reader = in_thread([&] { match = index_.lookup(root_, blocks_of({1}), found); });
    hold.wait_reached();
    store_and_release(blocks_of({1, 9}), 20);
    hold.let_go();
  }
  EXPECT_EQ(match.blocks, 1u);
  EXPECT_EQ(evict(9).size(), 3u);
  EXPECT_TRUE(index_.release(std::move(match.handle)));
  expect_drained();
}

// The blocks that a reader has compared are trimmed and others appended in their place: the length is as it was.
TEST_F(IndexRace, BlocksThatTookThePlaceOfTrimmedOnesAreNotReturned) {
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  store_and_release(tokens, 10);
  RaceHold hold("index.lookup.before_pin");
  std::vector<Location> found;
  {
    Thread reader = in_thread([&] { found = look(tokens); });
    hold.wait_reached();
    EXPECT_EQ(evict(1), (std::vector<Location>{12}));
    store_and_release(blocks_of({1, 2, 4}), 20);
    hold.let_go();
  }
  EXPECT_EQ(found, (std::vector<Location>{10, 11}));
  expect_drained();
}

TEST_F(IndexRace, BlocksRemovedBeforeThePinAreNotReturned) {
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  Handle handle = store(tokens, 10);
  RaceHold removing("index.remove.closed");
  RaceHold reading("index.lookup.before_pin");
  std::vector<Location> found;
  {
    Thread remover = in_thread([&] { EXPECT_EQ(index_.remove(handle, 0), 3u); });
    removing.wait_reached();
    Thread reader = in_thread([&] { found = look(tokens); });
    reading.wait_reached();
    removing.let_go();
    remover.join();
    reading.let_go();
  }
  EXPECT_TRUE(found.empty());
  EXPECT_TRUE(index_.release(std::move(handle)));
  std::vector<Location> out(5);
  EXPECT_EQ(index_.reap(out), 3u);
  expect_drained();
}

// Dead and still linked: nobody finds it.
TEST_F(IndexRace, ADyingRunIsNotFound) {
  const std::vector<Token> tokens = blocks_of({1, 2});
  store_and_release(tokens, 10);
  RaceHold hold("index.evict.exchanged");
  {
    Thread evictor = in_thread([&] { EXPECT_EQ(evict(5).size(), 2u); });
    hold.wait_reached();
    EXPECT_EQ(index_.peek(root_, tokens), 0u);
    store_and_release(tokens, 20);
    EXPECT_EQ(look(tokens), (std::vector<Location>{20, 21}));
    hold.let_go();
  }
  EXPECT_EQ(look(tokens), (std::vector<Location>{20, 21}));
  expect_drained();
}

// A reader is about to count its pin apart while the run cools down: the count must not be lost.
TEST_F(IndexRace, APinOnAHotRunThatCoolsIsNotLost) {
  const std::vector<Token> tokens = blocks_of({1, 2});
  std::vector<Handle> held;
  held.push_back(store(tokens, 10));
  std::vector<Location> found(2);
  for (int i = 0; i < 50; ++i)
    held.push_back(index_.lookup(root_, tokens, found).handle);
  RaceHold hold("index.pin.hot");
  Match match;
  {
    Thread reader = in_thread([&] { match = index_.lookup(root_, tokens, found); });
    hold.wait_reached();
    for (Handle& handle : held)
      EXPECT_TRUE(index_.release(std::move(handle)));
    EXPECT_TRUE(evict(5).empty());
    hold.let_go();
  }
  EXPECT_EQ(match.blocks, 2u);
  EXPECT_TRUE(evict(5).empty());
  EXPECT_TRUE(index_.release(std::move(match.handle)));
  EXPECT_EQ(evict(5).size(), 2u);
  expect_drained();
}

TEST_F(IndexRace, NobodyInsertsWhileBlocksAreRemoved) {
  Handle handle = store(blocks_of({1, 2}), 10);
  RaceHold hold("index.remove.closed");
  std::atomic<bool> inserted{false};
  {
    Thread remover = in_thread([&] { EXPECT_EQ(index_.remove(handle, 1), 1u); });
    hold.wait_reached();
    Thread inserter = in_thread([&] {
      store_and_release(blocks_of({1, 2, 3}), 20);
      inserted = true;
    });
    for (int i = 0; i < 100; ++i)
      yield_thread();
    EXPECT_FALSE(inserted);
    hold.let_go();
  }
  EXPECT_EQ(look(blocks_of({1, 2, 3})), (std::vector<Location>{10, 21, 22}));
  EXPECT_TRUE(index_.release(std::move(handle)));
  std::vector<Location> out(5);
  EXPECT_EQ(index_.reap(out), 1u);
  expect_drained();
}

// Who sleeps is woken by the insert, not by the end of his nap of a quarter of a second.
TEST_F(IndexRace, AnInsertWakesWhoWaits) {
  const std::vector<Token> tokens = blocks_of({1, 2, 3, 4, 5});
  const uint64_t far = monotonic_now_ns() + 60'000'000'000;
  Result<Claim> claim = index_.announce(root_, tokens, 0, 1, far);
  ASSERT_TRUE(claim);
  uint64_t quickest_ns = UINT64_MAX;
  for (uint32_t blocks = 0; blocks < 5; ++blocks) {
    RaceHold hold("index.wait.before_sleep");
    Thread waiter = in_thread([&] { EXPECT_EQ(index_.wait(root_, tokens, blocks, far), WaitEnd::kMoreBlocks); });
    hold.wait_reached();
    hold.let_go();
    const uint64_t before = monotonic_now_ns();
    store_and_release(std::vector<Token>(tokens.begin(), tokens.begin() + kBlock * (blocks + 1)), 10);
    waiter.join();
    quickest_ns = std::min(quickest_ns, monotonic_now_ns() - before);
  }
  EXPECT_LT(quickest_ns, 150'000'000u);
  claim->withdraw();
  expect_drained();
}

// Somebody else goes on from the end that the append is about to move.
TEST_F(IndexRace, AChildAttachedDuringAnAppendStaysWhereItIs) {
  Handle handle = store(blocks_of({1}), 10);
  RaceHold hold("index.append.before_publish");
  {
    Thread owner = in_thread([&] {
      const Location mine = 11;
      Location canonical = 0;
      Result<Inserted> inserted =
          index_.extend(root_, handle, blocks_of({2}), std::span(&mine, 1), std::span(&canonical, 1));
      ASSERT_TRUE(inserted);
      handle = std::move(inserted->handle);
    });
    hold.wait_reached();
    store_and_release(blocks_of({1, 9}), 20);
    hold.let_go();
  }
  EXPECT_EQ(look(blocks_of({1, 2})), (std::vector<Location>{10, 11}));
  EXPECT_EQ(look(blocks_of({1, 9})), (std::vector<Location>{10, 21}));
  EXPECT_TRUE(index_.release(std::move(handle)));
  expect_drained();
}

// Children that wait in limbo keep nobody from evicting what is above them.
TEST_F(IndexRace, ARunReleasedAfterItsChildrenDiedIsACandidate) {
  store_and_release(blocks_of({7}), 70);
  store_and_release(blocks_of({1, 2}), 10);
  store_and_release(blocks_of({1, 9}), 20);
  std::vector<Location> found(1);
  Match match = index_.lookup(root_, blocks_of({1}), found);
  RaceHold hold("index.lookup.before_pin");
  {
    Thread reader = in_thread([&] { look(blocks_of({7})); });
    hold.wait_reached();
    EXPECT_EQ(evict(9).size(), 3u);
    EXPECT_TRUE(index_.release(std::move(match.handle)));
    EXPECT_EQ(evict(9), (std::vector<Location>{10}));
    hold.let_go();
  }
  expect_drained();
}

TEST_F(IndexRace, ATableThatGrowsLosesNobody) {
  RaceHold hold("index.edges.growing");
  std::atomic<Token> stored{0};
  {
    Thread inserter = in_thread([&] {
      for (Token name = 1; name <= 4000; ++name) {
        store_and_release(blocks_of({name}), name);
        stored = name;
      }
    });
    hold.wait_reached();
    EXPECT_GT(stored, 0u);
    for (Token name = 1; name <= stored; ++name)
      EXPECT_EQ(index_.peek(root_, blocks_of({name})), 1u) << name;
    hold.let_go();
  }
  evict(4000);
  expect_drained();
}

// The reader stands before an array that is replaced, and what it looks for comes into the new one only.
TEST_F(IndexRace, AReaderOfAnOldTableLooksAgain) {
  RaceHold hold("index.edges.probe");
  uint32_t found = 0;
  {
    Thread reader = in_thread([&] { found = index_.peek(root_, blocks_of({1})); });
    hold.wait_reached();
    for (Token name = 10'000; name > 0; --name)
      store_and_release(blocks_of({name}), name);
    hold.let_go();
  }
  EXPECT_EQ(found, 1u);
  evict(10'000);
  expect_drained();
}

TEST_F(IndexRace, AReaderOfARunThatIsSplitMeanwhileReadsItAgain) {
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  store_and_release(tokens, 10);
  RaceHold hold("index.read.half_way");
  std::vector<Location> found;
  {
    Thread reader = in_thread([&] { found = look(tokens); });
    hold.wait_reached();
    store_and_release(blocks_of({1, 9}), 20);
    hold.let_go();
  }
  EXPECT_EQ(found, (std::vector<Location>{10, 11, 12}));
  expect_drained();
}

TEST_F(IndexRace, BlocksEvictedBeforeAnInsertPinsThemAreStoredAnew) {
  store_and_release(blocks_of({1, 2}), 10);
  RaceHold hold("index.insert.before_pin");
  {
    Thread inserter = in_thread([&] { store_and_release(blocks_of({1, 2, 3}), 20); });
    hold.wait_reached();
    EXPECT_EQ(evict(9).size(), 2u);
    hold.let_go();
  }
  EXPECT_EQ(look(blocks_of({1, 2, 3})), (std::vector<Location>{20, 21, 22}));
  expect_drained();
}

// An arena that consists of small places only.
class IndexRaceOfChains : public IndexRace {
 protected:
  IndexRaceOfChains() : IndexRace(4 << 10) {
    std::vector<Location> canonical(1);
    for (Token name = 100;; ++name) {
      Handle handle;
      Result<Inserted> inserted = index_.insert(root_, handle, blocks_of({name}), 0, canonical, canonical);
      if (!inserted) break;
      EXPECT_TRUE(index_.release(std::move(inserted->handle)));
    }
    evict(1000);
    empty_ = index_.usage();
    EXPECT_EQ(empty_.runs, 1u);
    std::iota(names_.begin(), names_.end(), 1);
    tokens_ = blocks_of(names_);
  }

  IndexUsage empty_;
  std::vector<Token> names_ = std::vector<Token>(24);
  std::vector<Token> tokens_;
};

// What is not linked yet is nowhere, though its runs lead on to each other.
TEST_F(IndexRaceOfChains, AChainThatIsMadeIsNotFoundNorEvicted) {
  RaceHold hold("index.attach.before_lock");
  Handle handle;
  Thread inserter = in_thread([&] { handle = store(tokens_, 500); });
  hold.wait_reached();
  EXPECT_GT(index_.usage().bytes, empty_.bytes);
  EXPECT_EQ(index_.usage().blocks, 0u);
  EXPECT_TRUE(look(tokens_).empty());
  for (size_t from = 1; from < names_.size(); ++from)
    EXPECT_TRUE(look(blocks_of({names_.begin() + static_cast<std::ptrdiff_t>(from), names_.end()})).empty());
  EXPECT_TRUE(evict(1000).empty());
  hold.let_go();
  inserter.join();
  EXPECT_EQ(look(tokens_).size(), 24u);
  EXPECT_GT(index_.usage().runs, 4u);
  EXPECT_TRUE(evict(1000).empty()) << "the pin at the end holds all";
  EXPECT_TRUE(index_.release(std::move(handle)));
  EXPECT_EQ(evict(1000).size(), 24u);
  expect_drained();
  EXPECT_EQ(index_.usage().bytes, empty_.bytes);
}

// Of two chains with the same blocks one is taken back, and its places are free.
TEST_F(IndexRaceOfChains, TheSecondOfTwoEqualChainsIsTakenBack) {
  Handle second;
  {
    RaceHold hold("index.attach.before_lock");
    Thread inserter = in_thread([&] { second = store(tokens_, 500); });
    hold.wait_reached();
    store_and_release(tokens_, 1);
    const uint64_t both = index_.usage().bytes - empty_.bytes;
    hold.let_go();
    inserter.join();
    EXPECT_EQ((index_.usage().bytes - empty_.bytes) * 2, both);
  }
  EXPECT_EQ(look(tokens_), names_);
  EXPECT_EQ(index_.usage().blocks, 24u);
  EXPECT_EQ(index_.pins(root_).handles, 1u);
  // The places are used again, and what was there before is not found through them.
  const std::vector<Token> others = blocks_of({1, 2, 3, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40});
  store_and_release(others, 600);
  EXPECT_EQ(look(others).size(), 13u);
  EXPECT_EQ(look(tokens_), names_);
  EXPECT_TRUE(index_.release(std::move(second)));
  expect_drained();
  EXPECT_EQ(index_.usage().bytes, empty_.bytes);
}

}  // namespace
}  // namespace rhizome

#endif
