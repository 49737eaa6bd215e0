// Everything at once: a store and a tier that are too small, a tier that does what it likes, readers who hold on to
// what they found. What comes out is the oracle's bytes, or nothing.
#include <atomic>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "machine/thread.h"
#include "store/store_tier_fixture.h"

namespace rhizome {
namespace {

constexpr TierFaults kSomeFaults{.busy = 0.05,
                                 .fail = 0.05,
                                 .fail_after = 0.02,
                                 .forget = 0.02,
                                 .refuse = 0.05,
                                 .delay = 0.1,
                                 .flip = 0.02,
                                 .tear = 0.02};

std::vector<Token> random_prompt(std::mt19937_64& random) {
  std::vector<Token> tokens;
  const size_t blocks = 1 + random() % 8;
  for (size_t i = 0; i < blocks; ++i) {
    tokens.insert(tokens.end(), 15, 7);
    tokens.push_back(static_cast<Token>(random() % 3 == 0 ? random() % 5 : 0));
  }
  return tokens;
}

class RandomTiered {
 public:
  RandomTiered(const TieredOptions& options, const std::vector<uint64_t>& payloads, uint64_t seed)
      : user_(options), random_(seed) {
    for (const uint64_t payload : payloads)
      roots_.push_back(user_.open(keyspace_named(std::to_string(payload)), payload));
  }

  void step() {
    const Root root = roots_[random_() % roots_.size()];
    const std::vector<Token> tokens = random_prompt(random_);
    const uint64_t action = random_() % 100;
    if (action < 30) {
      user_.put(root, tokens);
    } else if (action < 60) {
      hits_ += user_.get(root, tokens);
    } else if (action < 68 && held_.size() < 4) {
      held_.push_back({root, tokens, user_.look_up(root, tokens)});
    } else if (action < 76 && !held_.empty()) {
      Held held = std::move(held_.back());
      held_.pop_back();
      hits_ += user_.read_all(held.root, held.prefix, held.tokens);
    } else if (action < 90) {
      user_.clock.advance_ns(random_() % kSecondNs);
      user_.store->step();
    } else if (action < 95) {
      user_.settle();
    } else if (action == 96) {
      user_.push_out();
    } else if (action == 98) {
      // All of memory in one hand for a while: what is stored meanwhile goes around it.
      if (!hog_.blocks()) hog_ = user_.pin_all(root, chain(1000, 400));
    } else if (action == 95 || action == 99) {
      hog_.release();
    } else if (action == 97) {
      user_.store->observe_compute(1 + random_() % 200, random_() % 1000, 0.5);
    }
    check();
  }

  TieredUser& finish() {
    held_.clear();
    hog_.release();
    user_.faults->set_faults({});
    for (int i = 0; i < 100; ++i) {
      user_.write_all();
      user_.clock.advance_ns(10 * kSecondNs);
    }
    user_.expect_at_rest();
    EXPECT_GT(hits_, 1000u) << "hardly anything was ever found: the test shows little";
    EXPECT_GT(user_.count(Counter::kPromotions), 100u);
    EXPECT_GT(user_.count(Counter::kDemotions), 100u);
    EXPECT_GT(user_.count(Counter::kBlocksWritten), 100u);
    EXPECT_GT(user_.count(Counter::kBlocksWrittenAround), 20u);
    return user_;
  }

 private:
  struct Held {
    Root root;
    std::vector<Token> tokens;
    StoredPrefix prefix;
  };

  void check() {
    const SlabUsage slab = user_.store->slab_usage();
    const IndexUsage index = user_.store->index_usage();
    const BlockCounts blocks = user_.store->block_counts();
    ASSERT_LE(slab.used_bytes, slab.budget_bytes);
    ASSERT_EQ(slab.committed_slots, blocks.resident);
    // What the tier has taken of those on their way may wait for the block before it.
    ASSERT_LE(blocks.resident + blocks.below, index.blocks + index.removed_blocks + user_.store->around_blocks());
    ASSERT_LE(user_.store->lent_bytes(), uint64_t{512} << 10);
  }

  TieredUser user_;
  std::mt19937_64 random_;
  std::vector<Root> roots_;
  std::vector<Held> held_;
  StoredPrefix hog_;
  uint64_t hits_ = 0;
};

TieredUser& run(RandomTiered& random, int steps) {
  for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i)
    random.step();
  return random.finish();
}

TEST(StoreTierRandom, ATierThatKeepsItsWord) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomTiered random({.memory_bytes = 1800 << 10, .tier_bytes = 2 << 20}, {3000}, seed);
  TieredUser& user = run(random, 20000);
  EXPECT_EQ(user.count(Counter::kIdentityMismatchesTier), 0u);
}

TEST(StoreTierRandom, ATierThatDoesWhatItLikes) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomTiered random({.memory_bytes = 1800 << 10, .tier_bytes = 1 << 20, .faults = kSomeFaults, .seed = seed}, {3000},
                      seed);
  TieredUser& user = run(random, 20000);
  EXPECT_GT(user.count(Counter::kIdentityMismatchesTier), 10u) << "no damage arrived: the test shows little";
}

TEST(StoreTierRandom, TwoSizesAndNoCopyBelow) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomTiered random({.memory_bytes = 2200 << 10,
                       .tier_bytes = 2 << 20,
                       .faults = kSomeFaults,
                       .seed = seed,
                       .tiering = {.is_inclusive = false, .watermarks = {.high = 90, .low = 70}}},
                      {3000, 24577}, seed);
  run(random, 20000);
}

void hammer(StoreUser& user, const std::vector<Root>& roots, uint64_t seed, std::atomic<uint64_t>& hits) {
  std::mt19937_64 random(seed);
  StoredPrefix prefix;
  for (int i = 0; i < 1500; ++i) {
    const Root root = roots[random() % roots.size()];
    const std::vector<Token> tokens = random_prompt(random);
    user.store->lookup(root, tokens, prefix);
    hits += user.read_all(root, prefix, tokens);
    if (random() % 3 != 0) prefix.release();
    Result<BlockDraft> draft = user.store->reserve(root, tokens, 0);
    if (!draft) continue;
    user.fill(*draft, root, tokens);
    if (random() % 8 != 0) user.store->commit(std::move(*draft));
  }
}

// With the store's own thread, in real time.
TEST(StoreTierStress, ThreadsInAStoreAndATierThatAreTooSmall) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  auto memory = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 2 << 20});
  auto tier = std::make_unique<FaultTier>(std::move(memory), kSomeFaults, seed);
  StoreUser user(StoreOptions{.memory_bytes = 1800 << 10,
                              .tier = std::move(tier),
                              .tiering = {.admission = {.unused_wait_ns = 1000000}, .load_wait_ns = 20000000}});
  const std::vector<Root> roots{user.open(keyspace_named("a"), 1500), user.open(keyspace_named("b"), 6000)};
  std::atomic<uint64_t> hits{0};
  {
    std::vector<Thread> threads;
    for (uint64_t i = 0; i < 3; ++i)
      threads.push_back(std::move(*start_thread("hammer", [&, i] { hammer(user, roots, seed + i, hits); })));
  }
  EXPECT_GT(hits, 500u);
  EXPECT_GT(user.count(Counter::kBlocksWritten), 10u);
  EXPECT_EQ(user.count(Counter::kChecksumFailures), 0u);
  EXPECT_EQ(user.count(Counter::kIdentityMismatches), 0u);
}

}  // namespace
}  // namespace rhizome
