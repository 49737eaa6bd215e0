#include <atomic>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "block/oracle.h"
#include "client/client.h"
#include "machine/random.h"
#include "machine/thread.h"
#include "store/store_fixture.h"

namespace rhizome {
namespace {

struct Shared {
  std::unique_ptr<Counters> counters = Counters::local();
  std::unique_ptr<Client> client;
  Keyspace keyspaces[2] = {keyspace_named("a"), keyspace_named("b")};
  KeyspaceId ids[2];
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> hits{0};
};

// An agent: a system prompt that all have, a conversation of its own that grows turn by turn.
void agent(Shared& shared, uint64_t seed) {
  std::mt19937_64 random(seed);
  Hit hit;
  for (int conversation = 0; conversation < 40; ++conversation) {
    const size_t which = random() % 2;
    const Digest& digest = shared.keyspaces[which].digest();
    std::vector<Token> tokens = blocks_of({1, 2, 3, 4});
    for (int turn = 0; turn < 6; ++turn) {
      tokens.insert(tokens.end(), 16, static_cast<Token>(100 + random() % 12));
      shared.client->lookup(shared.ids[which], tokens, hit);
      const size_t found = hit.blocks_count();
      for (size_t i = 0; i < found; ++i) {
        const auto bytes = shared.client->read(hit, tokens, i);
        shared.wrong += !bytes || !oracle_matches(*bytes, digest, std::span(tokens).first((i + 1) * 16));
      }
      shared.hits += found;
      Result<Draft> draft = shared.client->reserve(shared.ids[which], tokens, static_cast<uint32_t>(found));
      if (!draft) continue;
      for (size_t i = 0; i < draft->blocks_count(); ++i) {
        fill_oracle(draft->payload(i), digest, std::span(tokens).first((draft->first_block() + i + 1) * 16));
      }
      if (random() % 10 != 0) shared.client->commit(std::move(*draft));
    }
    if (random() % 2 == 0) hit.release();
  }
}

TEST(ClientStress, AgentsShareACacheThatIsTooSmall) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Shared shared;
  shared.client = std::move(*make_embedded_client({.memory_bytes = 512 << 10, .block_tokens = 16}, *shared.counters));
  shared.ids[0] = *shared.client->open(shared.keyspaces[0], block_of(3000));
  shared.ids[1] = *shared.client->open(shared.keyspaces[1], block_of(8000));
  {
    std::vector<Thread> threads;
    for (uint64_t i = 0; i < 4; ++i) {
      threads.push_back(std::move(*start_thread("agent", [&, i] { agent(shared, seed + i); })));
    }
  }
  EXPECT_EQ(shared.wrong, 0u);
  EXPECT_GT(shared.hits, 1000u);
  EXPECT_GT(shared.counters->get(Counter::kEvictions), 0u);
  EXPECT_EQ(shared.counters->get(Counter::kMemoryPinned), 0u);
  EXPECT_LE(shared.counters->get(Counter::kMemoryUsed), 512u << 10);
}

}  // namespace
}  // namespace rhizome
