#include "client/mapped_cache.h"

#include <atomic>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "block/checksum.h"
#include "index/remote_readers_fixture.h"
#include "machine/clock.h"
#include "machine/random.h"
#include "machine/thread.h"
#include "store/store_fixture.h"
#include "store/store_tier_fixture.h"
#include "tier/memory_tier.h"

namespace rhizome {
namespace {

constexpr uint64_t kPayloadBytes = 3000;
constexpr uint64_t kSlotBytes = 192 + kPayloadBytes;

// What a node would hand over, straight from the store.
class StoreSource final : public MappedCache::Source {
 public:
  explicit StoreSource(const Store& store) : store_(store) {}

  SharedMemory index() const {
    const Mapping& memory = store_.shared().index;
    return {Descriptor(::dup(memory.descriptor())), memory.bytes().size()};
  }
  Result<SharedMemory> directory_segment(uint32_t number) override {
    ++asked;
    const Result<int> found = store_.shared().directory.descriptor(number);
    if (!found) return fail(found.error());
    return SharedMemory{Descriptor(::dup(*found)), BlockDirectory::kSegmentBytes};
  }
  Result<SharedMemory> chunk(uint32_t number) override {
    ++asked;
    const Result<ChunkLayout> found = store_.shared().slab.chunk_layout(number);
    if (!found) return fail(found.error());
    return SharedMemory{Descriptor(::dup(found->descriptor)), found->bytes};
  }

  std::atomic<uint32_t> asked{0};

 private:
  const Store& store_;
};

// A program that attaches to the store of another one; here it is the same process with other mappings.
struct Attached {
  explicit Attached(const Store& store) : source(store), cache(*MappedCache::open(source.index(), source)) {}

  // Blocks at the head of the prompt that are in memory, each compared with what was stored. The slot stays set.
  size_t read(const StoreUser& user, Root root, std::span<const Token> prompt, HazardSlot& slot) {
    found.resize(prompt.size() / 16);
    const RemoteMatch match = cache->index().lookup(user.store->shared_root(root), prompt, found, slot);
    found.resize(match.blocks);
    return check(user, root, prompt);
  }
  // The same for what was found before.
  size_t check(const StoreUser& user, Root root, std::span<const Token> prompt) {
    size_t in_memory = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const auto block = cache->find(found[i], kSlotBytes);
      if (!block) ADD_FAILURE() << block.error().reason;
      if (!block || !block->is_here()) continue;
      ++in_memory;
      const auto payload = block->bytes.subspan(kSlotBytes - kPayloadBytes);
      wrong += !oracle_matches(payload, user.digest(root), prompt.first((i + 1) * 16));
      wrong += checksum(block->bytes) != block->checksum;
    }
    return in_memory;
  }

  StoreSource source;
  std::unique_ptr<MappedCache> cache;
  std::vector<Location> found;
  uint64_t wrong = 0;
};

TEST(MappedCache, ReadsInPlaceWhatTheStoreHas) {
  ReaderWords words{};
  TestReaders readers(words);
  StoreUser user({.memory_bytes = 8 << 20, .remote_readers = &readers});
  const Root root = user.open(keyspace_named("a"), kPayloadBytes);
  const std::vector<Token> prompt = blocks_of({1, 2, 3, 4});
  EXPECT_EQ(user.put(root, prompt), 4u);
  Attached attached(*user.store);
  EXPECT_EQ(attached.read(user, root, prompt, words.slots[0]), 4u);
  IndexReader::release(words.slots[0]);
  EXPECT_EQ(attached.source.asked.load(), 2u) << "a segment and a chunk";
  EXPECT_EQ(attached.read(user, root, blocks_of({1, 2, 9}), words.slots[0]), 2u);
  EXPECT_EQ(attached.source.asked.load(), 2u);
  EXPECT_EQ(user.store->clear(root), 0u) << "the slot holds the whole run";
  EXPECT_EQ(user.store->clear(), 0u);
  EXPECT_EQ(attached.check(user, root, blocks_of({1, 2, 9})), 2u);
  IndexReader::release(words.slots[0]);
  const Root other = user.open(keyspace_named("b"), kPayloadBytes);
  EXPECT_EQ(user.put(other, prompt), 4u);
  EXPECT_EQ(user.store->clear(root), 4u);
  EXPECT_EQ(user.store->clear(), 4u);
  EXPECT_EQ(attached.read(user, root, prompt, words.slots[0]), 0u);
  EXPECT_EQ(attached.wrong, 0u);
}

TEST(MappedCache, RefusesWhatLiesOutsideOfItsChunk) {
  ReaderWords words{};
  TestReaders readers(words);
  StoreUser user({.memory_bytes = 8 << 20, .remote_readers = &readers});
  const Root root = user.open(keyspace_named("a"), kPayloadBytes);
  user.put(root, blocks_of({1}));
  Attached attached(*user.store);
  ASSERT_EQ(attached.read(user, root, blocks_of({1}), words.slots[0]), 1u);
  EXPECT_EQ(attached.cache->find(attached.found[0], uint64_t{1} << 40).error().code, Code::kDataLoss);
  EXPECT_EQ(attached.cache->find(UINT32_MAX, kSlotBytes).error().code, Code::kNotFound);
  IndexReader::release(words.slots[0]);
}

// Nobody tells the store when a reader lets go of what was removed meanwhile: who needs room looks.
TEST(MappedCache, WhatWasRemovedWhileItWasHeldMakesRoomLater) {
  ReaderWords words{};
  TestReaders readers(words);
  StoreUser user({.memory_bytes = 4 << 20, .remote_readers = &readers});
  const Root root = user.open(keyspace_named("a"), kPayloadBytes);
  const std::vector<Token> prompt = blocks_of({1, 2, 3});
  user.put(root, prompt);
  Attached attached(*user.store);
  ASSERT_EQ(attached.read(user, root, prompt, words.slots[0]), 3u);
  StoreTestAccess::flip(*user.store, attached.found[1], 500);
  EXPECT_EQ(user.get(root, prompt), 1u);
  EXPECT_EQ(user.store->index_usage().removed_blocks, 2u);
  IndexReader::release(words.slots[0]);
  for (Token i = 1; user.count(Counter::kEvictions) == 0 && i < 100; ++i)
    user.put(root, chain(i * 1000, 40));
  EXPECT_GT(user.count(Counter::kEvictions), 0u);
  EXPECT_EQ(user.store->index_usage().removed_blocks, 0u);
}

// What a reader holds stays in memory, though the tier has it and nobody has a pin.
TEST(MappedCache, WhatASlotHoldsIsNotDemoted) {
  ReaderWords words{};
  TestReaders readers(words);
  auto tier = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 64 << 20});
  StoreUser tiered(
      {.memory_bytes = 8 << 20, .tier = std::move(tier), .tiering = {.background = false}, .remote_readers = &readers});
  const Root root = tiered.open(keyspace_named("a"), kPayloadBytes);
  const std::vector<Token> prompt = blocks_of({1, 2, 3});
  tiered.put(root, prompt);
  tiered.store->flush(monotonic_now_ns() + 10'000'000'000);
  ASSERT_EQ(tiered.store->block_counts().copies, 3u);
  Attached attached(*tiered.store);
  EXPECT_EQ(attached.read(tiered, root, blocks_of({1, 2}), words.slots[0]), 2u);
  // Only what the slot's run does not hold: here the run is the whole prompt.
  EXPECT_FALSE(StoreTestAccess::demote_one(*tiered.store));
  EXPECT_EQ(attached.check(tiered, root, prompt), 2u);
  IndexReader::release(words.slots[0]);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(StoreTestAccess::demote_one(*tiered.store));
  EXPECT_EQ(attached.read(tiered, root, prompt, words.slots[0]), 0u) << "found, and below";
  EXPECT_EQ(attached.found.size(), 3u);
  IndexReader::release(words.slots[0]);
  EXPECT_EQ(tiered.get(root, prompt), 3u);
  EXPECT_EQ(attached.read(tiered, root, prompt, words.slots[0]), 3u) << "in memory again";
  IndexReader::release(words.slots[0]);
  EXPECT_EQ(attached.wrong, 0u);
}

// Readers beside a store that is too small for what is asked of it: blocks leave memory and come back all the time.
TEST(MappedCache, ReadersAndAStoreThatMovesItsBlocks) {
  constexpr int kReaders = 2;
  constexpr int kPrompts = 24;
  constexpr int kRounds = 1500;
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  ReaderWords words{};
  TestReaders readers(words);
  StoreUser user({.memory_bytes = 4 << 20,
                  .tier = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 2 << 20}),
                  .tiering = {.admission = {.unused_wait_ns = 0}},
                  .remote_readers = &readers});
  const Root root = user.open(keyspace_named("a"), kPayloadBytes);
  std::vector<std::vector<Token>> prompts;
  for (Token i = 0; i < kPrompts; ++i) {
    std::vector<Token> prompt = chain(1000 * (i % 4), 20);
    const std::vector<Token> rest = chain(100'000 + 100 * i, 30);
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    prompts.push_back(std::move(prompt));
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> read{0};
  std::atomic<uint64_t> below{0};
  std::atomic<uint64_t> wrong{0};
  std::vector<Thread> threads;
  for (int number = 0; number < kReaders; ++number) {
    threads.push_back(std::move(*start_thread("reader", [&, number] {
      Attached attached(*user.store);
      std::mt19937_64 random(seed + 1 + static_cast<uint64_t>(number));
      HazardSlot& slot = words.slots[static_cast<size_t>(number)];
      while (!stop.load(std::memory_order_relaxed)) {
        const std::vector<Token>& prompt = prompts[random() % kPrompts];
        const size_t in_memory = attached.read(user, root, prompt, slot);
        attached.check(user, root, prompt);
        read.fetch_add(in_memory, std::memory_order_relaxed);
        below.fetch_add(attached.found.size() - in_memory, std::memory_order_relaxed);
        IndexReader::release(slot);
      }
      wrong.fetch_add(attached.wrong, std::memory_order_relaxed);
    })));
  }
  std::mt19937_64 random(seed);
  for (int round = 0; round < kRounds || read.load() < 20'000; ++round) {
    const std::vector<Token>& prompt = prompts[random() % kPrompts];
    if (random() % 2 == 0) user.put(root, prompt);
    user.get(root, prompt);
    if (round % 500 == 499) user.store->clear();
  }
  stop = true;
  for (Thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(user.count(Counter::kDemotions), 100u);
  std::cout << read << " blocks read in place, " << below << " found below memory, " << user.count(Counter::kDemotions)
            << " demotions, wrong " << wrong << "\n";
}

}  // namespace
}  // namespace rhizome
