#include "index/index_reader.h"

#include <cstring>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "concurrency/race_point.h"
#include "index/index.h"
#include "index/remote_readers_fixture.h"
#include "machine/clock.h"
#include "machine/mapping.h"
#include "machine/random.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlock = 4;
constexpr uint64_t kRunsBytes = 1 << 20;

class IndexReaderTest : public testing::Test {
 protected:
  IndexReaderTest()
      : memory_(*Mapping::anonymous(Index::shared_bytes(kRunsBytes))),
        index_({.block_tokens = kBlock, .shared_memory = memory_.bytes(), .remote_readers = &readers_}),
        root_(open('a')),
        reader_(*IndexReader::open(memory_.bytes())) {}

  Root open(char name) { return *index_.open(std::as_bytes(std::span(&name, 1))); }

  static std::vector<Token> blocks_of(const std::vector<Token>& names) {
    std::vector<Token> tokens;
    for (const Token name : names)
      tokens.insert(tokens.end(), kBlock, name);
    return tokens;
  }

  void store(const std::vector<Token>& tokens, Location first) {
    std::vector<Location> locations(tokens.size() / kBlock);
    std::iota(locations.begin(), locations.end(), first);
    std::vector<Location> canonical(locations.size());
    Handle handle;
    Result<Inserted> inserted = index_.insert(root_, handle, tokens, 0, locations, canonical);
    ASSERT_TRUE(inserted);
    EXPECT_TRUE(index_.release(std::move(inserted->handle)));
  }

  std::vector<Location> look(const std::vector<Token>& tokens, size_t slot = 0) {
    std::vector<Location> found(tokens.size() / kBlock);
    const RemoteMatch match = reader_.lookup(index_.shared_root(root_), tokens, found, words_.slots[slot]);
    found.resize(match.blocks);
    EXPECT_EQ(match.run != 0, match.blocks != 0);
    EXPECT_EQ(words_.slots[slot].load(), match.run);
    return found;
  }
  // What is used from now on is younger.
  static void wait_for_ticks() {
    const uint64_t now = coarse_now_ticks();
    while (coarse_now_ticks() < now + 2)
      pause_thread(100000);
  }
  void let_go(size_t slot = 0) { IndexReader::release(words_.slots[slot]); }

  std::vector<Location> evict(size_t count) {
    std::vector<Location> out(count);
    out.resize(index_.evict(out));
    return out;
  }
  std::vector<Location> reap() {
    std::vector<Location> out(1000);
    out.resize(index_.reap(out));
    return out;
  }

  ReaderWords words_{};
  TestReaders readers_{words_};
  Mapping memory_;
  Index index_;
  Root root_;
  IndexReader reader_;
};

using Locations = std::vector<Location>;

TEST_F(IndexReaderTest, FindsWhatTheIndexFinds) {
  store(blocks_of({1, 2, 3}), 10);
  store(blocks_of({1, 2, 4, 5}), 20);
  EXPECT_EQ(reader_.block_tokens(), kBlock);
  EXPECT_EQ(look(blocks_of({1, 2, 3, 9})), (Locations{10, 11, 12}));
  let_go();
  EXPECT_EQ(look(blocks_of({1, 2, 4, 5})), (Locations{10, 11, 22, 23}));
  let_go();
  EXPECT_EQ(look(blocks_of({1})), (Locations{10}));
  let_go();
  EXPECT_EQ(look(blocks_of({2, 1})), Locations());
  EXPECT_EQ(reader_.peek(index_.shared_root(root_), blocks_of({1, 2, 4, 6})), 3u);
  EXPECT_EQ(look(std::vector<Token>(kBlock - 1, 1)), Locations());
}

TEST_F(IndexReaderTest, WhatASlotHoldsIsNotGivenAway) {
  store(blocks_of({1, 2}), 10);
  store(blocks_of({1, 2, 3}), 20);
  store(blocks_of({7, 8}), 30);
  EXPECT_EQ(look(blocks_of({1, 2, 3})), (Locations{10, 11, 22}));
  EXPECT_EQ(evict(100), (Locations{31, 30}));
  EXPECT_EQ(evict(100), Locations());
  EXPECT_EQ(look(blocks_of({1, 2, 3}), 1), (Locations{10, 11, 22})) << "and stays findable";
  let_go(0);
  EXPECT_EQ(evict(100), Locations());
  let_go(1);
  EXPECT_EQ(evict(100), (Locations{22, 11, 10}));
  EXPECT_EQ(index_.usage().blocks, 0u);
  EXPECT_EQ(index_.usage().runs, 1u);
}

TEST_F(IndexReaderTest, WhatIsRemovedWhileASlotHoldsItIsReapedLater) {
  store(blocks_of({1, 2, 3, 4}), 10);
  EXPECT_EQ(look(blocks_of({1, 2, 3, 4})), (Locations{10, 11, 12, 13}));
  EXPECT_EQ(index_.remove_if([](Location at) { return at == 12; }), 2u);
  EXPECT_EQ(reap(), Locations());
  EXPECT_EQ(index_.usage().removed_blocks, 2u);
  EXPECT_EQ(evict(100), Locations()) << "what is above it is pinned by it";
  EXPECT_EQ(look(blocks_of({1, 2, 3, 4}), 1), (Locations{10, 11}));
  let_go(1);
  let_go(0);
  EXPECT_EQ(reap(), (Locations{13, 12}));
  EXPECT_EQ(evict(100), (Locations{11, 10}));
}

TEST_F(IndexReaderTest, AClearedKeyspaceIsToldApart) {
  store(blocks_of({1, 2}), 10);
  const SharedRoot before = index_.shared_root(root_);
  Locations found(2);
  EXPECT_EQ(look(blocks_of({1, 2})), (Locations{10, 11}));
  ASSERT_TRUE(index_.clear(root_));
  const RemoteMatch stale = reader_.lookup(before, blocks_of({1, 2}), found, words_.slots[1]);
  EXPECT_TRUE(stale.root_is_stale);
  EXPECT_EQ(stale.blocks, 0u);
  EXPECT_EQ(reap(), Locations()) << "slot 0 holds them";
  let_go();
  EXPECT_EQ(reap(), (Locations{11, 10}));
  EXPECT_NE(index_.shared_root(root_), before);
  store(blocks_of({1, 2}), 30);
  EXPECT_EQ(look(blocks_of({1, 2})), (Locations{30, 31}));
  const SharedRoot second = index_.shared_root(root_);
  index_.start_epoch();
  EXPECT_TRUE(reader_.lookup(second, blocks_of({1, 2}), found, words_.slots[1]).root_is_stale);
  EXPECT_EQ(index_.shared_root(root_), SharedRoot{});
  EXPECT_EQ(reader_.peek(second, blocks_of({1, 2})), 0u);
  let_go();
}

TEST_F(IndexReaderTest, TouchesOfReadersCount) {
  store(blocks_of({1}), 10);
  store(blocks_of({2}), 20);
  look(blocks_of({1}));
  const RunId used = words_.slots[0].load();
  let_go();
  wait_for_ticks();
  const uint64_t later = static_cast<uint32_t>(coarse_now_ticks());
  words_.touches[3].store(used | later << 32);
  words_.touches[4].store(0xdeadbeef | later << 32);      // no run at all
  words_.touches[5].store(used | (later + 90000) << 32);  // from a time to come
  wait_for_ticks();
  store(blocks_of({3}), 30);
  EXPECT_EQ(evict(1), (Locations{20}));
  EXPECT_EQ(evict(1), (Locations{10}));
}

TEST_F(IndexReaderTest, RefusesWhatIsNoIndex) {
  std::vector<std::byte> copy(memory_.bytes().begin(), memory_.bytes().end());
  EXPECT_TRUE(IndexReader::open(copy));
  EXPECT_EQ(IndexReader::open(std::span(copy).first(100)).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(IndexReader::open(std::span(copy).first(copy.size() - 4096)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(FingerprintIndexReader::open(copy).error().code, Code::kInvalidArgument);
  std::memset(copy.data(), 0, 4096);
  EXPECT_EQ(IndexReader::open(copy).error().code, Code::kFailedPrecondition);
}

// The other process went mad: every look-up ends and stays inside the mapping.
TEST_F(IndexReaderTest, GarbageIsNoDanger) {
  for (Token i = 0; i < 200; ++i)
    store(blocks_of({i % 7, i % 11, i}), 10 * i);
  const SharedRoot root = index_.shared_root(root_);
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Mapping copy = *Mapping::anonymous(memory_.bytes().size());
  Locations found(3);
  for (int round = 0; round < 200; ++round) {
    std::memcpy(copy.bytes().data(), memory_.bytes().data(), copy.bytes().size());
    const IndexReader reader = *IndexReader::open(copy.bytes());
    for (int damage = 0; damage < 2000; ++damage) {
      const size_t at = 4096 + random() % (damage % 2 == 0 ? copy.bytes().size() - 4096 : 200000);
      copy.bytes()[at] = static_cast<std::byte>(random());
    }
    for (Token i = 0; i < 200; ++i) {
      const RemoteMatch match = reader.lookup(root, blocks_of({i % 7, i % 11, i}), found, words_.slots[0]);
      ASSERT_LE(match.blocks, 3u);
      let_go();
    }
  }
}

#if defined(RHIZOME_RACE_POINTS) && RHIZOME_RACE_POINTS

class IndexReaderRace : public IndexReaderTest {
 protected:
  Thread in_thread(std::function<void()> run) { return std::move(*start_thread("racer", std::move(run))); }
};

TEST_F(IndexReaderRace, BlocksEvictedBeforeTheSlotIsSetAreAMiss) {
  store(blocks_of({1, 2, 3}), 10);
  RaceHold hold("index.remote.before_slot");
  Locations found;
  Thread reader = in_thread([&] { found = look(blocks_of({1, 2, 3})); });
  hold.wait_reached();
  EXPECT_EQ(evict(100), (Locations{12, 11, 10}));
  store(blocks_of({4, 5, 6}), 10);
  hold.let_go();
  reader.join();
  EXPECT_EQ(found, Locations());
}

TEST_F(IndexReaderRace, BlocksTrimmedBeforeTheSlotIsSetAreAMiss) {
  store(blocks_of({1, 2, 3}), 10);
  RaceHold hold("index.remote.before_slot");
  Locations found;
  Thread reader = in_thread([&] { found = look(blocks_of({1, 2, 3})); });
  hold.wait_reached();
  EXPECT_EQ(evict(1), (Locations{12}));
  hold.let_go();
  reader.join();
  EXPECT_EQ(found, (Locations{10, 11}));
  let_go();
}

// A slot that was set before the run was marked protects it, though the evictor had not seen it when it chose.
TEST_F(IndexReaderRace, ASlotSetWhileTheEvictorMarksIsSeen) {
  store(blocks_of({1, 2, 3}), 10);
  wait_for_ticks();
  store(blocks_of({1, 2, 4}), 20);
  RaceHold hold("index.evict.before_exchange");
  Locations evicted;
  Thread evictor = in_thread([&] { evicted = evict(100); });
  hold.wait_reached();
  EXPECT_EQ(look(blocks_of({1, 2, 3})), (Locations{10, 11, 12}));
  hold.let_go();
  evictor.join();
  EXPECT_EQ(evicted, (Locations{22}));
  EXPECT_EQ(index_.usage().withheld_blocks, 1u);
  EXPECT_EQ(look(blocks_of({1, 2, 3}), 1), (Locations{10, 11})) << "the end is gone, to others";
  let_go(1);
  // Nothing but the slot's run protects its parent now.
  EXPECT_EQ(evict(100), Locations());
  let_go(0);
  EXPECT_EQ(evict(100), (Locations{12, 11, 10}));
  EXPECT_EQ(index_.usage().withheld_blocks, 0u);
  EXPECT_EQ(index_.usage().runs, 1u);
}

TEST_F(IndexReaderRace, TheEndOfARunThatASlotHoldsIsWithheld) {
  store(blocks_of({1, 2, 3}), 10);
  RaceHold hold("index.evict.before_exchange");
  Locations evicted;
  Thread evictor = in_thread([&] { evicted = evict(1); });
  hold.wait_reached();
  EXPECT_EQ(look(blocks_of({1, 2, 3})), (Locations{10, 11, 12}));
  hold.let_go();
  evictor.join();
  EXPECT_EQ(evicted, Locations());
  EXPECT_EQ(index_.usage().withheld_blocks, 1u);
  let_go();
  EXPECT_EQ(evict(1), (Locations{12}));
  EXPECT_EQ(evict(2), (Locations{11, 10}));
}

// Marked, and not yet looked for in the slots: whoever comes now must not find it any more.
TEST_F(IndexReaderRace, WhatIsMarkedIsNotFound) {
  store(blocks_of({1, 2}), 10);
  RaceHold walked("index.remote.before_slot");
  Locations found;
  Thread reader = in_thread([&] { found = look(blocks_of({1, 2})); });
  walked.wait_reached();
  RaceHold hold("index.settle.before_fence");
  Locations evicted;
  Thread evictor = in_thread([&] { evicted = evict(100); });
  hold.wait_reached();
  walked.let_go();
  reader.join();
  EXPECT_EQ(found, Locations());
  EXPECT_EQ(words_.slots[0].load(), 0u);
  hold.let_go();
  evictor.join();
  EXPECT_EQ(evicted, (Locations{11, 10}));
}

// A split gives the front of a path to another run: a reader that walked before it walks again.
TEST_F(IndexReaderRace, ASplitOnThePathIsSeen) {
  store(blocks_of({1, 2, 3}), 10);
  RaceHold hold("index.remote.before_slot");
  Locations found;
  Thread reader = in_thread([&] { found = look(blocks_of({1, 2})); });
  hold.wait_reached();
  store(blocks_of({1, 9}), 20);
  hold.let_go();
  reader.join();
  EXPECT_EQ(found, (Locations{10, 11}));
  EXPECT_EQ(evict(100), (Locations{21})) << "what the reader's own run ends with stays, too";
  let_go();
  EXPECT_EQ(evict(100), (Locations{12, 11, 10}));
}

#endif

}  // namespace
}  // namespace rhizome
