#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "concurrency/mutex.h"
#include "index/index.h"
#include "index/policy.h"
#include "index/weak_kernels.h"
#include "machine/random.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlock = 4;
constexpr size_t kLocations = 3000;
constexpr uint32_t kBlocksMax = 96;

// Locations and what is stored there: a number that stands for the whole path to the block. A look-up that returns a
// wrong block, or one that was given back while it is held, shows as another number.
class Places {
 public:
  Places() : paths_(kLocations) {
    for (Location i = 0; i < kLocations; ++i)
      free_.push_back(i);
  }

  // All or none.
  bool take(size_t count, std::vector<Location>& out) {
    MutexLock lock(mutex_);
    if (free_.size() < count) return false;
    out.assign(free_.end() - static_cast<std::ptrdiff_t>(count), free_.end());
    free_.resize(free_.size() - count);
    return true;
  }
  void give_back(std::span<const Location> locations) {
    for (const Location location : locations)
      twice_ += paths_[location].exchange(0) == 0;
    MutexLock lock(mutex_);
    free_.insert(free_.end(), locations.begin(), locations.end());
  }
  std::atomic<uint64_t>& path(Location location) { return paths_[location]; }
  size_t free_count() {
    MutexLock lock(mutex_);
    return free_.size();
  }
  uint64_t given_back_twice() const { return twice_; }

 private:
  Mutex mutex_;
  std::vector<Location> free_ GUARDED_BY(mutex_);
  std::vector<std::atomic<uint64_t>> paths_;
  std::atomic<uint64_t> twice_{0};
};

// A number for each prefix of a prompt: path[i] stands for its first i + 1 blocks.
template <class Element>
std::vector<uint64_t> paths_of(const std::vector<Element>& tokens, uint32_t block = kBlock) {
  std::vector<uint64_t> paths;
  uint64_t path = 1;
  for (size_t i = block - 1; i < tokens.size(); i += block) {
    path = (path + tokens[i] + 1) * 0x9e3779b97f4a7c15u;
    path ^= path >> 29;
    paths.push_back(path);
  }
  return paths;
}

template <class AnyIndex>
class Stress {
 public:
  using Element = typename AnyIndex::Element;
  using Prompt = std::vector<Element>;

  explicit Stress(const IndexOptions& options, uint32_t longest = kBlocksMax)
      : index(options),
        block(std::is_same_v<AnyIndex, PrehashedIndex> ? 1 : options.block_tokens),
        blocks_max(longest),
        root(open(0)) {}

  Root open(char name) { return *index.open(std::as_bytes(std::span(&name, 1))); }

  void check(const std::vector<uint64_t>& paths, std::span<const Location> found) {
    for (size_t i = 0; i < found.size(); ++i)
      wrong += places.path(found[i]) != paths[i];
    compared += found.size();
  }

  void make_room(size_t count, std::vector<Location>& out) {
    out.resize(count);
    out.resize(index.evict(out));
    places.give_back(out);
  }

  void reap() {
    std::vector<Location> out(64);
    while (const size_t count = index.reap(out))
      places.give_back(std::span(out).first(count));
  }

  // Stores the blocks that are missing; the handle goes in and comes out.
  Handle store(Handle handle, const Prompt& tokens, const std::vector<uint64_t>& paths, uint32_t first) {
    return store(root, std::move(handle), tokens, paths, first);
  }
  Handle store(Root where, Handle handle, const Prompt& tokens, const std::vector<uint64_t>& paths, uint32_t first) {
    const size_t missing = paths.size() - first;
    if (missing == 0) return handle;
    std::vector<Location> locations;
    for (int tries = 0; !places.take(missing, locations); ++tries) {
      std::vector<Location> out;
      make_room(missing, out);
      if (tries == 3) return handle;
    }
    for (size_t i = 0; i < missing; ++i)
      places.path(locations[i]) = paths[first + i];
    std::vector<Location> canonical(missing);
    Result<Inserted> inserted = index.insert(where, handle, tokens, first, locations, canonical);
    if (!inserted) {
      places.give_back(locations);
      ++refused;
      make_room(missing, locations);
      return handle;
    }
    for (size_t i = 0; i < missing; ++i) {
      if (canonical[i] == locations[i]) continue;
      wrong += places.path(canonical[i]) != paths[first + i];
      places.give_back(std::span(&locations[i], 1));
    }
    return std::move(inserted->handle);
  }

  // Trunks that many share, with branches off every few blocks.
  Prompt random_prompt(std::mt19937_64& random) const {
    Prompt tokens;
    const size_t blocks = 1 + random() % blocks_max;
    for (size_t b = 0; b < blocks; ++b) {
      tokens.insert(tokens.end(), block - 1, 7);
      tokens.push_back(static_cast<Token>(random() % 12 == 0 ? random() % 6 : 0));
    }
    return tokens;
  }

  // With `trees_end`, keyspaces are cleared and closed and epochs begin, too.
  void hammer(uint64_t seed, int operations, bool trees_end);
  void end_a_tree(std::mt19937_64& random, char name);

  AnyIndex index;
  const uint32_t block;
  const uint32_t blocks_max;
  const Root root;
  Places places;
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> compared{0};
  std::atomic<uint64_t> refused{0};
};

// One whole life of a keyspace, or the end of what is in all.
template <class AnyIndex>
void Stress<AnyIndex>::end_a_tree(std::mt19937_64& random, char name) {
  const uint64_t action = random() % 8;
  if (action == 0) index.start_epoch();
  if (action == 1) wrong += !index.clear(root) && index.usage().roots == 0;
  if (action < 2) return;
  const Result<Root> own = index.open(std::as_bytes(std::span(&name, 1)));
  if (!own) return;
  const Prompt tokens = random_prompt(random);
  const std::vector<uint64_t> paths = paths_of(tokens, block);
  Handle handle = store(*own, {}, tokens, paths, 0);
  wrong += !index.close(*own);
  wrong += !index.release(std::move(handle));
}

template <class AnyIndex>
void Stress<AnyIndex>::hammer(uint64_t seed, int operations, bool trees_end) {
  std::mt19937_64 random(seed);
  struct Held {
    Handle handle;
    std::vector<uint64_t> paths;
    std::vector<Location> found;
  };
  std::vector<Held> held;
  for (int i = 0; i < operations; ++i) {
    Held now;
    const Prompt tokens = random_prompt(random);
    now.paths = paths_of(tokens, block);
    now.found.resize(now.paths.size());
    Match match = index.lookup(root, tokens, now.found);
    check(now.paths, std::span(now.found).first(match.blocks));
    const uint64_t action = random() % 512;
    if (action == 0 && match.blocks > 0) {
      index.remove(match.handle, static_cast<uint32_t>(random() % match.blocks));
      now.found.resize(match.blocks);
      now.handle = std::move(match.handle);
    } else {
      now.handle = store(std::move(match.handle), tokens, now.paths, match.blocks);
      // What is pinned now, by going on from nothing: the same blocks or more.
      Match again = index.lookup(root, tokens, now.found);
      check(now.paths, std::span(now.found).first(again.blocks));
      wrong += !index.release(std::move(now.handle));
      now.found.resize(again.blocks);
      now.handle = std::move(again.handle);
    }
    held.push_back(std::move(now));
    if (held.size() > 6) {
      std::swap(held[random() % held.size()], held.back());
      check(held.back().paths, held.back().found);
      wrong += !index.release(std::move(held.back().handle));
      held.pop_back();
    }
    reap();
    if (trees_end && random() % 64 == 0) end_a_tree(random, static_cast<char>(1 + seed % 64));
  }
  for (Held& last : held) {
    check(last.paths, last.found);
    wrong += !index.release(std::move(last.handle));
  }
}

// Everything that was stored comes back once.
template <class AnyIndex>
void expect_drains(Stress<AnyIndex>& stress) {
  stress.reap();
  std::vector<Location> out;
  stress.make_room(kLocations + 1, out);
  EXPECT_EQ(stress.places.free_count(), kLocations);
  EXPECT_EQ(stress.places.given_back_twice(), 0u);
  const IndexUsage usage = stress.index.usage();
  EXPECT_EQ(usage.blocks + usage.removed_blocks, 0u);
  EXPECT_EQ(usage.runs, 1u);
  EXPECT_EQ(stress.index.pins(stress.root).handles, 0u);
}

template <class AnyIndex>
void run(Stress<AnyIndex>& stress, uint64_t seed, int threads_count, int operations, bool trees_end = false) {
  std::vector<Thread> threads;
  for (int i = 0; i < threads_count; ++i) {
    threads.push_back(std::move(
        *start_thread("hammer", [&, i] { stress.hammer(seed + static_cast<uint64_t>(i), operations, trees_end); })));
  }
}

#ifdef NDEBUG
constexpr int kOperations = 40'000;
#else
constexpr int kOperations = 3'000;  // with a sanitizer
#endif

// tools/run_tests.py prints this line.
template <class AnyIndex>
void report(const std::string& policy, const Stress<AnyIndex>& stress) {
  testing::Test::RecordProperty("counted", policy + ": " + std::to_string(stress.compared) +
                                               " blocks that look-ups found compared with what was stored, wrong " +
                                               std::to_string(stress.wrong));
}

TEST(IndexStress, HeldBlocksStayWhileOthersInsertEvictAndRemove) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Stress<Index> stress({.block_tokens = kBlock});
  run(stress, seed, 4, kOperations);
  EXPECT_EQ(stress.wrong, 0u);
  EXPECT_GT(stress.compared, 10'000u);
  report("exact", stress);
  expect_drains(stress);
}

TEST(IndexStress, FingerprintsTellBlocksApart) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Stress<FingerprintIndex> stress({.block_tokens = kBlock});
  run(stress, seed, 4, kOperations);
  EXPECT_EQ(stress.wrong, 0u);
  report("h64", stress);
  expect_drains(stress);
}

// An arena that is full nearly always and has small places only: a long prompt is a chain of runs, which many threads
// make and take back again.
template <class AnyIndex>
void stress_chains(const std::string& policy, uint32_t block_tokens, uint32_t blocks_max, uint64_t memory_bytes) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed << " memory " << memory_bytes);
  Stress<AnyIndex> stress({.block_tokens = block_tokens, .memory_bytes = memory_bytes}, blocks_max);
  std::vector<Location> out;
  const uint64_t bytes = stress.index.usage().bytes;
  uint64_t place = 0;
  for (Token name = 100; stress.refused == 0; ++name) {
    const typename Stress<AnyIndex>::Prompt tokens(stress.block, name);
    EXPECT_TRUE(stress.index.release(stress.store({}, tokens, paths_of(tokens, stress.block), 0)));
    if (place == 0) place = stress.index.usage().bytes - bytes;
  }
  stress.make_room(kLocations + 1, out);
  const auto expect_chains = [&](uint64_t bytes_more) {
    // The first insert of an epoch makes another root, in another place.
    const typename Stress<AnyIndex>::Prompt first(stress.block, 8);
    EXPECT_TRUE(stress.index.release(stress.store({}, first, paths_of(first, stress.block), 0)));
    stress.make_room(kLocations + 1, out);
    const uint64_t empty = stress.index.usage().bytes;
    EXPECT_GE(empty, bytes);
    EXPECT_LE(empty, bytes + bytes_more);
    const typename Stress<AnyIndex>::Prompt tokens(size_t{stress.block} * blocks_max, 9);
    Handle handle = stress.store({}, tokens, paths_of(tokens, stress.block), 0);
    EXPECT_EQ(handle.blocks(), blocks_max) << "it fits";
    EXPECT_TRUE(stress.index.release(std::move(handle)));
    EXPECT_GT(stress.index.usage().runs, 3u) << "in several runs";
    stress.make_room(kLocations + 1, out);
    EXPECT_EQ(stress.index.usage().bytes, empty);
  };
  expect_chains(0);
  run(stress, seed, 4, kOperations / 8);
  expect_drains(stress);
  expect_chains(0);
  run(stress, seed + 4, 4, kOperations / 8, true);
  EXPECT_EQ(stress.wrong, 0u);
  EXPECT_GT(stress.compared, 100u);
  EXPECT_GT(stress.refused, 10u);
  report(policy, stress);
  expect_drains(stress);
  // A new root lies where there is room, which may be a place that is made for a run.
  expect_chains(place);
}

TEST(IndexStress, ChainsInATinyArena) {
  stress_chains<Index>("exact", 4, 32, 4 << 10);
  stress_chains<Index>("exact", 16, 32, 16 << 10);
  stress_chains<Index>("exact", 256, 12, 64 << 10);
  stress_chains<FingerprintIndex>("h64", 16, 64, 4 << 10);
  stress_chains<FingerprintIndex>("h64", 256, 96, 16 << 10);
  stress_chains<PrehashedIndex>("prehashed", 16, 64, 4 << 10);
  stress_chains<PrehashedIndex>("prehashed", 16, 96, 32 << 10);
}

// With fingerprints of eight bits the tokens must decide ...
TEST(IndexStress, ExactIsRightWhenFingerprintsCollide) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const Kernels weak = weak_kernels<8>(kBlock);
  Stress<Index> stress({.block_tokens = kBlock, .kernels = &weak});
  run(stress, seed, 4, kOperations / 20);
  EXPECT_EQ(stress.wrong, 0u);
  expect_drains(stress);
}

// ... and an index that trusts them is caught: these tests can fail.
TEST(IndexStress, CollidingFingerprintsAreCaught) {
  const Kernels weak = weak_kernels<8>(kBlock);
  Stress<FingerprintIndex> stress({.block_tokens = kBlock, .kernels = &weak});
  std::mt19937_64 random(1);
  for (Token i = 0; i < 2000; ++i) {
    const std::vector<Token> tokens{i, 1, 2, i};
    const std::vector<uint64_t> paths = paths_of(tokens);
    std::vector<Location> found(1);
    Match match = stress.index.lookup(stress.root, tokens, found);
    stress.check(paths, std::span(found).first(match.blocks));
    EXPECT_TRUE(stress.index.release(stress.store(std::move(match.handle), tokens, paths, match.blocks)));
  }
  EXPECT_GT(stress.wrong, 1000u);
}

// So many pins on one prompt that they are counted apart, by threads that come and go; then nobody wants it any more.
TEST(IndexStress, HotRunsCoolDown) {
  Stress<FingerprintIndex> stress({.block_tokens = kBlock});
  const std::vector<Token> tokens(kBlock * 20, 3);
  const std::vector<uint64_t> paths = paths_of(tokens);
  Handle always = stress.store({}, tokens, paths, 0);
  std::vector<Location> out(1);
  for (int generation = 0; generation < 3; ++generation) {
    std::vector<Thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.push_back(std::move(*start_thread("pin", [&] {
        std::vector<Location> found(paths.size());
        std::vector<Handle> handles;
        for (int round = 0; round < 2000; ++round) {
          Match match = stress.index.lookup(stress.root, tokens, found);
          stress.check(paths, std::span(found).first(match.blocks));
          stress.wrong += match.blocks != paths.size();
          handles.push_back(std::move(match.handle));
          if (handles.size() < 100 && round + 1 < 2000) continue;
          for (Handle& handle : handles)
            stress.wrong += !stress.index.release(std::move(handle));
          handles.clear();
        }
      })));
    }
    for (int i = 0; i < 300; ++i)
      stress.wrong += stress.index.evict(out);
  }
  EXPECT_EQ(stress.wrong, 0u);
  EXPECT_EQ(stress.index.pins(stress.root).handles, 1u);
  EXPECT_TRUE(stress.index.release(std::move(always)));
  stress.make_room(kLocations + 1, out);
  EXPECT_EQ(out.size(), paths.size());
  EXPECT_EQ(stress.index.usage().runs, 1u);
}

}  // namespace
}  // namespace rhizome
