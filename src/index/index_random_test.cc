#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/index.h"
#include "index/reference_model.h"
#include "index/weak_kernels.h"
#include "machine/random.h"

namespace rhizome {
namespace {

struct Setting {
  uint32_t block_tokens;
  bool collide;
  int steps;
  const char* variant = "fastest";  // of kernels
  // So little that the arena is full nearly always, and what is stored lies in chains of runs.
  uint64_t memory_bytes = 1 << 30;
  bool tiny() const { return memory_bytes < 1 << 30; }
};

Kernels kernels_of(const Setting& setting) {
  if (setting.collide) return weak_kernels<0>(setting.block_tokens);
  for (const Kernels& kernels : kernels_for(setting.block_tokens)) {
    if (std::string_view(kernels.name) == setting.variant) return kernels;
  }
  return fastest_kernels(setting.block_tokens);
}

// Drives an index and the model side by side. Prompts come from a tiny vocabulary, so that they share,
// branch and repeat all the time.
class Duel {
 public:
  Duel(const Setting& setting, uint64_t seed)
      : setting_(setting),
        kernels_(kernels_of(setting)),
        index_({.block_tokens = setting.block_tokens,
                .memory_bytes = setting.memory_bytes,
                .recency = Recency::kExact,
                .kernels = &kernels_}),
        model_(setting.block_tokens),
        random_(seed) {
    for (const char name : {'a', 'b'})
      roots_.push_back(*index_.open(std::as_bytes(std::span(&name, 1))));
    if (setting.tiny()) carve_small_places();
    bytes_ = index_.usage().bytes;
  }

  void step() {
    while (held_.size() > (setting_.tiny() ? 3 : 8))
      release();
    const uint64_t action = random_() % 100;
    if (action < 30) {
      lookup();
    } else if (action < 65) {
      insert();
    } else if (action < 80) {
      release();
    } else if (action < 95) {
      evict(random_() % 6);
    } else {
      remove();
    }
    reap();
    if (++steps_ % 16 == 0) check_pins();
    check_usage();
  }

  void drain() {
    while (!held_.empty())
      release();
    reap();
    evict(model_.blocks_count() + 1);
    EXPECT_EQ(model_.blocks_count(), 0u);
    EXPECT_EQ(model_.removed_count(), 0u);
    const IndexUsage usage = index_.usage();
    EXPECT_EQ(usage.blocks + usage.removed_blocks, 0u);
    EXPECT_EQ(usage.runs, usage.roots);
    EXPECT_EQ(index_.pins({}).handles, 0u);
    EXPECT_EQ(index_.pins({}).blocks, 0u);
    if (setting_.tiny()) {
      EXPECT_EQ(usage.bytes, bytes_);
    }
  }

  int chains() const { return chains_; }
  int refused() const { return refused_; }

 private:
  struct Held {
    Handle handle;
    uint64_t model = 0;
    uint32_t root = 0;
    std::vector<Token> tokens;
  };

  // Fills the arena with short runs, so that all places are small from then on.
  void carve_small_places() {
    std::vector<Location> out(1);
    size_t stored = 0;
    for (Token name = 100;; ++name) {
      Handle handle;
      const std::vector<Token> tokens(setting_.block_tokens, name);
      Result<Inserted> inserted = index_.insert(roots_[0], handle, tokens, 0, std::vector<Location>{name}, out);
      if (!inserted) break;
      EXPECT_TRUE(index_.release(std::move(inserted->handle)));
      ++stored;
    }
    out.resize(stored + 1);
    EXPECT_EQ(index_.evict(out), stored);
  }

  std::vector<Token> prompt() {
    std::vector<Token> tokens;
    const size_t blocks = random_() % (setting_.tiny() ? 16 : 7);
    for (size_t i = 0; i < blocks; ++i) {
      const Token variant = random_() % 4 == 0 ? 1 : 0;
      // Variants differ in the last token of a block only.
      tokens.insert(tokens.end(), setting_.block_tokens - 1, 7);
      tokens.push_back(variant);
    }
    if (random_() % 3 == 0) tokens.push_back(7);
    return tokens;
  }

  Held look(uint32_t root, std::vector<Token> tokens) {
    std::vector<Location> out(tokens.size() / setting_.block_tokens);
    const std::vector<Location> expected = model_.find(root, tokens);
    EXPECT_EQ(index_.peek(roots_[root - 1], tokens), expected.size());
    Match match = index_.lookup(roots_[root - 1], tokens, out);
    out.resize(match.blocks);
    EXPECT_EQ(out, expected);
    EXPECT_EQ(match.handle.blocks(), match.blocks);
    Explanation why = index_.explain(roots_[root - 1], tokens, match);
    // Evictions are remembered by fingerprint alone.
    if (setting_.collide && why.reason == Reason::kEvicted) why.reason = Reason::kNeverStored;
    EXPECT_TRUE(model_.reason_is_right(root, tokens, match.blocks, why.reason, why.stopped_at))
        << reason_name(why.reason) << " at " << why.stopped_at;
    const uint64_t held = model_.hold(root, tokens, match.blocks);
    return {std::move(match.handle), held, root, std::move(tokens)};
  }

  void lookup() { held_.push_back(look(1 + static_cast<uint32_t>(random_() % 2), prompt())); }

  void insert() {
    Held held;
    if (!held_.empty() && random_() % 2 == 0) {
      held = take_any();
      // What was looked up, and something behind it.
      const uint32_t depth = held.handle.blocks();
      held.tokens.resize(size_t{depth} * setting_.block_tokens);
      const std::vector<Token> more = prompt();
      held.tokens.insert(held.tokens.end(), more.begin(), more.end());
    } else {
      held = look(1 + static_cast<uint32_t>(random_() % 2), prompt());
    }
    const uint32_t blocks = static_cast<uint32_t>(held.tokens.size() / setting_.block_tokens);
    held.tokens.resize(size_t{blocks} * setting_.block_tokens);
    const uint32_t first = static_cast<uint32_t>(random_() % (blocks + 1));
    std::vector<Location> locations;
    for (uint32_t i = first; i < blocks; ++i)
      locations.push_back(++last_location_);
    std::vector<Location> canonical(locations.size());
    const uint64_t runs_before = index_.usage().runs;
    Result<Inserted> inserted =
        index_.insert(roots_[held.root - 1], held.handle, held.tokens, first, locations, canonical);
    if (locations.empty()) {
      EXPECT_EQ(inserted.error().code, Code::kInvalidArgument);
      held_.push_back(std::move(held));
      return;
    }
    if (setting_.tiny() && !inserted && inserted.error().code == Code::kResourceExhausted) {
      // The handle is as it was, and look-ups find what they found.
      ++refused_;
      const std::vector<Location> stored = model_.find(held.root, held.tokens);
      std::vector<Location> found(blocks);
      Match match = index_.lookup(roots_[held.root - 1], held.tokens, found);
      found.resize(match.blocks);
      EXPECT_EQ(found, stored);
      EXPECT_TRUE(index_.release(std::move(match.handle)));
      held_.push_back(std::move(held));
      return;
    }
    // A cut and a run that is attached make two more.
    chains_ += inserted && index_.usage().runs > runs_before + 2;
    const std::vector<Location> expected = model_.insert(held.root, held.tokens, first, locations);
    if (expected.empty()) {
      ASSERT_FALSE(inserted);
      EXPECT_EQ(inserted.error().code, Code::kFailedPrecondition);
      held_.push_back(std::move(held));
      return;
    }
    ASSERT_TRUE(inserted);
    EXPECT_EQ(canonical, expected);
    for (size_t i = 0; i < locations.size(); ++i) {
      EXPECT_EQ(canonical[i] != locations[i], i < inserted->stored_before);
    }
    EXPECT_EQ(inserted->handle.blocks(), blocks);
    model_.release(held.model);
    held.model = model_.hold(held.root, held.tokens, blocks);
    held.handle = std::move(inserted->handle);
    held_.push_back(std::move(held));
  }

  void release() {
    if (held_.empty()) return;
    Held held = take_any();
    model_.release(held.model);
    EXPECT_TRUE(index_.release(std::move(held.handle)));
  }

  void evict(size_t count) {
    std::vector<Location> out(count);
    const size_t taken = index_.evict(out);
    for (size_t i = 0; i < taken; ++i)
      EXPECT_EQ(model_.evicted(out[i]), "");
    if (taken < count) {
      EXPECT_EQ(model_.nothing_more_to_evict(), "");
    }
  }

  void remove() {
    if (held_.empty()) return;
    const Held& held = held_[random_() % held_.size()];
    if (held.handle.blocks() == 0) return;
    // Without memory for a cut the blocks before go, too; before the first one there are none.
    const uint32_t first = setting_.tiny() ? 0 : static_cast<uint32_t>(random_() % held.handle.blocks());
    EXPECT_EQ(index_.remove(held.handle, first), model_.remove(held.model, first));
  }

  void reap() {
    std::vector<Location> out(2);
    for (size_t count = index_.reap(out); count > 0; count = index_.reap(out)) {
      for (size_t i = 0; i < count; ++i)
        EXPECT_EQ(model_.reaped(out[i]), "");
    }
    if (model_.nothing_held()) {
      EXPECT_EQ(model_.removed_count(), 0u);
    }
  }

  void check_usage() {
    const IndexUsage usage = index_.usage();
    ASSERT_EQ(usage.blocks, model_.blocks_count());
    ASSERT_EQ(usage.removed_blocks, model_.removed_count());
  }

  void check_pins() {
    const IndexUsage usage = index_.usage();
    const auto pinning = std::count_if(held_.begin(), held_.end(), [](const Held& h) { return !h.handle.empty(); });
    ASSERT_EQ(index_.pins({}).handles, static_cast<uint64_t>(pinning));
    const uint64_t all = usage.blocks + usage.removed_blocks;
    for (uint32_t root = 1; root <= 2; ++root) {
      const uint64_t pinned = index_.pins(roots_[root - 1]).blocks;
      ASSERT_GE(pinned, model_.covered_count(root));
      ASSERT_LE(pinned, all);
    }
  }

  Held take_any() {
    std::swap(held_[random_() % held_.size()], held_.back());
    Held held = std::move(held_.back());
    held_.pop_back();
    return held;
  }

  const Setting setting_;
  const Kernels kernels_;
  Index index_;
  ReferenceModel model_;
  std::mt19937_64 random_;
  std::vector<Held> held_;
  std::vector<Root> roots_;
  int steps_ = 0;
  Location last_location_ = 0;
  uint64_t bytes_ = 0;
  int chains_ = 0;
  int refused_ = 0;
};

class IndexRandom : public testing::TestWithParam<Setting> {};

TEST_P(IndexRandom, AgreesWithTheModel) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Duel duel(GetParam(), seed);
  for (int i = 0; i < GetParam().steps && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "step " << i);
    duel.step();
  }
  duel.drain();
  if (!GetParam().tiny()) return;
  EXPECT_GT(duel.chains(), 0);
  EXPECT_GT(duel.refused(), 0);
  RecordProperty("chains", duel.chains());
}

INSTANTIATE_TEST_SUITE_P(All, IndexRandom,
                         testing::Values(Setting{4, false, 60000}, Setting{1, false, 10000}, Setting{16, false, 5000},
                                         Setting{4, true, 5000}, Setting{16, false, 2000, "portable"},
                                         Setting{16, false, 2000, "aesni"}, Setting{16, false, 2000, "vaes256"},
                                         Setting{256, false, 500}, Setting{4, false, 20000, "fastest", 2 << 10},
                                         Setting{16, false, 10000, "fastest", 4 << 10},
                                         Setting{16, false, 10000, "fastest", 8 << 10},
                                         Setting{256, false, 5000, "fastest", 16 << 10},
                                         Setting{256, false, 5000, "fastest", 32 << 10}),
                         [](const auto& tested) {
                           return "block" + std::to_string(tested.param.block_tokens) +
                                  (tested.param.collide ? "_every_fingerprint_collides" : "_") +
                                  (tested.param.collide ? "" : tested.param.variant) +
                                  (tested.param.tiny() ? std::to_string(tested.param.memory_bytes) : "");
                         });

}  // namespace
}  // namespace rhizome
