#include <atomic>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "machine/thread.h"
#include "store/store.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

std::vector<Token> random_prompt(std::mt19937_64& random) {
  std::vector<Token> tokens;
  const size_t blocks = 1 + random() % 6;
  for (size_t i = 0; i < blocks; ++i) {
    tokens.insert(tokens.end(), 15, 7);
    tokens.push_back(static_cast<Token>(random() % 4 == 0 ? random() % 4 : 0));
  }
  return tokens;
}

void hammer(StoreUser& user, const std::vector<Root>& roots, uint64_t seed, std::atomic<uint64_t>& hits) {
  std::mt19937_64 random(seed);
  StoredPrefix match;
  for (int i = 0; i < 1500; ++i) {
    const Root root = roots[random() % roots.size()];
    const std::vector<Token> tokens = random_prompt(random);
    user.store->lookup(root, tokens, match);
    if (random() % 64 == 0 && match.blocks() > 0) {
      // A wrong prompt at the first block: quarantined under the others' feet.
      EXPECT_FALSE(user.store->read(match, blocks_of({1000, 1, 1, 1, 1, 1}), 0));
    } else {
      hits += user.read_all(root, match, tokens);
    }
    match.release();
    Result<BlockDraft> draft = user.store->reserve(root, tokens, 0);
    if (!draft) continue;
    user.fill(*draft, root, tokens);
    if (random() % 8 != 0) user.store->commit(std::move(*draft));
  }
}

TEST(StoreStress, ThreadsInAStoreThatIsTooSmall) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  StoreUser user(256 << 10);
  const std::vector<Root> roots{user.open(keyspace_named("a"), 1500), user.open(keyspace_named("b"), 6000)};
  std::atomic<uint64_t> hits{0};
  {
    std::vector<Thread> threads;
    for (uint64_t i = 0; i < 4; ++i) {
      threads.push_back(std::move(*start_thread("hammer", [&, i] { hammer(user, roots, seed + i, hits); })));
    }
  }
  EXPECT_GT(hits, 500u);
  EXPECT_GT(user.count(Counter::kEvictions), 100u);
  EXPECT_EQ(user.count(Counter::kChecksumFailures), 0u);
  user.expect_at_rest();
  user.expect_drains();
}

// Keyspaces are opened while others are used.
TEST(StoreStress, OneKeyspaceOpenedByManyIsOne) {
  StoreUser user(8 << 20);
  std::vector<std::atomic<uint32_t>> roots(40);
  std::atomic<uint64_t> different{0};
  {
    std::vector<Thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.push_back(std::move(*start_thread("open", [&] {
        for (size_t i = 0; i < roots.size(); ++i) {
          const Result<Root> root = user.store->open(keyspace_named(std::to_string(i)), block_of(1000));
          uint32_t unset = 0;
          if (!root || (!roots[i].compare_exchange_strong(unset, root->value) && unset != root->value)) ++different;
        }
      })));
    }
  }
  EXPECT_EQ(different, 0u);
  EXPECT_EQ(user.store->index_usage().roots, roots.size());
}

}  // namespace
}  // namespace rhizome
