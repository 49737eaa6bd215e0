#include "bench/eviction_orders.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/reference_orders.h"
#include "bench/replay_orders.h"
#include "bench/trace_fixture.h"

namespace rhizome::bench {
namespace {

using Make = std::unique_ptr<EvictionOrder> (*)(uint32_t, uint32_t);

// Whether each request of one block was a hit, as a string of digits.
std::string hits_of(Make make, uint32_t capacity, const std::string& letters) {
  std::vector<std::vector<uint32_t>> requests;
  for (const char letter : letters)
    requests.push_back({static_cast<uint32_t>(letter)});
  std::string hits;
  for (size_t i = 1; i <= requests.size(); ++i) {
    const auto blocks_hit = [&](size_t count) -> uint64_t {
      if (count == 0) return 0;
      const Trace trace = trace_of({requests.begin(), requests.begin() + static_cast<ptrdiff_t>(count)});
      return replay_leaves(trace, capacity, *make(trace.distinct(), capacity)).blocks;
    };
    hits += std::to_string(blocks_hit(i) - blocks_hit(i - 1));
  }
  return hits;
}

// Each of these was worked out by hand.
TEST(Fifo, DoesNotCareForUses) {
  // a b | a hit | c: a out | a: b out | b: c out
  EXPECT_EQ(hits_of(make_fifo, 2, "abacab"), "001000");
  EXPECT_EQ(hits_of(make_fifo, 3, "abcaadbd"), "00011011");
}

TEST(Lru, KeepsWhatWasUsed) {
  // a b | a hit | c: b out | a hit | b: c out
  EXPECT_EQ(hits_of(make_lru, 2, "abacab"), "001010");
  EXPECT_EQ(hits_of(make_lru, 3, "abcadb"), "000100");
}

TEST(Sieve, TheHandPassesWhatWasVisited) {
  // a b c, a visited | d: passes a, b out, the hand at c | a hit | e: c out, the hand at d | a hit, c: d out
  EXPECT_EQ(hits_of(make_sieve, 3, "abcadaeac"), "000101010");
  // New blocks come in behind the hand's back: a b, both visited | c: a out, the hand at b | b hit | d: passes b, c out
  EXPECT_EQ(hits_of(make_sieve, 2,
                    "abab"
                    "cbdb"),
            "00110101");
}

TEST(S3Fifo, PromotesWhatWasUsedTwiceAndRemembersGhosts) {
  // The small queue may hold one. a (used twice) b c | d: a goes to main, b out, a ghost | a hit | b: a ghost comes to
  // main, c out | e: the small queue holds d alone, main a b: a was used, b out
  EXPECT_EQ(hits_of(make_s3fifo, 3, "aaabcdab"), "01100010");
  EXPECT_EQ(hits_of(make_s3fifo, 3, "aaabcdabea"), "0110001001");
  EXPECT_EQ(hits_of(make_s3fifo, 3, "aaabcdabed"), "0110001001");
  // Once is not enough: a b c, a used once | d: a out
  EXPECT_EQ(hits_of(make_s3fifo, 3, "aabcda"), "010000");
}

TEST(Arc, LearnsFromGhosts) {
  // a (twice: often) b | c: once {b} is longer than wanted (0), b out, a ghost | a hit | b: a ghost, wanted 1; room was
  // made before: once {c} is longer than 0, c out, a ghost | a hit | c: once is empty: often's b out
  EXPECT_EQ(hits_of(make_arc, 2, "aabcabac"), "01001010");
  EXPECT_EQ(hits_of(make_arc, 2, "aabcabaca"), "010010101");
  EXPECT_EQ(hits_of(make_arc, 2, "aabcabacb"), "010010100");
}

TEST(Leaves, LeaveBeforeWhatTheyContinue) {
  for (const Make make : {make_fifo, make_lru, make_s3fifo, make_sieve, make_arc}) {
    // Only 3, the tail of the first path, may make room for 9.
    const Trace trace = trace_of({{1, 2, 3}, {9}, {1, 2, 3}});
    EXPECT_EQ(replay_leaves(trace, 3, *make(trace.distinct(), 3)).blocks, 2U);
  }
}

TEST(Leaves, ARequestLongerThanTheCacheKeepsItsBeginning) {
  for (const Make make : {make_fifo, make_lru, make_s3fifo, make_sieve, make_arc}) {
    const Trace trace = trace_of({{7}, {1, 2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3}});
    EXPECT_EQ(replay_leaves(trace, 2, *make(trace.distinct(), 2)).blocks, 4U);
  }
}

TEST(Hits, TheLastBlockOfARequestMayBeAPartOfOne) {
  std::string wrong;
  const std::string line = R"({"input_length": 700, "hash_ids": [1, 2]})";
  const Result<Trace> trace = parse_trace(line + "\n" + line, wrong);
  ASSERT_TRUE(trace) << wrong;
  EXPECT_EQ(replay_plain_lru(*trace, 10), (Hits{.blocks = 2, .tokens = 700}));
  EXPECT_EQ(replay_plain_lru(*trace, 1), (Hits{}));
  EXPECT_EQ(replay_clairvoyant(*trace, 1), (Hits{.blocks = 1, .tokens = 512}));
}

// LRU of a tree, said plainly: each block has the time of its last use.
uint64_t naive_lru(const Trace& trace, size_t capacity) {
  std::map<uint32_t, uint64_t> used;
  uint64_t hits = 0;
  uint64_t now = 0;
  for (const Request& request : trace.requests) {
    size_t hit = 0;
    while (hit < request.blocks.size() && used.contains(request.blocks[hit]))
      ++hit;
    hits += hit;
    const std::set<uint32_t> pinned(request.blocks.begin(), request.blocks.end());
    size_t wanted = request.blocks.size() - hit;
    while (used.size() + wanted > capacity) {
      std::optional<uint32_t> oldest;
      for (const auto& [block, time] : used) {
        const bool inner =
            std::ranges::any_of(used, [&](const auto& other) { return trace.parent[other.first] == block; });
        if (!inner && !pinned.contains(block) && (!oldest || time < used[*oldest])) oldest = block;
      }
      if (!oldest) break;
      used.erase(*oldest);
    }
    wanted = std::min(wanted, capacity - used.size());
    for (size_t i = hit + wanted; i-- > 0;)
      used[request.blocks[i]] = ++now;
  }
  return hits;
}

TEST(Lru, IsThatOfAPlainModel) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Trace trace = random_trace(seed, 200);
    for (const uint32_t capacity : {1U, 2U, 5U, 11U, 40U}) {
      EXPECT_EQ(replay_leaves(trace, capacity, *make_lru(trace.distinct(), capacity)).blocks,
                naive_lru(trace, capacity))
          << "seed " << seed << ", capacity " << capacity;
    }
  }
}

// The most hits that any choice of what to keep makes from request `from` on, by trying them all.
uint64_t best_hits(const Trace& trace, size_t from, const std::set<uint32_t>& resident, size_t capacity,
                   std::map<std::pair<size_t, std::set<uint32_t>>, uint64_t>& known) {
  if (from == trace.requests.size()) return 0;
  const auto found = known.find({from, resident});
  if (found != known.end()) return found->second;
  const Request& request = trace.requests[from];
  size_t hit = 0;
  while (hit < request.blocks.size() && resident.contains(request.blocks[hit]))
    ++hit;
  std::vector<uint32_t> all(resident.begin(), resident.end());
  for (const uint32_t block : request.blocks) {
    if (!resident.contains(block)) all.push_back(block);
  }
  uint64_t best = 0;
  for (uint32_t chosen = 0; chosen < (1U << all.size()); ++chosen) {
    if (static_cast<size_t>(std::popcount(chosen)) > capacity) continue;
    std::set<uint32_t> kept;
    for (size_t i = 0; i < all.size(); ++i) {
      if ((chosen >> i & 1) != 0) kept.insert(all[i]);
    }
    best = std::max(best, best_hits(trace, from + 1, kept, capacity, known));
  }
  return known[{from, resident}] = hit + best;
}

TEST(Min, NoChoiceOfWhatToKeepDoesBetter) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const Trace trace = random_trace(seed, 8);
    for (const uint32_t capacity : {1U, 2U, 3U}) {
      std::map<std::pair<size_t, std::set<uint32_t>>, uint64_t> known;
      EXPECT_EQ(replay_clairvoyant(trace, capacity).blocks, best_hits(trace, 0, {}, capacity, known))
          << "seed " << seed << ", capacity " << capacity;
    }
  }
}

TEST(Orders, NoneIsBetterThanMinAndAllAreTheSameWithRoomForAll) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Trace trace = random_trace(seed, 300);
    const uint64_t infinite = replay_clairvoyant(trace, trace.distinct()).blocks;
    for (const ReplayOrder& order : replay_orders()) {
      for (const uint32_t capacity : {1U, 3U, 10U, 30U, 60U}) {
        const Result<Hits> hits = order.replay(trace, capacity);
        ASSERT_TRUE(hits) << order.name << ": " << hits.error().reason;
        EXPECT_LE(hits->blocks, replay_clairvoyant(trace, capacity).blocks)
            << order.name << ", seed " << seed << ", capacity " << capacity;
      }
      EXPECT_EQ(order.replay(trace, trace.distinct())->blocks, infinite) << order.name << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace rhizome::bench
