// A store over a real directory, with its own thread and several users at once, closed and opened again and again:
// whatever is found is the oracle's bytes, most of what was written is found, and nothing stays in anybody's hands.
#include <atomic>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "store/store_fixture.h"
#include "tier/disk/disk_tier.h"

namespace rhizome {
namespace {

constexpr uint64_t kMillisecondNs = 1000000;
constexpr int kRounds = 4;
constexpr int kThreads = 4;
constexpr int kStepsAThread = 250;
constexpr size_t kBlocksMost = 8;

// Few enough to be met again, more than memory holds.
std::vector<Token> random_prompt(std::mt19937_64& random) {
  std::vector<Token> tokens;
  const size_t blocks = 1 + random() % kBlocksMost;
  for (size_t i = 0; i < blocks; ++i) {
    tokens.insert(tokens.end(), 15, 7);
    tokens.push_back(static_cast<Token>(random() % 3 == 0 ? random() % 5 : 0));
  }
  return tokens;
}

StoreOptions over(const std::string& directory, uint64_t disk_bytes) {
  auto tier = DiskTier::open({.directory = directory, .bytes_max = disk_bytes});
  EXPECT_TRUE(tier) << tier.error().reason;
  return {.memory_bytes = 2200 << 10,
          .tier = std::move(*tier),
          .tiering = {.admission = {.unused_wait_ns = kMillisecondNs}, .watermarks = {.high = 90, .low = 70}}};
}

void hammer(StoreUser& user, const std::vector<Root>& roots, uint64_t seed, std::atomic<uint64_t>& hits) {
  std::mt19937_64 random(seed);
  StoredPrefix prefix;
  StoredPrefix older;
  for (int i = 0; i < kStepsAThread; ++i) {
    const Root root = roots[random() % roots.size()];
    const std::vector<Token> tokens = random_prompt(random);
    user.store->lookup(root, tokens, prefix);
    switch (random() % 8) {
      case 0:  // lets go while it is on its way
        user.store->promote(prefix, tokens, 0, prefix.blocks());
        prefix.release();
        break;
      case 1:
        user.store->promote(prefix, tokens, 0, prefix.blocks());
        older = std::move(prefix);
        break;
      case 2:
        if (i % 8 == 0) user.store->clear();
        break;
      case 3:
        if (i % 8 == 0) user.store->flush(real_clock().monotonic_ns() + 5 * kMillisecondNs);
        break;
      default:
        hits += user.read_all(root, prefix, tokens);
        prefix.release();
    }
    Result<BlockDraft> draft = user.store->reserve(root, tokens, 0);
    if (!draft) continue;
    user.fill(*draft, root, tokens);
    if (random() % 8 != 0) user.store->commit(std::move(*draft));
  }
}

void come_to_rest(StoreUser& user) {
  const uint64_t deadline = real_clock().monotonic_ns() + 10000 * kMillisecondNs;
  user.store->flush(deadline);
  // What is under way may still hold a slot for a moment, and what the tier has forgotten be on its way out.
  const auto is_busy = [&user] {
    const BlockCounts blocks = user.store->block_counts();
    const IndexUsage index = user.store->index_usage();
    return blocks.pinned + user.store->slab_usage().reserved_slots + index.removed_blocks > 0 ||
           blocks.resident + blocks.below != index.blocks;
  };
  while (is_busy() && real_clock().monotonic_ns() < deadline)
    user.store->step();
}

TEST(StoreDiskStress, ThreadsOverADirectoryThatIsOpenedAgain) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const TemporaryFolder folder;
  uint64_t found_before = 0;
  uint64_t promotions = 0;
  uint64_t demotions = 0;
  for (int round = 0; round < kRounds; ++round) {
    StoreUser user(over(folder.path("blocks"), 16 << 20));
    const std::vector<Root> roots{user.open(keyspace_named("a"), 1500), user.open(keyspace_named("b"), 24000)};
    found_before += user.store->block_counts().below;
    std::atomic<uint64_t> hits{0};
    {
      std::vector<Thread> threads;
      for (uint64_t i = 0; i < kThreads; ++i) {
        const uint64_t thread_seed = seed + static_cast<uint64_t>(round) * kThreads + i;
        threads.push_back(
            std::move(*start_thread("hammer", [&, thread_seed] { hammer(user, roots, thread_seed, hits); })));
      }
    }
    EXPECT_GT(hits, 200u);
    EXPECT_EQ(user.count(Counter::kChecksumFailures) + user.count(Counter::kChecksumFailuresTier), 0u);
    EXPECT_EQ(user.count(Counter::kIdentityMismatches) + user.count(Counter::kIdentityMismatchesTier), 0u);
    promotions += user.count(Counter::kPromotions);
    demotions += user.count(Counter::kDemotions);
    if (round + 1 == kRounds) {
      come_to_rest(user);
      user.expect_at_rest();
    }
    // Else it is closed in the middle of its work.
  }
  EXPECT_GT(found_before, 50u) << "hardly anything outlived a round: the test shows little";
  EXPECT_GT(promotions, 50u);
  EXPECT_GT(demotions, 50u);
}

// Closed in order, all is found again.
TEST(StoreDiskStress, WhatWasFlushedIsFoundByTheNext) {
  const TemporaryFolder folder;
  std::mt19937_64 random(7);
  std::vector<std::vector<Token>> prompts(40);
  for (Token i = 0; i < prompts.size(); ++i) {
    for (size_t block = 0; block < 4; ++block) {
      const std::vector<Token> tokens = blocks_of({100 * (i + 1) + static_cast<Token>(block)});
      prompts[i].insert(prompts[i].end(), tokens.begin(), tokens.end());
    }
  }
  {
    StoreUser user(over(folder.path("blocks"), 64 << 20));
    const Root a = user.open(keyspace_named("a"), 24000);
    for (const auto& prompt : prompts) {
      user.put(a, prompt);
      user.store->flush(real_clock().monotonic_ns() + 20000 * kMillisecondNs);
    }
  }
  StoreUser user(over(folder.path("blocks"), 64 << 20));
  const Root a = user.open(keyspace_named("a"), 24000);
  size_t found = 0;
  for (const auto& prompt : prompts)
    found += user.get(a, prompt);
  EXPECT_EQ(found, prompts.size() * 4);
}

}  // namespace
}  // namespace rhizome
