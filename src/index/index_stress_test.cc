#include <atomic>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "concurrency/mutex.h"
#include "index/index.h"
#include "machine/random.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlock = 4;
constexpr size_t kLocations = 400;

// Locations and what is stored there: a number that stands for the whole path to the block. A look-up that
// returns a wrong block, or one that was given back while it is held, shows as another number.
class Places {
 public:
  Places() : paths_(kLocations) {
    for (Location i = 0; i < kLocations; ++i)
      free_.push_back(i);
  }

  bool take(Location& out) {
    MutexLock lock(mutex_);
    if (free_.empty()) return false;
    out = free_.back();
    free_.pop_back();
    return true;
  }
  void give_back(Location location) {
    paths_[location].store(0);
    MutexLock lock(mutex_);
    free_.push_back(location);
  }
  std::atomic<uint64_t>& path(Location location) { return paths_[location]; }
  size_t free_count() {
    MutexLock lock(mutex_);
    return free_.size();
  }

 private:
  Mutex mutex_;
  std::vector<Location> free_ GUARDED_BY(mutex_);
  std::vector<std::atomic<uint64_t>> paths_;
};

struct Stress {
  Index index{{.block_tokens = kBlock}};
  Root root;
  Places places;
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> hits{0};
};

uint64_t path_number(std::span<const Token> tokens) {
  uint64_t number = 1;
  for (size_t i = kBlock - 1; i < tokens.size(); i += kBlock)
    number = number * 4 + tokens[i] + 1;
  return number;
}

void check(Stress& stress, const std::vector<Token>& tokens, std::span<const Location> found) {
  for (size_t i = 0; i < found.size(); ++i) {
    stress.wrong += stress.places.path(found[i]) != path_number(std::span(tokens).first((i + 1) * kBlock));
  }
}

void give_back(Stress& stress, std::span<const Location> locations) {
  for (const Location location : locations)
    stress.places.give_back(location);
}

void reap(Stress& stress) {
  std::vector<Location> out(16);
  while (const size_t count = stress.index.reap(out))
    give_back(stress, std::span(out).first(count));
}

// Stores the blocks that are missing; the handle goes in and comes out.
Handle store(Stress& stress, Handle handle, const std::vector<Token>& tokens, uint32_t first) {
  std::vector<Location> locations;
  const size_t blocks = tokens.size() / kBlock;
  for (size_t i = first; i < blocks; ++i) {
    Location location = 0;
    while (!stress.places.take(location)) {
      std::vector<Location> out(4);
      const size_t count = stress.index.evict(out);
      give_back(stress, std::span(out).first(count));
      if (count > 0) continue;
      give_back(stress, locations);
      return handle;
    }
    stress.places.path(location) = path_number(std::span(tokens).first((i + 1) * kBlock));
    locations.push_back(location);
  }
  if (locations.empty()) return handle;
  std::vector<Location> canonical(locations.size());
  Result<Inserted> inserted = stress.index.insert(stress.root, handle, tokens, first, locations, canonical);
  if (!inserted) {
    give_back(stress, locations);
    return handle;
  }
  for (size_t i = 0; i < locations.size(); ++i) {
    if (canonical[i] != locations[i]) stress.places.give_back(locations[i]);
  }
  return std::move(inserted->handle);
}

void hammer(Stress& stress, uint64_t seed) {
  std::mt19937_64 random(seed);
  struct Held {
    Handle handle;
    std::vector<Token> tokens;
    std::vector<Location> found;
  };
  std::vector<Held> held;
  for (int i = 0; i < 6000; ++i) {
    Held now;
    const size_t blocks = 1 + random() % 8;
    for (size_t b = 0; b < blocks; ++b) {
      now.tokens.insert(now.tokens.end(), {7, 7, 7, static_cast<Token>(random() % 5 == 0 ? random() % 3 : 0)});
    }
    now.found.resize(blocks);
    Match match = stress.index.lookup(stress.root, now.tokens, now.found);
    now.found.resize(match.blocks);
    stress.hits += match.blocks;
    check(stress, now.tokens, now.found);
    const uint64_t action = random() % 16;
    if (action == 0 && match.blocks > 0) {
      stress.index.remove(match.handle, static_cast<uint32_t>(random() % match.blocks));
      now.handle = std::move(match.handle);
    } else {
      stress.wrong += !stress.index.release(store(stress, std::move(match.handle), now.tokens, match.blocks));
      now.found.resize(blocks);
      match = stress.index.lookup(stress.root, now.tokens, now.found);
      now.found.resize(match.blocks);
      now.handle = std::move(match.handle);
    }
    held.push_back(std::move(now));
    if (held.size() > 6) {
      std::swap(held[random() % held.size()], held.back());
      check(stress, held.back().tokens, held.back().found);
      stress.wrong += !stress.index.release(std::move(held.back().handle));
      held.pop_back();
    }
    reap(stress);
  }
  for (Held& last : held) {
    check(stress, last.tokens, last.found);
    stress.wrong += !stress.index.release(std::move(last.handle));
  }
}

TEST(IndexStress, HeldBlocksStayWhileOthersInsertEvictAndRemove) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Stress stress;
  const char name = 'a';
  stress.root = *stress.index.open(std::as_bytes(std::span(&name, 1)));
  {
    std::vector<Thread> threads;
    for (uint64_t i = 0; i < 4; ++i) {
      threads.push_back(std::move(*start_thread("hammer", [&, i] { hammer(stress, seed + i); })));
    }
  }
  EXPECT_EQ(stress.wrong, 0u);
  EXPECT_GT(stress.hits, 1000u);
  reap(stress);
  std::vector<Location> out(kLocations);
  give_back(stress, std::span(out).first(stress.index.evict(out)));
  EXPECT_EQ(stress.places.free_count(), kLocations);
  const IndexUsage usage = stress.index.usage();
  EXPECT_EQ(usage.blocks + usage.removed_blocks, 0u);
  EXPECT_EQ(usage.runs, 1u);
  EXPECT_EQ(stress.index.pins(stress.root).handles, 0u);
}

}  // namespace
}  // namespace rhizome
