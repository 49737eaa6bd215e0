#include <random>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "store/store.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

// A store that is far too small, used at random; the model knows what was ever committed, the oracle what
// the bytes must be.
class Random {
 public:
  Random(uint64_t memory_bytes, const std::vector<uint64_t>& payloads, uint64_t seed)
      : user_(memory_bytes), random_(seed) {
    for (const uint64_t payload : payloads) {
      roots_.push_back(user_.open(keyspace_named(std::to_string(payload)), payload));
    }
  }

  void step() {
    const Root root = roots_[random_() % roots_.size()];
    const std::vector<Token> tokens = prompt();
    const uint64_t action = random_() % 100;
    if (action < 40) {
      put(root, tokens);
    } else if (action < 75) {
      hits_ += user_.get(root, tokens);
    } else if (action < 85 && held_.size() < 4) {
      hold(root, tokens);
    } else if (action < 98 && !held_.empty()) {
      let_go();
    } else if (action == 99) {
      damage(root, tokens);
    }
    check();
  }

  void finish() {
    while (!held_.empty())
      let_go();
    user_.expect_at_rest();
    EXPECT_GT(hits_, 1000u) << "hardly anything was ever found: the test shows little";
    EXPECT_GT(user_.count(Counter::kEvictions), 100u);
    EXPECT_GT(user_.count(Counter::kQuarantines), 0u);
    user_.expect_drains();
    const size_t whole = user_.put(roots_[0], blocks_of({1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(whole, 8u);
  }

 private:
  struct Held {
    Root root;
    std::vector<Token> tokens;
    StoredPrefix prefix;
  };

  std::vector<Token> prompt() {
    std::vector<Token> tokens;
    const size_t blocks = 1 + random_() % 8;
    for (size_t i = 0; i < blocks; ++i) {
      tokens.insert(tokens.end(), 15, 7);
      tokens.push_back(static_cast<Token>(random_() % 4 == 0 ? random_() % 4 : 0));
    }
    return tokens;
  }

  void put(Root root, const std::vector<Token>& tokens) {
    Result<BlockDraft> draft = user_.store->reserve(root, tokens, 0);
    if (!draft) {
      EXPECT_EQ(draft.error().code, Code::kResourceExhausted);
      return;
    }
    user_.fill(*draft, root, tokens);
    if (random_() % 8 == 0) return;
    const size_t end = draft->first_block() + draft->blocks_count();
    for (size_t i = 0; i < end; ++i) {
      committed_.insert({root.value, {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * 16)}});
    }
    EXPECT_EQ(user_.store->commit(std::move(*draft)), end - draft->first_block());
  }

  void hold(Root root, const std::vector<Token>& tokens) {
    Held held{root, tokens, user_.look_up(root, tokens)};
    for (size_t i = 0; i < held.prefix.blocks(); ++i) {
      const auto end = tokens.begin() + static_cast<std::ptrdiff_t>((i + 1) * 16);
      EXPECT_EQ(committed_.count({root.value, {tokens.begin(), end}}), 1u) << "found what was never stored";
    }
    held_.push_back(std::move(held));
  }

  void let_go() {
    std::swap(held_[random_() % held_.size()], held_.back());
    Held& held = held_.back();
    hits_ += user_.read_all(held.root, held.prefix, held.tokens);
    held_.pop_back();
  }

  void damage(Root root, const std::vector<Token>& tokens) {
    const StoredPrefix match = user_.look_up(root, tokens);
    if (match.blocks() > 0) {
      StoreTestAccess::flip(*user_.store, match.locations()[random_() % match.blocks()], random_() % 1500);
    }
  }

  void check() {
    const SlabUsage slab = user_.store->slab_usage();
    const IndexUsage index = user_.store->index_usage();
    ASSERT_LE(slab.used_bytes, slab.budget_bytes);
    ASSERT_EQ(slab.committed_slots, index.blocks + index.removed_blocks);
    ASSERT_EQ(user_.count(Counter::kBlocksStored), slab.committed_slots);
    ASSERT_EQ(user_.count(Counter::kMemoryUsed), slab.used_bytes);
    ASSERT_EQ(slab.reserved_slots, 0u);
  }

  StoreUser user_;
  std::mt19937_64 random_;
  std::vector<Root> roots_;
  std::vector<Held> held_;
  std::set<std::pair<uint32_t, std::vector<Token>>> committed_;
  size_t hits_ = 0;
};

void run(uint64_t memory_bytes, const std::vector<uint64_t>& payloads) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(memory_bytes, payloads, seed);
  for (int i = 0; i < 10000 && !testing::Test::HasFailure(); ++i)
    random.step();
  random.finish();
}

TEST(StoreRandom, TenThousandOperationsUnderPressure) {
  run(256 << 10, {3000});
}

// Two models take turns in a memory that is too small for either.
TEST(StoreRandom, TwoPayloadSizesAlternate) {
  run(512 << 10, {3000, 24577});
}

TEST(StoreRandom, ManyPayloadSizes) {
  run(1 << 20, {1500, 3000, 4096, 24577, 70000});
}

}  // namespace
}  // namespace rhizome
