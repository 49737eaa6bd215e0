// remove_if(): blocks whose location is gone, anywhere in the tree, with all that continues them and nothing else.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "index/index.h"
#include "machine/random.h"

namespace rhizome {
namespace {

using Path = std::vector<Token>;  // one number a block

constexpr uint32_t kBlockTokens = 16;

std::vector<Token> tokens_of(const Path& path) {
  std::vector<Token> tokens;
  for (const Token name : path)
    tokens.insert(tokens.end(), kBlockTokens, name);
  return tokens;
}

class RemoveIf : public testing::Test {
 protected:
  RemoveIf() : root_(*index_.open(std::as_bytes(std::span("keyspace")))) {}

  // Stores what is missing of the path.
  void store(const Path& path) {
    uint32_t first = 0;
    while (first < path.size() && places_.contains(Path(path.begin(), path.begin() + first + 1)))
      ++first;
    if (first == path.size()) return;
    std::vector<Location> locations;
    for (size_t end = first + 1; end <= path.size(); ++end) {
      locations.push_back(next_);
      places_[Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(end))] = next_++;
    }
    std::vector<Location> canonical(locations.size());
    Handle handle;
    Result<Inserted> inserted = index_.insert(root_, handle, tokens_of(path), first, locations, canonical);
    ASSERT_TRUE(inserted);
    EXPECT_EQ(inserted->stored_before, 0u);
    EXPECT_TRUE(index_.release(std::move(inserted->handle)));
  }

  // Takes the places out and says how many blocks must have gone with them.
  size_t expect_gone(const std::set<Location>& gone) {
    std::set<Location> expected;
    for (const auto& [path, place] : places_) {
      for (size_t end = 1; end <= path.size(); ++end) {
        if (gone.contains(places_.at(Path(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(end)))))
          expected.insert(place);
      }
    }
    EXPECT_EQ(index_.remove_if([&](Location at) { return gone.contains(at); }), expected.size());
    std::set<Location> reaped;
    Location out[8];
    while (const size_t count = index_.reap(out))
      reaped.insert(out, out + count);
    EXPECT_EQ(reaped, expected);
    std::erase_if(places_, [&](const auto& entry) { return expected.contains(entry.second); });
    return expected.size();
  }

  void expect_all_found() {
    for (const auto& [path, place] : places_) {
      std::vector<Location> found(path.size());
      Match match = index_.lookup(root_, tokens_of(path), found);
      ASSERT_EQ(match.blocks, path.size());
      ASSERT_EQ(found.back(), place);
      EXPECT_TRUE(index_.release(std::move(match.handle)));
    }
    EXPECT_EQ(index_.usage().blocks, places_.size());
  }

  Index index_{{.block_tokens = kBlockTokens}};
  const Root root_;
  std::map<Path, Location> places_;
  Location next_ = 1;
};

TEST_F(RemoveIf, NothingIsGone) {
  store({1, 2, 3});
  EXPECT_EQ(expect_gone({}), 0u);
  EXPECT_EQ(expect_gone({1000}), 0u);
  expect_all_found();
}

TEST_F(RemoveIf, ABlockInTheMiddleAndABranchBelowIt) {
  store({1, 2, 3, 4});
  store({1, 2, 9});
  store({1, 8});
  EXPECT_EQ(expect_gone({places_.at({1, 2})}), 4u);
  EXPECT_EQ(index_.peek(root_, tokens_of({1, 2, 3, 4})), 1u);
  expect_all_found();
}

TEST_F(RemoveIf, TwoInOnePathAndOneElsewhere) {
  store({1, 2, 3, 4, 5});
  store({7, 8, 9});
  EXPECT_EQ(expect_gone({places_.at({1, 2, 3}), places_.at({1, 2, 3, 4, 5}), places_.at({7, 8, 9})}), 4u);
  expect_all_found();
}

TEST_F(RemoveIf, WhatIsPinnedGoesWithItsPin) {
  store({1, 2, 3});
  std::vector<Location> found(3);
  Match match = index_.lookup(root_, tokens_of({1, 2, 3}), found);
  const Location middle = places_.at({1, 2});
  EXPECT_EQ(index_.remove_if([&](Location at) { return at == middle; }), 2u);
  Location out[8];
  EXPECT_EQ(index_.reap(out), 0u);
  EXPECT_EQ(index_.peek(root_, tokens_of({1, 2, 3})), 1u);
  EXPECT_TRUE(index_.release(std::move(match.handle)));
  EXPECT_EQ(index_.reap(out), 2u);
}

TEST_F(RemoveIf, RandomTreesAgreeWithAPlainList) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  size_t removed = 0;
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 20; ++i) {
      Path path(1 + random() % 7);
      std::ranges::generate(path, [&] { return static_cast<Token>(random() % 3); });
      store(path);
    }
    std::set<Location> gone;
    for (const auto& [path, place] : places_) {
      if (random() % 20 == 0) gone.insert(place);
    }
    removed += expect_gone(gone);
    expect_all_found();
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(removed, 500u);
}

}  // namespace
}  // namespace rhizome
