#include "index/named_blocks.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

using Hashes = std::vector<uint64_t>;

// What a worker would call the last block of a sequence.
uint64_t name_of(std::span<const uint64_t> sequence) {
  uint64_t name = 0xcbf29ce484222325;
  for (const uint64_t hash : sequence)
    name = (name ^ hash) * 0x9e3779b97f4a7c15ULL + (name >> 29);
  return name;
}

Hashes names_of(const Hashes& sequence, size_t first) {
  Hashes names;
  for (size_t end = first + 1; end <= sequence.size(); ++end)
    names.push_back(name_of(std::span(sequence).first(end)));
  return names;
}

class Mirror {
 public:
  explicit Mirror(uint32_t blocks_max = 1 << 16) : blocks({.blocks_max = blocks_max, .index = {}}) {}

  uint32_t look(const Hashes& sequence, std::vector<Location>* found = nullptr) {
    std::vector<Location> out(sequence.size());
    Match match = blocks.lookup(sequence, out);
    EXPECT_TRUE(blocks.release(std::move(match.handle)));
    out.resize(match.blocks);
    if (found != nullptr) *found = out;
    return match.blocks;
  }

  // As a router does it: what is missing behind what is there.
  void store(const Hashes& sequence) {
    std::vector<Location> out(sequence.size());
    Match match = blocks.lookup(sequence, out);
    if (match.blocks < sequence.size()) {
      Result<Handle> stored = blocks.store(match.handle, sequence, match.blocks, names_of(sequence, match.blocks));
      ASSERT_TRUE(stored);
      match.handle = std::move(*stored);
    }
    EXPECT_TRUE(blocks.release(std::move(match.handle)));
  }

  bool remove(const Hashes& sequence) {
    const uint64_t name = name_of(sequence);
    return blocks.remove_by_hash(std::span(&name, 1)) == 1;
  }

  NamedBlocks blocks;
};

TEST(NamedBlocks, ALookUpStopsAtTheFirstRemovedBlock) {
  Mirror mirror;
  mirror.store({1, 2, 3, 4});
  EXPECT_EQ(mirror.look({1, 2, 3, 4, 5}), 4u);
  EXPECT_TRUE(mirror.remove({1, 2, 3}));
  EXPECT_FALSE(mirror.remove({1, 2, 3}));
  EXPECT_FALSE(mirror.remove({1, 2, 7}));
  EXPECT_EQ(mirror.look({1, 2, 3, 4}), 2u);
  EXPECT_TRUE(mirror.remove({1}));
  EXPECT_EQ(mirror.look({1, 2, 3, 4}), 0u);
  EXPECT_EQ(mirror.blocks.usage().blocks, 2u);
  EXPECT_EQ(mirror.blocks.usage().tombstones, 2u);
}

TEST(NamedBlocks, StoredAgainItIsThereAgainWithWhatIsBehindIt) {
  Mirror mirror;
  mirror.store({1, 2, 3, 4});
  std::vector<Location> before;
  mirror.look({1, 2, 3, 4}, &before);
  ASSERT_TRUE(mirror.remove({1, 2}));
  mirror.store({1, 2});
  std::vector<Location> after;
  EXPECT_EQ(mirror.look({1, 2, 3, 4}, &after), 4u);
  EXPECT_EQ(before, after);
  EXPECT_TRUE(mirror.remove({1, 2}));
  EXPECT_EQ(mirror.look({1, 2, 3, 4}), 1u);
}

TEST(NamedBlocks, ANameMeansTheBlockThatGotItLast) {
  Mirror mirror;
  mirror.store({1, 2});
  const Hashes other = {8, 9};
  Hashes names = {name_of(std::span(other).first(1)), name_of(Hashes{1, 2})};
  Handle none;
  Result<Handle> stored = mirror.blocks.store(none, other, 0, names);
  ASSERT_TRUE(stored);
  ASSERT_TRUE(mirror.blocks.release(std::move(*stored)));
  EXPECT_EQ(mirror.look({1, 2}), 1u);
  EXPECT_EQ(mirror.look(other), 2u);
  EXPECT_TRUE(mirror.remove({1, 2}));
  EXPECT_EQ(mirror.look(other), 1u);
}

TEST(NamedBlocks, ABlockHasTheNameThatItGotLast) {
  Mirror mirror;
  mirror.store({1, 2});
  const Hashes sequence = {1, 2};
  const Hashes names = {101, 102};
  Handle none;
  Result<Handle> stored = mirror.blocks.store(none, sequence, 0, names);
  ASSERT_TRUE(stored);
  ASSERT_TRUE(mirror.blocks.release(std::move(*stored)));
  EXPECT_FALSE(mirror.remove({1, 2}));
  EXPECT_EQ(mirror.look(sequence), 2u);
  EXPECT_EQ(mirror.blocks.remove_by_hash(std::span(names).last(1)), 1u);
  EXPECT_EQ(mirror.look(sequence), 1u);
}

TEST(NamedBlocks, WhatDoesNotFitIsRefusedAndChangesNothing) {
  Mirror mirror(4);
  mirror.store({1, 2, 3});
  const Hashes sequence = {1, 5, 6};
  Handle none;
  EXPECT_EQ(mirror.blocks.store(none, sequence, 0, Hashes{}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(mirror.blocks.store(none, sequence, 1, Hashes{7}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(mirror.blocks.store(none, sequence, 2, Hashes{7}).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(mirror.blocks.store(none, sequence, 0, Hashes{7, 8, 9}).error().code, Code::kResourceExhausted);
  EXPECT_EQ(mirror.look({1, 2, 3}), 3u);
  EXPECT_EQ(mirror.blocks.usage().blocks, 3u);
  mirror.store({4});
  EXPECT_EQ(mirror.blocks.usage().blocks, 4u);
}

// A sweep takes what nothing live continues, and its locations are used again.
TEST(NamedBlocks, RemovedBlocksLeaveTheTree) {
  constexpr uint64_t kSequences = 200;
  Mirror mirror(20 * kSequences);
  for (int round = 0; round < 20; ++round) {
    for (uint64_t at = 0; at < kSequences; ++at)
      mirror.store({1, 2, 100 + at, 3, 4, 5, 6, 7, 8, 9});
    for (uint64_t at = 0; at < kSequences; ++at) {
      Hashes sequence = {1, 2, 100 + at, 3, 4, 5, 6, 7, 8, 9};
      for (; sequence.size() > 2; sequence.pop_back())
        ASSERT_TRUE(mirror.remove(sequence));
    }
    const NamedBlocksUsage usage = mirror.blocks.usage();
    EXPECT_EQ(usage.blocks, 2u);
    EXPECT_LE(usage.tombstones, 1025u);
    EXPECT_EQ(mirror.look({1, 2, 100, 3}), 2u);
  }
}

TEST(NamedBlocks, WhatIsPinnedIsNotSwept) {
  Mirror mirror;
  mirror.store({7, 8, 9});
  std::vector<Location> out(3);
  Match held = mirror.blocks.lookup(Hashes{7, 8, 9}, out);
  ASSERT_EQ(held.blocks, 3u);
  ASSERT_TRUE(mirror.remove({7, 8, 9}) && mirror.remove({7, 8}) && mirror.remove({7}));
  std::set<Location> used;
  for (uint64_t at = 0; at < 3000; ++at) {
    mirror.store({at + 1000});
    std::vector<Location> found;
    mirror.look({at + 1000}, &found);
    used.insert(found.begin(), found.end());
    ASSERT_TRUE(mirror.remove({at + 1000}));
  }
  EXPECT_LT(used.size(), 3000u);
  for (const Location location : out)
    EXPECT_FALSE(used.contains(location));
  EXPECT_TRUE(mirror.blocks.release(std::move(held.handle)));
}

// Against a set of the prefixes that are stored.
TEST(NamedBlocks, DoesWhatAMapDoes) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Mirror mirror;
  std::map<Hashes, Location> model;
  uint64_t tombstones = 0;
  int sweeps = 0;
  for (int step = 0; step < 40'000; ++step) {
    Hashes sequence;
    for (uint64_t left = 1 + random() % 12; left > 0; --left)
      sequence.push_back(random() % 3);
    // Phases in which much is stored and in which much is removed, so that sweeps come.
    const bool stores = random() % 4 < (step / 5000 % 2 == 0 ? 3u : 1u);
    if (stores) mirror.store(sequence);
    std::vector<Location> found;
    const uint32_t blocks = mirror.look(sequence, &found);
    std::set<Location> distinct(found.begin(), found.end());
    ASSERT_EQ(distinct.size(), found.size());
    Hashes prefix;
    bool is_live = true;
    for (size_t i = 0; i < sequence.size(); ++i) {
      prefix.push_back(sequence[i]);
      if (stores && i < blocks) model.try_emplace(prefix, found[i]);
      is_live = is_live && model.contains(prefix);
      ASSERT_EQ(i < blocks, is_live);
      // A block keeps its place while it is stored.
      if (is_live) {
        ASSERT_EQ(model[prefix], found[i]);
      }
    }
    if (!stores) {
      // Any prefix, whatever is stored behind it, and some that are stored.
      sequence.resize(1 + random() % sequence.size());
      ASSERT_EQ(mirror.remove(sequence), model.erase(sequence) == 1);
      for (int more = 0; more < 12; ++more) {
        const auto stored = model.lower_bound(sequence);
        if (stored == model.end()) break;
        const Hashes known = stored->first;
        ASSERT_TRUE(mirror.remove(known));
        model.erase(stored);
      }
    }
    const uint64_t kept = mirror.blocks.usage().tombstones;
    sweeps += kept + 500 < tombstones ? 1 : 0;
    tombstones = kept;
    ASSERT_EQ(mirror.blocks.usage().blocks, model.size());
  }
  EXPECT_GT(sweeps, 3);
}

// Readers beside the writer: what they find was stored under that very location, as long as they hold it.
TEST(NamedBlocks, ReadersRunBesideTheWriter) {
  constexpr uint64_t kTrunks = 40;
  Mirror mirror;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> wrong = 0;
  std::vector<Thread> readers;
  for (uint64_t reader = 0; reader < 2; ++reader) {
    readers.push_back(std::move(*start_thread("reader", [&, reader] {
      std::mt19937_64 random(reader);
      std::vector<Location> out(6);
      std::vector<Location> again(6);
      while (!stop.load()) {
        const Hashes sequence = {random() % kTrunks, 2, 3, 4, 5, 6};
        Match match = mirror.blocks.lookup(sequence, out);
        Match second = mirror.blocks.lookup(sequence, again);
        // Both are held, so nothing of the first can have moved.
        if (!match.handle.empty() &&
            !std::equal(again.begin(), again.begin() + std::min(match.blocks, second.blocks), out.begin())) {
          ++wrong;
        }
        if (!mirror.blocks.release(std::move(match.handle)) || !mirror.blocks.release(std::move(second.handle)))
          ++wrong;
      }
    })));
  }
  for (uint64_t round = 0; round < 300; ++round) {
    for (uint64_t trunk = 0; trunk < kTrunks; ++trunk)
      mirror.store({trunk, 2, 3, 4, 5, 6});
    for (uint64_t trunk = 0; trunk < kTrunks; ++trunk) {
      Hashes sequence = {trunk, 2, 3, 4, 5, 6};
      for (; !sequence.empty(); sequence.pop_back())
        mirror.remove(sequence);
    }
  }
  stop = true;
  for (Thread& reader : readers)
    reader.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_EQ(mirror.blocks.usage().blocks, 0u);
}

}  // namespace
}  // namespace rhizome
