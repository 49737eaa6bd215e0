#include "store/store.h"

#include <cstring>
#include <string>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "machine/files.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(Store, BudgetsAndBlockSizesThatMakeNoSense) {
  const auto counters = Counters::local();
  for (const uint32_t block_tokens : {0u, 1u, 15u, 17u, 512u}) {
    EXPECT_EQ(Store::create({.memory_bytes = kMiB, .block_tokens = block_tokens}, *counters).error().code,
              Code::kInvalidArgument);
  }
  EXPECT_EQ(Store::create({.memory_bytes = 0}, *counters).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Store::create({.memory_bytes = 1000}, *counters).error().code, Code::kInvalidArgument);
  for (const uint32_t block_tokens : {16u, 32u, 64u, 128u, 256u}) {
    EXPECT_TRUE(Store::create({.memory_bytes = kMiB, .block_tokens = block_tokens}, *counters));
  }
}

TEST(Store, OpenSaysWhatItCannotTake) {
  StoreUser user(kMiB);
  Store& store = *user.store;
  const Root a = user.open(keyspace_named("a"), 3000);
  EXPECT_EQ(user.open(keyspace_named("a"), 3000), a);
  EXPECT_NE(user.open(keyspace_named("b"), 3000), a);
  EXPECT_EQ(store.open(keyspace_named("a"), block_of(3001)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(store.open(keyspace_named("c"), block_of(0)).error().code, Code::kInvalidArgument);
  EXPECT_EQ(store.open(keyspace_named("c"), block_of(kMiB)).error().code, Code::kResourceExhausted);
  EXPECT_EQ(store.open(keyspace_named("c"), block_of(UINT64_MAX)).error().code, Code::kResourceExhausted);
}

// Either way the same bytes and checksums, whatever the payload's size.
TEST(Store, BlocksThatAreFilledFromElsewhere) {
  for (const uint64_t payload_bytes : {1u, 100u, 3000u, 16u << 10, (16u << 10) + 1, 100'003u}) {
    StoreUser user(8 * kMiB);
    StoreUser other(8 * kMiB);
    const Root root = user.open(keyspace_named("a"), payload_bytes);
    ASSERT_EQ(other.open(keyspace_named("a"), payload_bytes), root);
    const auto tokens = blocks_of({1, 2, 3, 4, 5});
    // The last two are written in place.
    Result<BlockDraft> draft = user.store->reserve(root, tokens, 0);
    ASSERT_TRUE(draft);
    user.fill(*draft, root, tokens);
    user.fill_next(*draft, root, tokens, 3);
    BlockDraft moved = std::move(*draft);
    EXPECT_EQ(user.store->commit(std::move(moved)), 5u);
    EXPECT_EQ(other.put(root, tokens), 5u);
    EXPECT_EQ(user.get(root, tokens), 5u);
    StoredPrefix one = user.look_up(root, tokens);
    StoredPrefix two = other.look_up(root, tokens);
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(StoreTestAccess::slot(*user.store, one.locations()[i]),
                StoreTestAccess::slot(*other.store, two.locations()[i]));
    }
    // And behind what is stored.
    const auto longer = blocks_of({1, 2, 3, 4, 5, 6, 7, 8});
    draft = user.store->reserve(root, longer, 5);
    ASSERT_TRUE(draft);
    user.fill_next(*draft, root, longer, 3);
    EXPECT_EQ(user.store->commit(std::move(*draft)), 3u);
    EXPECT_EQ(user.get(root, longer), 8u);
    draft = user.store->reserve(root, blocks_of({9, 10}), 0);
    ASSERT_TRUE(draft);
    user.fill_next(*draft, root, blocks_of({9, 10}), 1);
    draft->abort();
  }
}

TEST(Store, KeyspacesAreBounded) {
  StoreUser user(4 * kMiB);
  size_t opened = 0;
  while (user.store->open(keyspace_named(std::to_string(opened)), block_of(3000)))
    ++opened;
  EXPECT_GE(opened, 16u);
  EXPECT_LE(opened, 64u);
  EXPECT_TRUE(user.store->open(keyspace_named("0"), block_of(3000)));
}

// A keyspace that comes late finds the cache full, and room for its own description all the same.
TEST(Store, AFullCacheStillOpensKeyspaces) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  for (Token i = 0; i < 400; ++i)
    user.put(a, blocks_of({i}));
  EXPECT_GT(user.count(Counter::kEvictions), 0u);
  const Root b = user.open(keyspace_named("b"), 50000);
  EXPECT_EQ(user.put(b, blocks_of({1, 2})), 2u);
  EXPECT_EQ(user.get(b, blocks_of({1, 2})), 2u);
  user.expect_at_rest();
}

TEST(Store, UnknownRootsAreRefused) {
  StoreUser user(kMiB);
  StoredPrefix prefix;
  for (const Root root : {Root{0}, Root{1}, Root{9999}}) {
    user.store->lookup(root, blocks_of({1}), prefix);
    EXPECT_EQ(prefix.reason(), Reason::kNotCacheable);
    EXPECT_EQ(prefix.blocks(), 0u);
    EXPECT_EQ(user.store->peek(root, blocks_of({1})), 0u);
    EXPECT_EQ(user.store->reserve(root, blocks_of({1}), 0).error().code, Code::kInvalidArgument);
  }
}

TEST(Store, ReserveTakesWholeBlocksThatContinueWhatIsStored) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2});
  EXPECT_EQ(user.store->reserve(a, std::span(tokens).first(17), 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(user.store->reserve(a, tokens, 3).error().code, Code::kInvalidArgument);
  EXPECT_EQ(user.store->reserve(a, tokens, 2).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(user.store->reserve(a, tokens, 1).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(user.put(a, std::span(tokens).first(16)), 1u);
  {
    const Result<BlockDraft> draft = user.store->reserve(a, tokens, 0);
    ASSERT_TRUE(draft);
    EXPECT_EQ(draft->first_block(), 1u);
    EXPECT_EQ(draft->blocks_count(), 1u);
    EXPECT_EQ(draft->payload(0).size(), 3000u);
  }
  EXPECT_EQ(user.put(a, tokens), 1u);
  for (const uint32_t first : {0u, 1u, 2u}) {
    const Result<BlockDraft> nothing = user.store->reserve(a, tokens, first);
    ASSERT_TRUE(nothing);
    EXPECT_EQ(nothing->blocks_count(), 0u);
  }
}

TEST(Store, OneKeyspaceIsCleared) {
  StoreUser user(4 * kMiB);
  Store& store = *user.store;
  const Root a = user.open(keyspace_named("a"));
  const Root b = user.open(keyspace_named("b"), 5000);
  for (Token i = 0; i < 20; ++i) {
    EXPECT_EQ(user.put(a, blocks_of({1, 2, i + 10})), i == 0 ? 3u : 1u);
    EXPECT_EQ(user.put(b, blocks_of({1, i + 10})), i == 0 ? 2u : 1u);
  }
  const auto usages = store.keyspace_usages();
  ASSERT_EQ(usages.size(), 2u);
  EXPECT_EQ(usages[0].root, a);
  EXPECT_EQ(usages[0].keyspace->digest(), keyspace_named("a").digest());
  EXPECT_EQ(usages[0].blocks.resident, 22u);
  EXPECT_EQ(usages[1].blocks.resident, 21u);
  EXPECT_EQ(usages[1].slot_bytes, 5000 + identity_bytes(16));
  {
    // Somebody reads one of them: its path stays.
    StoredPrefix held;
    store.lookup(a, blocks_of({1, 2, 10}), held);
    EXPECT_EQ(held.blocks(), 3u);
    EXPECT_EQ(store.clear(a), 19u);
  }
  EXPECT_EQ(user.get(a, blocks_of({1, 2, 10})), 3u);
  EXPECT_EQ(user.get(a, blocks_of({1, 2, 11})), 2u);
  EXPECT_EQ(user.get(b, blocks_of({1, 29})), 2u);
  EXPECT_EQ(store.clear(a), 3u);
  EXPECT_EQ(store.clear(a), 0u);
  EXPECT_EQ(store.keyspace_usages()[0].blocks.resident, 0u);
  EXPECT_EQ(store.keyspace_usages()[1].blocks.resident, 21u);
  EXPECT_EQ(store.clear({}), 0u);
  EXPECT_EQ(store.clear({b.value, b.generation + 1}), 0u);
  EXPECT_EQ(store.clear({UINT32_MAX, 0}), 0u);
  EXPECT_EQ(user.put(a, blocks_of({1, 2})), 2u) << "it is still open";
  EXPECT_EQ(store.clear(b), 21u);
  user.expect_at_rest();
  user.expect_drains();
}

// W13: nothing is visible before its commit, and an abandoned draft leaves nothing.
TEST(Store, DraftsAreInvisibleUntilCommitted) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  Result<BlockDraft> draft = user.store->reserve(a, tokens, 0);
  ASSERT_TRUE(draft);
  user.fill(*draft, a, tokens);
  EXPECT_EQ(user.get(a, tokens), 0u);
  EXPECT_EQ(user.store->commit(std::move(*draft)), 3u);
  EXPECT_EQ(user.get(a, tokens), 3u);

  const std::vector<Token> other = blocks_of({1, 2, 3, 4, 5});
  draft = user.store->reserve(a, other, 3);
  ASSERT_TRUE(draft);
  user.fill(*draft, a, other);
  EXPECT_EQ(user.count(Counter::kMemoryPinned), 3 * (3000 + identity_bytes(16)));
  draft->abort();
  EXPECT_EQ(user.get(a, other), 3u);
  EXPECT_EQ(user.count(Counter::kBlocksStored), 3u);
  user.expect_at_rest();
  user.expect_drains();
}

// R7: two who computed the same; the second one's slots are given back, and the first one's stay.
TEST(Store, DuplicatesAreDropped) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2});
  const std::vector<Token> longer = blocks_of({1, 2, 3});
  Result<BlockDraft> first = user.store->reserve(a, tokens, 0);
  Result<BlockDraft> second = user.store->reserve(a, longer, 0);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->blocks_count(), 3u);
  user.fill(*first, a, tokens);
  user.fill(*second, a, longer);
  EXPECT_EQ(user.store->commit(std::move(*first)), 2u);
  EXPECT_EQ(user.store->commit(std::move(*second)), 1u);
  EXPECT_EQ(user.get(a, longer), 3u);
  EXPECT_EQ(user.count(Counter::kBlocksStored), 3u);
  user.expect_at_rest();
}

TEST(Store, KeysOfDraftsAreThoseOfTheWholeChain) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  // Block by block and in one go must give the same identities: reading compares parent keys.
  for (const auto& tokens : {blocks_of({1}), blocks_of({1, 2}), blocks_of({1, 2, 3}), blocks_of({1, 2, 3, 4, 5})}) {
    user.put(a, tokens);
  }
  EXPECT_EQ(user.get(a, blocks_of({1, 2, 3, 4, 5})), 5u);
  EXPECT_EQ(user.count(Counter::kIdentityMismatches), 0u);
}

// R1: look-ups that never read leave nothing pinned.
TEST(Store, LookupsWithoutReadsPinNothingForGood) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2, 3});
  user.put(a, tokens);
  for (int i = 0; i < 1000; ++i) {
    StoredPrefix match = user.look_up(a, tokens);
    EXPECT_EQ(user.count(Counter::kMemoryPinned), 3 * (3000 + identity_bytes(16)));
    match.release();
  }
  user.expect_at_rest();
  user.expect_drains();
}

// R4 and R2: everything is forgotten while a reader stands on it; it goes at the reader's release.
TEST(Store, ReadersKeepTheirBytes) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2, 3, 4, 5});
  user.put(a, tokens);
  user.put(a, blocks_of({9, 9}));
  StoredPrefix match = user.look_up(a, std::span(tokens).first(48));
  EXPECT_EQ(match.blocks(), 3u);
  EXPECT_GE(user.store->clear(), 2u);
  for (Token i = 100; i < 600; ++i)
    user.put(a, blocks_of({i}));
  EXPECT_EQ(user.read_all(a, match, tokens), 3u);
  match.release();
  user.expect_drains();
}

// R8 through the store.
TEST(Store, APartialMatchIsReleasedWhateverWasSplitMeanwhile) {
  StoreUser user(kMiB);
  const Root a = user.open(keyspace_named("a"));
  user.put(a, blocks_of({1, 2}));
  StoredPrefix match = user.look_up(a, blocks_of({1}));
  user.put(a, blocks_of({1, 9}));
  match.release();
  user.expect_drains();
}

TEST(Store, ReserveNeverEvictsItsOwnPrefix) {
  StoreUser user(256 << 10);
  const Root a = user.open(keyspace_named("a"));
  std::vector<Token> tokens = blocks_of({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(user.put(a, tokens), 8u);
  for (Token i = 100; i < 200; ++i)
    tokens.insert(tokens.end(), 16, i);
  Result<BlockDraft> draft = user.store->reserve(a, tokens, 8);
  ASSERT_TRUE(draft);
  EXPECT_GT(draft->blocks_count(), 20u);
  EXPECT_LT(draft->blocks_count(), 100u) << "the budget holds them all: the test shows nothing";
  const size_t blocks = draft->blocks_count();
  // All is pinned or reserved now.
  EXPECT_EQ(user.store->reserve(a, blocks_of({5000}), 0).error().code, Code::kResourceExhausted);
  user.fill(*draft, a, tokens);
  EXPECT_EQ(user.store->commit(std::move(*draft)), blocks);
  EXPECT_EQ(user.get(a, tokens), 8 + blocks);
  user.expect_at_rest();
}

// E4: the limit is one.
TEST(Store, TheBudgetHoldsAndIsUsed) {
  StoreUser user(16 * kMiB);
  const Root a = user.open(keyspace_named("a"), 24 * 1024);
  for (Token i = 0; i < 2000; ++i) {
    user.put(a, blocks_of({i}));
    ASSERT_LE(user.store->slab_usage().used_bytes, 16 * kMiB);
  }
  EXPECT_GE(user.store->slab_usage().stored_bytes, 16 * kMiB * 9 / 10);
  EXPECT_EQ(user.get(a, blocks_of({1999})), 1u);
  EXPECT_EQ(user.get(a, blocks_of({0})), 0u);
  EXPECT_EQ(user.count(Counter::kMemoryCapacity), 16 * kMiB);
  EXPECT_EQ(user.count(Counter::kEvictions) + user.count(Counter::kBlocksStored), 2000u);
  user.expect_at_rest();
}

// Two models one after the other: the second one gets the memory of the first.
TEST(Store, ASecondModelTakesTheMemoryOfTheFirst) {
  constexpr uint64_t small = 24 * 1024;
  constexpr uint64_t large = 368 * 1024;
  StoreUser user(16 * kMiB);
  const Root first = user.open(keyspace_named("first"), small);
  const Root second = user.open(keyspace_named("second"), large);
  for (Token i = 0; i < 1000; ++i)
    user.put(first, blocks_of({i}));
  EXPECT_EQ(user.get(first, blocks_of({999})), 1u);
  for (Token i = 0; i < 60; ++i)
    EXPECT_EQ(user.put(second, blocks_of({i})), 1u);
  size_t found = 0;
  for (Token i = 0; i < 60; ++i)
    found += user.get(second, blocks_of({i}));
  EXPECT_GE(found * large, 16 * kMiB * 8 / 10);
  for (Token i = 1000; i < 2000; ++i)
    EXPECT_EQ(user.put(first, blocks_of({i})), 1u);
  found = 0;
  for (Token i = 1000; i < 2000; ++i)
    found += user.get(first, blocks_of({i}));
  EXPECT_GE(found * small, 16 * kMiB * 8 / 10);
  user.expect_at_rest();
  user.expect_drains();
}

// E5: what is left of a conversation is its beginning.
TEST(Store, EvictionShortensFromTheEnd) {
  StoreUser user(256 << 10);
  const Root a = user.open(keyspace_named("a"));
  const std::vector<Token> tokens = blocks_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  user.put(a, tokens);
  size_t left = 10;
  for (Token i = 100; left > 0 && i < 1000; ++i) {
    user.put(a, blocks_of({i}));
    const size_t found = user.store->peek(a, tokens);
    EXPECT_LE(found, left);
    left = found;
  }
  EXPECT_EQ(left, 0u);
}

// What is freed and used again shows nothing of its earlier owner: two runs that differ only in what
// was there before leave the same bytes.
// E4: the index is full long before the slots are. Then blocks leave as if the slots were.
TEST(Store, AFullIndexMakesRoomToo) {
  StoreUser user({.memory_bytes = 16 * kMiB, .index_bytes_max = 64 << 10});
  const Root a = user.open(keyspace_named("a"));
  for (Token name = 1; name <= 2000; ++name)
    ASSERT_EQ(user.put(a, blocks_of({name})), 1u) << name;
  EXPECT_EQ(user.get(a, blocks_of({2000})), 1u);
  EXPECT_GT(user.count(Counter::kEvictions), 1000u);
  EXPECT_LT(user.store->slab_usage().stored_bytes, 8 * kMiB);
  user.expect_at_rest();
  user.expect_drains();
}

// What is reserved for a large budget is more than some processes may map: that costs room, not the process.
TEST(Store, LittleAddressSpaceIsEnough) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  const Result<std::string> pages = read_text_file("/proc/self/statm", 4096);
  ASSERT_TRUE(pages);
  rlimit little = before;
  little.rlim_cur = std::stoull(*pages) * 4096 + 256 * kMiB;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &little), 0);
  {
    StoreUser user(uint64_t{8} << 30);
    const Root a = user.open(keyspace_named("a"));
    EXPECT_EQ(user.put(a, blocks_of({1, 2, 3})), 3u);
    EXPECT_EQ(user.get(a, blocks_of({1, 2, 3})), 3u);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
}

TEST(Store, ReusedSlotsHoldNothingOfTheirEarlierOwner) {
  std::vector<std::byte> seen[2];
  for (const int run : {0, 1}) {
    StoreUser user(kMiB);
    const Root a = user.open(keyspace_named("a"), 3001);
    const Root b = user.open(keyspace_named("b"), 3001);
    Result<BlockDraft> draft = user.store->reserve(a, blocks_of({1}), 0);
    ASSERT_TRUE(draft);
    std::memset(draft->payload(0).data(), run == 0 ? 0x55 : 0xAA, 3001);
    user.store->commit(std::move(*draft));
    const Location before = user.look_up(a, blocks_of({1})).locations()[0];
    while (user.store->index_usage().blocks > 0)
      user.store->clear();
    user.put(b, blocks_of({2}));
    const StoredPrefix match = user.look_up(b, blocks_of({2}));
    EXPECT_EQ(before, match.locations()[0]) << "the slot was not used again: the test shows nothing";
    seen[run] = StoreTestAccess::slot(*user.store, match.locations()[0]);
  }
  EXPECT_EQ(seen[0].size(), 3001 + identity_bytes(16));
  EXPECT_EQ(seen[0], seen[1]);
}

class AskedReaders final : public RemoteReaders {
 public:
  void collect(std::vector<RunId>&) override {}
  void take_touches(const std::function<void(RunId, uint32_t)>&) override { ++times; }
  size_t times = 0;
};

// Their tables are small: what they used before memory was full would be lost.
TEST(Store, OtherProcessesAreAskedWhatTheyUseBeforeMemoryIsFull) {
  AskedReaders readers;
  StoreUser user(StoreOptions{.memory_bytes = 16 * kMiB, .remote_readers = &readers});
  const Root a = user.open(keyspace_named("a"));
  for (Token number = 0; number < 64; ++number)
    user.put(a, blocks_of({number}));
  EXPECT_EQ(user.count(Counter::kEvictions), 0u);
  EXPECT_GE(readers.times, 8u);
}

}  // namespace
}  // namespace rhizome
