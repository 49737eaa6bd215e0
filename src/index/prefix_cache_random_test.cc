#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/prefix_cache.h"
#include "index/prefix_cache_fixture.h"
#include "index/prefix_model.h"
#include "index/weak_kernels.h"
#include "machine/random.h"

namespace rhizome {
namespace {

struct Setting {
  uint32_t block_tokens;
  bool partial_tails;
  bool collide;
  int steps;
};

// Drives a cache and the model side by side, with sequences that keep references the way an engine does.
class Duel {
 public:
  Duel(const Setting& setting, uint64_t seed)
      : setting_(setting),
        kernels_(setting.collide ? weak_kernels<0>(setting.block_tokens) : fastest_kernels(setting.block_tokens)),
        cache_({.block_tokens = setting.block_tokens,
                .blocks_max = 60,
                .partial_tails = setting.partial_tails,
                .recency = Recency::kExact,
                .kernels = &kernels_}),
        model_(setting.block_tokens, setting.partial_tails),
        random_(seed) {
    for (uint64_t adapter = 0; adapter < 2; ++adapter)
      roots_.push_back(*cache_.open({.adapter = adapter}));
  }

  void step() {
    while (running_.size() > 8)
      finish();
    const uint64_t action = random_() % 100;
    if (action < 25) {
      start();
    } else if (action < 60) {
      store();
    } else if (action < 70) {
      go_on();
    } else if (action < 85) {
      finish();
    } else {
      evict(random_() % 6);
    }
    check();
  }

  void drain() {
    while (!running_.empty())
      finish();
    evict(1000);
    EXPECT_EQ(model_.blocks_count(), 0u);
    check();
    EXPECT_EQ(cache_.pins().handles, 0u);
    EXPECT_TRUE(pools_.all_free());
  }

 private:
  struct Running {
    PrefixHandle handle;
    PrefixModel::Held held;
    uint32_t root = 0;
    std::vector<Token> tokens;
    std::vector<uint32_t> blocks;  // of which it has a reference
    std::vector<uint32_t> disk;
  };

  // Of a tiny vocabulary, so that prompts share, branch and repeat all the time.
  std::vector<Token> some_tokens() {
    std::vector<Token> tokens;
    for (uint64_t blocks = random_() % 6; blocks > 0; --blocks) {
      tokens.insert(tokens.end(), setting_.block_tokens - 1, 7);
      tokens.push_back(random_() % 4 == 0 ? 1 : 0);
    }
    for (uint64_t rest = random_() % setting_.block_tokens; rest > 0; --rest)
      tokens.push_back(random_() % 5 == 0 ? 6 : 7);
    return tokens;
  }

  // What the cache found for the sequence from block `from` on is what the model knows; a handle on it is taken.
  void found(Running& running, Found& found, size_t from) {
    const std::vector<const PrefixModel::Block*> expected = model_.find(running.root, running.tokens);
    ASSERT_EQ(found.match.blocks, expected.size());
    for (size_t i = from; i < expected.size(); ++i) {
      EXPECT_EQ(found.blocks[i - from], expected[i]->block);
      EXPECT_EQ(found.disk_block_ids[i - from], expected[i]->disk);
    }
    const PrefixModel::Tail tail = model_.find_tail(running.root, running.tokens, expected.size());
    EXPECT_EQ(found.match.tail.tokens, tail.tokens.size());
    EXPECT_EQ(found.match.tail.block, tail.block);
    EXPECT_EQ(found.match.tail.disk_block_id, tail.disk);
    EXPECT_EQ(found.match.matched_tokens, expected.size() * setting_.block_tokens + tail.tokens.size());
    const PrefixModel::Held held = model_.hold(running.root, running.tokens, expected.size(), !tail.tokens.empty());
    model_.release(running.held);
    running.held = held;
    pools_.blocks.raise(found.blocks);
    running.blocks.insert(running.blocks.end(), found.blocks.begin(), found.blocks.end());
    running.handle = std::move(found.match.handle);
  }

  void start() {
    Running running;
    running.root = static_cast<uint32_t>(random_() % 2);
    running.tokens = some_tokens();
    const uint64_t peeked = cache_.peek(roots_[running.root], running.tokens);
    EXPECT_EQ(peeked, model_.find(running.root, running.tokens).size() * setting_.block_tokens);
    Found match = look_up(cache_, roots_[running.root], running.tokens);
    found(running, match, 0);
    running_.push_back(std::move(running));
  }

  void go_on() {
    if (running_.empty()) return;
    Running running = take_any();
    const uint32_t before = running.handle.blocks();
    running.tokens.resize(size_t{before} * setting_.block_tokens);
    const std::vector<Token> more = some_tokens();
    running.tokens.insert(running.tokens.end(), more.begin(), more.end());
    Found match = resume(cache_, running.handle, more);
    found(running, match, before);
    running_.push_back(std::move(running));
  }

  std::vector<uint32_t> take(BlockPool& pool, size_t count, std::vector<uint32_t>& owned, uint64_t none_in) {
    std::vector<uint32_t> taken;
    for (size_t i = 0; i < count; ++i) {
      taken.push_back(none_in != 0 && random_() % none_in == 0 ? kNoBlock : pool.take());
      if (taken.back() != kNoBlock) owned.push_back(taken.back());
    }
    return taken;
  }

  // Inserts from a random block on, so that some of what is given is stored already, or by extending.
  void store() {
    if (running_.empty()) return start();
    Running running = take_any();
    const std::vector<Token> more = some_tokens();
    const uint32_t before = running.handle.blocks();
    if (random_() % 2 == 0) {
      running.tokens.resize(size_t{before} * setting_.block_tokens);
      running.tokens.insert(running.tokens.end(), more.begin(), more.end());
    }
    const size_t total = running.tokens.size() / setting_.block_tokens;
    const bool extend = random_() % 2 == 0;
    const uint32_t first = extend ? before : static_cast<uint32_t>(random_() % (before + 1));
    const std::vector<uint32_t> fresh = take(pools_.blocks, total - first, running.blocks, 0);
    const std::vector<uint32_t> disk = take(pools_.disk, total - first, running.disk, 3);
    SequenceBlocks given{.blocks = fresh, .disk_block_ids = disk};
    if (random_() % 3 == 0) given.disk_block_ids = {};
    if (running.tokens.size() % setting_.block_tokens != 0 && random_() % 2 == 0) {
      given.tail_block = take(pools_.blocks, 1, running.blocks, 0)[0];
      given.tail_disk_block_id = take(pools_.disk, 1, running.disk, 2)[0];
    }
    const std::span<const Token> rest =
        std::span(running.tokens).subspan(extend ? size_t{before} * setting_.block_tokens : 0);
    const Result<PrefixInserted> inserted =
        extend ? cache_.extend(running.handle, rest, given)
               : cache_.insert(roots_[running.root], running.handle, rest, first, given);
    if (inserted) {
      stored(running, *inserted, first, given);
    } else {
      // All that the handle does not hold needs room, whoever has stored it.
      EXPECT_EQ(inserted.error().code, Code::kResourceExhausted);
      EXPECT_GT(model_.blocks_count() + total - before, 60u);
      EXPECT_EQ(running.handle.blocks(), before);
    }
    running_.push_back(std::move(running));
  }

  void stored(Running& running, const PrefixInserted& inserted, uint32_t first, const SequenceBlocks& given) {
    const size_t total = first + given.blocks.size();
    InsertAcquired expected = model_.insert(running.root, running.tokens, first, given);
    const bool has_tail = setting_.partial_tails && given.tail_block != kNoBlock && total > 0;
    if (has_tail || !given.blocks.empty()) {
      // What was held before stays held until the new one is; its tail does not.
      if (running.held.tail) {
        const PrefixModel::Held blocks_only =
            model_.hold(running.root, running.tokens, running.held.path.second.size() / setting_.block_tokens, false);
        model_.release(running.held);
        running.held = blocks_only;
      }
      bool held = false;
      const size_t end = total * setting_.block_tokens;
      const auto behind = running.tokens.begin() + static_cast<std::ptrdiff_t>(end);
      if (has_tail) {
        held =
            model_.insert_tail({running.root, {running.tokens.begin(), behind}},
                               {{behind, running.tokens.end()}, given.tail_block, given.tail_disk_block_id}, expected);
      }
      const PrefixModel::Held now = model_.hold(running.root, running.tokens, total, held);
      model_.release(running.held);
      running.held = now;
    }
    EXPECT_EQ(running.handle.blocks(), total);
    EXPECT_EQ(inserted.acquired.blocks, expected.blocks);
    EXPECT_EQ(inserted.acquired.disk_block_ids, expected.disk_block_ids);
    EXPECT_EQ(inserted.acquired.released_blocks, expected.released_blocks);
    EXPECT_EQ(inserted.acquired.released_disk_block_ids, expected.released_disk_block_ids);
    const auto stored = model_.find(running.root, running.tokens);
    for (size_t i = 0; i < inserted.canonical.size(); ++i)
      EXPECT_EQ(inserted.canonical[i], stored[first + i]->block);
    pools_.apply(inserted.acquired);
  }

  void finish() {
    if (running_.empty()) return;
    Running running = take_any();
    model_.release(running.held);
    EXPECT_TRUE(cache_.release(std::move(running.handle)));
    pools_.blocks.lower(running.blocks);
    pools_.disk.lower(running.disk);
  }

  void evict(size_t count) {
    const EvictedBlocks evicted = cache_.evict(count);
    size_t whole = 0;
    EXPECT_EQ(model_.evicted(evicted, whole), "");
    EXPECT_LE(whole, count);
    if (whole < count) {
      EXPECT_TRUE(model_.nothing_more_to_evict());
    }
    pools_.apply(evicted);
  }

  void check() {
    const PrefixUsage usage = cache_.usage();
    EXPECT_EQ(usage.blocks, model_.blocks_count());
    EXPECT_EQ(usage.entries, model_.blocks_count());
    EXPECT_EQ(usage.tails, model_.tails_count());
    EXPECT_EQ(pools_.wrong(), 0u);
  }

  Running take_any() {
    std::swap(running_[random_() % running_.size()], running_.back());
    Running running = std::move(running_.back());
    running_.pop_back();
    return running;
  }

  const Setting setting_;
  const Kernels kernels_;
  PrefixCache cache_;
  Pools pools_{1000};
  PrefixModel model_;
  std::mt19937_64 random_;
  std::vector<Root> roots_;
  std::vector<Running> running_;
};

class PrefixCacheRandom : public testing::TestWithParam<Setting> {};

TEST_P(PrefixCacheRandom, AgreesWithTheModel) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Duel duel(GetParam(), seed);
  for (int i = 0; i < GetParam().steps && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "step " << i);
    duel.step();
  }
  if (!HasFailure()) duel.drain();
}

INSTANTIATE_TEST_SUITE_P(All, PrefixCacheRandom,
                         testing::Values(Setting{4, false, false, 10000}, Setting{4, true, false, 20000},
                                         Setting{2, true, true, 5000}, Setting{16, true, false, 5000}),
                         [](const auto& tested) {
                           return "block" + std::to_string(tested.param.block_tokens) +
                                  (tested.param.partial_tails ? "_tails" : "") +
                                  (tested.param.collide ? "_every_fingerprint_collides" : "");
                         });

}  // namespace
}  // namespace rhizome
