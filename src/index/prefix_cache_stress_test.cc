#include <atomic>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/prefix_cache.h"
#include "index/prefix_cache_fixture.h"
#include "machine/random.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint32_t kPoolBlocks = 400;

struct Stress {
  explicit Stress(bool partial_tails)
      : cache({.block_tokens = kBlock, .blocks_max = 250, .partial_tails = partial_tails}) {
    for (uint64_t adapter = 0; adapter < 2; ++adapter)
      roots.push_back(*cache.open({.adapter = adapter}));
  }

  PrefixCache cache;
  Pools pools{kPoolBlocks};
  std::vector<Root> roots;
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> tail_hits{0};
  std::atomic<uint64_t> busy{0};
};

// What is written in the block that ends so: stands for the keyspace and all tokens up to there, never 0.
uint64_t content(uint32_t root, std::span<const Token> tokens) {
  uint64_t number = 3 + root;
  for (const Token token : tokens)
    number = number * 1099511628211u + token + 1;
  return number | 1;
}

// One engine: keeps what it references, and checks that what is in there is what it asked for.
class Engine {
 public:
  Engine(Stress& stress, uint64_t seed, bool clears) : stress_(stress), random_(seed), clears_(clears) {}

  void run(int requests) {
    for (int i = 0; i < requests; ++i) {
      request();
      if (running_.size() > 5 || random_() % 8 == 0) finish();
      if (random_() % 16 == 0) stress_.pools.apply(stress_.cache.evict(random_() % 8));
      if (!clears_ || random_() % 64 != 0) continue;
      if (random_() % 2 == 0) {
        stress_.cache.start_epoch();
      } else {
        stress_.wrong += !stress_.cache.clear(stress_.roots[random_() % 2]);
      }
    }
    while (!running_.empty())
      finish();
  }

 private:
  struct Running {
    PrefixHandle handle;
    uint32_t root = 0;
    std::vector<Token> tokens;
    std::vector<uint32_t> blocks;  // with a reference of each, those of the prompt's blocks first
    std::vector<uint32_t> disk;
  };

  void request() {
    Running now;
    now.root = static_cast<uint32_t>(random_() % 2);
    for (uint64_t blocks = 1 + random_() % 8; blocks > 0; --blocks)
      now.tokens.insert(now.tokens.end(), {7, 7, 7, static_cast<Token>(random_() % 5 == 0 ? random_() % 3 : 0)});
    now.tokens.insert(now.tokens.end(), random_() % kBlock, 7);
    Found found = look_up(stress_.cache, stress_.roots[now.root], now.tokens);
    now.handle = std::move(found.match.handle);
    stress_.pools.blocks.raise(found.blocks);
    now.blocks = found.blocks;
    stress_.hits += found.match.blocks;
    check(now);
    if (found.match.must_copy()) {
      const uint64_t expected = content(now.root, std::span(now.tokens).first(found.match.matched_tokens));
      stress_.wrong += stress_.pools.blocks.content(found.match.tail.block) != expected;
      ++stress_.tail_hits;
    }
    if (random_() % 8 == 0) {
      stress_.wrong += !stress_.cache.release_matched(std::move(now.handle), found.match.matched_tokens);
      stress_.pools.blocks.lower(now.blocks);
      return;
    }
    if (compute(now)) store(now, found.match.blocks);
    running_.push_back(std::move(now));
  }

  uint32_t take(BlockPool& pool) {
    for (int tries = 0; tries < 100; ++tries) {
      const uint32_t block = pool.take();
      if (block != kNoBlock) return block;
      stress_.pools.apply(stress_.cache.evict(4));
    }
    return kNoBlock;
  }

  // Fills blocks of its own for what was not found.
  bool compute(Running& now) {
    for (size_t i = now.blocks.size(); i * kBlock < now.tokens.size(); ++i) {
      const uint32_t block = take(stress_.pools.blocks);
      if (block == kNoBlock) {
        ++stress_.busy;
        return false;
      }
      now.blocks.push_back(block);
      const size_t end = std::min(now.tokens.size(), (i + 1) * kBlock);
      stress_.pools.blocks.content(block) = content(now.root, std::span(now.tokens).first(end));
    }
    return true;
  }

  void store(Running& now, uint32_t first) {
    const size_t whole = now.tokens.size() / kBlock;
    std::vector<uint32_t> disk;
    for (size_t i = first; i < whole; ++i) {
      disk.push_back(random_() % 2 == 0 ? stress_.pools.disk.take() : kNoBlock);
      if (disk.back() != kNoBlock) now.disk.push_back(disk.back());
    }
    SequenceBlocks given{.blocks = std::span(now.blocks).subspan(first, whole - first), .disk_block_ids = disk};
    if (now.blocks.size() > whole) given.tail_block = now.blocks.back();
    const Result<PrefixInserted> inserted =
        stress_.cache.insert(stress_.roots[now.root], now.handle, now.tokens, first, given);
    if (!inserted) {
      // Full, or the keyspace was cleared since the look-up.
      const Code code = inserted.error().code;
      stress_.wrong += code != Code::kResourceExhausted && code != Code::kFailedPrecondition;
      ++stress_.busy;
      return;
    }
    stress_.pools.apply(inserted->acquired);
    for (size_t i = 0; i < inserted->canonical.size(); ++i) {
      const uint64_t expected = content(now.root, std::span(now.tokens).first((first + i + 1) * kBlock));
      stress_.wrong += stress_.pools.blocks.content(inserted->canonical[i]) != expected;
    }
  }

  void check(const Running& now) {
    for (size_t i = 0; i < now.blocks.size(); ++i) {
      const size_t end = std::min(now.tokens.size(), (i + 1) * kBlock);
      const uint64_t expected = content(now.root, std::span(now.tokens).first(end));
      stress_.wrong += stress_.pools.blocks.content(now.blocks[i]) != expected;
    }
  }

  void finish() {
    if (running_.empty()) return;
    std::swap(running_[random_() % running_.size()], running_.back());
    Running done = std::move(running_.back());
    running_.pop_back();
    check(done);
    stress_.wrong += !stress_.cache.release(std::move(done.handle));
    stress_.pools.blocks.lower(done.blocks);
    stress_.pools.disk.lower(done.disk);
  }

  Stress& stress_;
  std::mt19937_64 random_;
  const bool clears_;
  std::vector<Running> running_;
};

class PrefixCacheStress : public testing::TestWithParam<bool> {};

// Feature 21, bugs 3 and 4, U10: engines that look up, insert, roll back, evict and clear at the same time never see
// another block's content, and in the end every reference is back.
TEST_P(PrefixCacheStress, EveryReferenceComesBack) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Stress stress(GetParam());
  {
    std::vector<Thread> threads;
    for (uint64_t i = 0; i < 4; ++i) {
      threads.push_back(std::move(*start_thread("engine", [&, i] { Engine(stress, seed + i, i == 0).run(4000); })));
    }
  }
  EXPECT_EQ(stress.wrong, 0u);
  EXPECT_EQ(stress.pools.wrong(), 0u);
  EXPECT_GT(stress.hits, 1000u);
  EXPECT_EQ(stress.tail_hits > 0, GetParam());
  EXPECT_LT(stress.busy, 8000u);
  EXPECT_EQ(stress.cache.pins().handles, 0u);
  const PrefixCounters counters = stress.cache.counters();
  EXPECT_EQ(counters.lookups, 16000u);
  stress.pools.apply(stress.cache.evict(SIZE_MAX));
  EXPECT_EQ(stress.cache.usage().entries, 0u);
  EXPECT_EQ(stress.cache.usage().tails, 0u);
  EXPECT_TRUE(stress.pools.all_free());
}

INSTANTIATE_TEST_SUITE_P(All, PrefixCacheStress, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "tails" : "blocks"; });

}  // namespace
}  // namespace rhizome
