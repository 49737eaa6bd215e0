// Each contestant beside a plain model, and whether the bench itself notices one that is wrong.
#include "bench/contestants.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/index_append.h"
#include "bench/index_sequences.h"
#include "bench/index_shared.h"
#include "bench/xxh3.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kBlock = 16;
using Path = std::vector<uint32_t>;  // one number for each block

std::vector<Token> tokens_of(const Path& path) {
  std::vector<Token> tokens;
  for (const uint32_t block : path)
    tokens.insert(tokens.end(), kBlock, block);
  return tokens;
}

// One contestant and what it must hold.
template <class C>
class Model {
 public:
  struct Held {
    Path path;
    typename C::Handle handle;
  };

  Model() : index_({10'000, 10'000}) {}
  ~Model() {
    while (!held_.empty())
      release(0);
    EXPECT_EQ(evict(blocks_.size() + 1), blocks_at_end_);
    EXPECT_TRUE(blocks_.empty());
  }

  void look_up_and_store(const Path& path) {
    Held held{path, {}};
    std::vector<Location> found(path.size());
    const uint32_t known = index_.lookup(tokens_of(path), found, held.handle);
    Path prefix;
    std::vector<Location> expected;
    for (const uint32_t block : path) {
      prefix.push_back(block);
      const auto there = blocks_.find(prefix);
      if (there == blocks_.end()) break;
      expected.push_back(there->second);
    }
    found.resize(known);
    ASSERT_EQ(found, expected);
    std::vector<Location> where = expected;
    for (size_t i = known; i < path.size(); ++i) {
      where.push_back(next_++);
      blocks_[Path(path.begin(), path.begin() + static_cast<ptrdiff_t>(i) + 1)] = where.back();
    }
    EXPECT_EQ(index_.insert(tokens_of(path), where, held.handle), path.size() - known);
    held_.push_back(std::move(held));
  }

  void release(size_t at) {
    index_.release(held_[at].handle);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(at));
  }

  // Only what nobody holds and nothing continues may go.
  size_t evict(size_t count) {
    std::vector<Location> out(count);
    const size_t gone = index_.evict(out);
    blocks_at_end_ = blocks_.size();
    for (size_t i = 0; i < gone; ++i) {
      const auto block = std::ranges::find(blocks_, out[i], [](const auto& one) { return one.second; });
      EXPECT_NE(block, blocks_.end()) << "evicted twice";
      if (block == blocks_.end()) return gone;
      const Path path = block->first;
      const auto next = blocks_.upper_bound(path);
      const bool is_continued = next != blocks_.end() && next->first.size() > path.size() &&
                                std::equal(path.begin(), path.end(), next->first.begin());
      EXPECT_FALSE(is_continued);
      for (const Held& held : held_) {
        const bool is_held = held.path.size() >= path.size() && std::equal(path.begin(), path.end(), held.path.begin());
        EXPECT_FALSE(is_held);
      }
      blocks_.erase(block);
    }
    return gone;
  }

  size_t held() const { return held_.size(); }

 private:
  C index_;
  std::map<Path, Location> blocks_;
  std::vector<Held> held_;
  Location next_ = 0;
  size_t blocks_at_end_ = 0;
};

TEST(Contestants, DoWhatAPlainModelDoes) {
  Contestants<kBlock>::for_each([]<class C>() {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(std::string(C::kName) + ", seed " + std::to_string(seed));
      std::mt19937_64 random(seed);
      Model<C> model;
      for (int step = 0; step < 1'000; ++step) {
        Path path(1 + random() % 5);
        for (uint32_t& block : path)
          block = static_cast<uint32_t>(random() % 3);
        model.look_up_and_store(path);
        while (model.held() > random() % 20)
          model.release(random() % model.held());
        model.evict(random() % 4);
      }
    }
  });
}

TEST(Contestants, EvictTheLeastRecentlyUsedFirst) {
  Contestants<kBlock>::for_each([]<class C>() {
    SCOPED_TRACE(C::kName);
    C index({.blocks = 100, .sequences = 100, .recency = Recency::kExact});
    const auto use = [&index](uint32_t number) {
      std::vector<Location> found(1);
      typename C::Handle handle;
      index.lookup(tokens_of({number}), found, handle);
      index.insert(tokens_of({number}), std::vector<Location>{number}, handle);
      index.release(handle);
    };
    for (const uint32_t number : {1U, 2U, 3U, 1U, 4U, 2U})
      use(number);
    std::vector<Location> out(4);
    EXPECT_EQ(index.evict(out), 4U);
    EXPECT_EQ(out, (std::vector<Location>{3, 1, 4, 2}));
  });
}

constexpr SharedShape kSmall{.prefix_tokens = 256, .suffix_tokens = 64, .agents = 100, .operations = 300, .ring = 8};

TEST(Contestants, AreRightWithTwoThreads) {
  const TokenSource source(1);
  Contestants<kBlock>::for_each([&]<class C>() {
    SCOPED_TRACE(C::kName);
    SharedSeatOf<C> shared(kSmall, source);
    for (const SharedLookup kind : {SharedLookup::kFullHit, SharedLookup::kPrefixHit, SharedLookup::kPrefix})
      ASSERT_TRUE(shared.look_up(kind, 2, 0));
    for (int round = 0; round < 3; ++round)
      ASSERT_TRUE(shared.cycle(2));
    EXPECT_EQ(shared.ledger().wrong(), 0U);
    EXPECT_GT(shared.ledger().blocks_checked(), 3U * 2 * 300 * 16);

    SequencesSeatOf<C> sequences({.blocks_each = 2, .sequences = 500, .operations = 500}, source);
    ASSERT_TRUE(sequences.look_up(true, 2, 0));
    ASSERT_TRUE(sequences.look_up(false, 2, 0));
    ASSERT_TRUE(sequences.turn_over(2));
    EXPECT_EQ(sequences.ledger().wrong(), 0U);

    AppendSeatOf<C> append({.sessions = 50, .blocks_at_first = 4, .blocks_at_most = 6}, source);
    ASSERT_TRUE(append.append(1));
    ASSERT_TRUE(append.append(2));
    ASSERT_TRUE(append.look_up(2));
    EXPECT_EQ(append.ledger().wrong(), 0U);
  });
}

// A contestant that is wrong now and then.
class Forgetful : public LockTree<kBlock> {
 public:
  using LockTree::LockTree;
  uint32_t lookup(std::span<const Token> tokens, std::span<Location> out, Handle& handle) {
    const uint32_t blocks = LockTree::lookup(tokens, out, handle);
    if (++calls_ % 100 == 0 && blocks > 0) out[blocks / 2] ^= 1;
    return blocks;
  }

 private:
  std::atomic<uint32_t> calls_ = 0;
};

// One that gives a location back twice.
class Generous : public LockTree<kBlock> {
 public:
  using LockTree::LockTree;
  size_t evict(std::span<Location> out) {
    const size_t gone = LockTree::evict(out);
    if (gone > 1 && ++calls_ % 100 == 0) out[0] = out[1];
    return gone;
  }

 private:
  std::atomic<uint32_t> calls_ = 0;
};

TEST(Ledger, FindsAContestantThatIsWrong) {
  const TokenSource source(1);
  SharedSeatOf<Forgetful> forgetful(kSmall, source);
  ASSERT_TRUE(forgetful.look_up(SharedLookup::kFullHit, 1, 0));
  EXPECT_GE(forgetful.ledger().wrong(), 3U);
  SharedSeatOf<Generous> generous(kSmall, source);
  ASSERT_TRUE(generous.cycle(1));
  EXPECT_GE(generous.ledger().wrong(), 3U);
}

TEST(Xxh3, EveryKernelGivesTheSameNumber) {
  std::vector<uint8_t> bytes(2'000);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(i * 31);
  for (const size_t size : {1U, 64U, 80U, 240U, 241U, 272U, 1024U, 1040U, 2000U}) {
    EXPECT_EQ(xxh3_64(bytes.data(), size), XXH3_64bits(bytes.data(), size)) << size;
    EXPECT_EQ(xxh3_128(bytes.data(), size).low64, XXH3_128bits(bytes.data(), size).low64) << size;
    EXPECT_EQ(xxh3_128(bytes.data(), size).high64, XXH3_128bits(bytes.data(), size).high64) << size;
  }
}

}  // namespace
}  // namespace rhizome::bench
