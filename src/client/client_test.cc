#include "client/client.h"

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "block/oracle.h"
#include "client/stopped.h"
#include "machine/clock.h"
#include "store/store_fixture.h"
#include "telemetry/log.h"
#include "tier/memory_tier.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPayload = 3000;

class ClientTest : public testing::Test {
 protected:
  explicit ClientTest(uint64_t memory_bytes = kMiB)
      : counters_(Counters::local()),
        client_(std::move(*make_embedded_client({.memory_bytes = memory_bytes, .block_tokens = 16}, *counters_))),
        keyspace_(keyspace_named("a")),
        id_(*client_->open(keyspace_, block_of(kPayload))) {}

  void fill(const Draft& draft, std::span<const Token> tokens) {
    for (size_t i = 0; i < draft.blocks_count(); ++i) {
      fill_oracle(draft.payload(i), keyspace_.digest(), tokens.first((draft.first_block() + i + 1) * 16));
    }
  }

  size_t put(std::span<const Token> tokens, uint32_t first = 0) {
    Result<Draft> draft = client_->reserve(id_, tokens, first);
    if (!draft) return 0;
    fill(*draft, tokens);
    return client_->commit(std::move(*draft));
  }

  size_t get(std::span<const Token> prompt) {
    client_->lookup(id_, prompt, hit_);
    const size_t blocks = hit_.blocks_count();
    for (size_t i = 0; i < blocks; ++i) {
      const auto bytes = client_->read(hit_, prompt, i);
      EXPECT_TRUE(bytes && oracle_matches(*bytes, keyspace_.digest(), prompt.first((i + 1) * 16)));
    }
    return blocks;
  }

  uint64_t count(Counter counter) const { return counters_->get(counter); }

  const std::unique_ptr<Counters> counters_;
  const std::unique_ptr<Client> client_;
  const Keyspace keyspace_;
  const KeyspaceId id_;
  Hit hit_;
};

class SmallClientTest : public ClientTest {
 protected:
  SmallClientTest() : ClientTest(200 << 10) {}
};

TEST_F(ClientTest, WhatIsCommittedIsReadBack) {
  const auto tokens = blocks_of({1, 2, 3});
  EXPECT_EQ(get(tokens), 0u);
  EXPECT_EQ(hit_.reason(), Reason::kNeverStored);
  EXPECT_EQ(put(tokens), 3u);
  EXPECT_EQ(get(tokens), 3u);
  EXPECT_EQ(hit_.reason(), Reason::kFull);
  EXPECT_EQ(client_->peek(id_, tokens), 48u);
  EXPECT_EQ(client_->block_tokens(), 16u);
}

TEST_F(ClientTest, OptionsThatMakeNoSense) {
  EXPECT_EQ(make_embedded_client({.memory_bytes = kMiB, .block_tokens = 20}, *counters_).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(make_embedded_client({.memory_bytes = 0}, *counters_).error().code, Code::kInvalidArgument);
}

TEST_F(ClientTest, KeyspacesHaveOneId) {
  EXPECT_EQ(*client_->open(keyspace_, block_of(kPayload)), id_);
  EXPECT_NE(*client_->open(keyspace_named("b"), block_of(kPayload)), id_);
  EXPECT_EQ(client_->open(keyspace_, block_of(kPayload + 1)).error().code, Code::kInvalidArgument);
}

TEST_F(ClientTest, ReasonsOfAHit) {
  put(blocks_of({1, 2, 3}));
  auto longer = blocks_of({1, 2, 3});
  longer.push_back(7);
  EXPECT_EQ(get(longer), 3u);
  EXPECT_EQ(hit_.reason(), Reason::kPartialBlock);
  EXPECT_EQ(get(blocks_of({1, 2, 3, 4})), 3u);
  EXPECT_EQ(hit_.reason(), Reason::kNeverStored);
  EXPECT_EQ(get(blocks_of({1, 9, 3})), 1u);
  EXPECT_EQ(hit_.reason(), Reason::kDiverged);
  EXPECT_EQ(get(blocks_of({1})), 1u);
  EXPECT_EQ(hit_.reason(), Reason::kFull);
  client_->lookup(KeyspaceId{77}, blocks_of({1}), hit_);
  EXPECT_EQ(hit_.blocks_count(), 0u);
  EXPECT_EQ(hit_.reason(), Reason::kNotCacheable);
}

TEST_F(ClientTest, AHitPinsUntilItIsReleasedMovedOverOrUsedAgain) {
  const auto tokens = blocks_of({1, 2});
  put(tokens);
  const uint64_t pinned = 2 * (kPayload + 192);
  {
    auto first = std::make_unique<Hit>();
    client_->lookup(id_, tokens, *first);
    EXPECT_EQ(count(Counter::kMemoryPinned), pinned);
    Hit second(std::move(*first));
    EXPECT_EQ(second.blocks_count(), 2u);
    first.reset();  // its end, too, leaves alone what moved away
    EXPECT_EQ(count(Counter::kMemoryPinned), pinned);
    Hit third;
    client_->lookup(id_, tokens, third);
    third = std::move(second);
    EXPECT_TRUE(client_->read(third, tokens, 1));
    EXPECT_EQ(count(Counter::kMemoryPinned), pinned);
    third.release();
    third.release();
    EXPECT_EQ(count(Counter::kMemoryPinned), 0u);
    EXPECT_EQ(third.blocks_count(), 0u);
    client_->lookup(id_, tokens, third);
    client_->lookup(id_, blocks_of({5}), third);
    EXPECT_EQ(count(Counter::kMemoryPinned), 0u);
    client_->lookup(id_, tokens, third);
  }
  EXPECT_EQ(count(Counter::kMemoryPinned), 0u);
}

TEST_F(ClientTest, BlocksMayBeReadInAnyOrder) {
  const auto tokens = blocks_of({1, 2, 3, 4});
  put(tokens);
  client_->lookup(id_, tokens, hit_);
  for (const size_t i : {3u, 0u, 2u, 2u, 1u, 3u, 0u}) {
    const auto bytes = client_->read(hit_, tokens, i);
    EXPECT_TRUE(bytes && oracle_matches(*bytes, keyspace_.digest(), std::span(tokens).first((i + 1) * 16)));
  }
  EXPECT_EQ(client_->read(hit_, tokens, 4).error().code, Code::kOutOfRange);
  EXPECT_EQ(client_->read(hit_, std::span(tokens).first(40), 2).error().code, Code::kOutOfRange);
  Hit none;
  EXPECT_EQ(client_->read(none, tokens, 0).error().code, Code::kOutOfRange);
  EXPECT_EQ(count(Counter::kIdentityMismatches), 0u);
}

// A bit that changes in memory, behind the cache's back.
TEST(ClientVerify, FindsWhatChangesInMemoryWhenItWasAskedTo) {
  set_log_level(LogLevel::kSilent);
  const auto lookups_until_found = [](VerifyPolicy verify) {
    const auto counters = Counters::local();
    const auto client = std::move(*make_embedded_client({.memory_bytes = kMiB, .verify = verify}, *counters));
    const KeyspaceId id = *client->open(keyspace_named("a"), block_of(kPayload));
    const auto tokens = blocks_of({1});
    Draft draft = std::move(*client->reserve(id, tokens, 0));
    fill_oracle(draft.payload(0), keyspace_named("a").digest(), tokens);
    EXPECT_EQ(client->commit(std::move(draft)), 1u);
    Hit hit;
    client->lookup(id, tokens, hit);
    const auto bytes = client->read(hit, tokens, 0);
    EXPECT_TRUE(bytes);
    const_cast<std::byte&>(bytes.value_or(std::span<const std::byte>())[100]) ^= std::byte{1};
    for (uint32_t lookups = 1; lookups <= 2 * ReadSampler::kLookupsPerSample; ++lookups) {
      client->lookup(id, tokens, hit);
      const auto again = client->read(hit, tokens, 0);
      if (!again) {
        EXPECT_EQ(again.error().code, Code::kDataLoss);
        return lookups;
      }
    }
    return UINT32_MAX;
  };
  EXPECT_EQ(lookups_until_found(VerifyPolicy::kAlways), 1u);
  EXPECT_EQ(lookups_until_found(VerifyPolicy::kSample), ReadSampler::kLookupsPerSample);
  EXPECT_EQ(lookups_until_found(VerifyPolicy::kTier), UINT32_MAX);
  set_log_level(LogLevel::kWarning);
}

TEST_F(ClientTest, AHitEndsBeforeABlockThatDoesNotVerify) {
  const auto tokens = blocks_of({1, 2, 3});
  const auto other = blocks_of({1, 8, 3});
  put(tokens);
  client_->lookup(id_, tokens, hit_);
  EXPECT_TRUE(client_->read(hit_, tokens, 2));
  EXPECT_EQ(client_->read(hit_, other, 1).error().code, Code::kDataLoss);
  EXPECT_EQ(hit_.blocks_count(), 1u);
  EXPECT_EQ(hit_.reason(), Reason::kCorrupt);
  EXPECT_TRUE(client_->read(hit_, tokens, 0));
  EXPECT_EQ(client_->peek(id_, tokens), 16u);
  hit_.release();
  EXPECT_EQ(put(tokens), 2u);
  EXPECT_EQ(get(tokens), 3u);
}

// W13
TEST_F(ClientTest, DraftsLeaveNothingUnlessCommitted) {
  const auto tokens = blocks_of({1, 2, 3});
  {
    const Result<Draft> draft = client_->reserve(id_, tokens, 0);
    ASSERT_TRUE(draft);
    EXPECT_EQ(draft->blocks_count(), 3u);
    EXPECT_EQ(draft->payload(2).size(), kPayload);
    EXPECT_EQ(client_->peek(id_, tokens), 0u);
  }
  EXPECT_EQ(client_->peek(id_, tokens), 0u);
  Result<Draft> draft = client_->reserve(id_, tokens, 0);
  ASSERT_TRUE(draft);
  Draft moved(std::move(*draft));
  EXPECT_EQ(draft->blocks_count(), 0u);
  EXPECT_EQ(client_->commit(std::move(*draft)), 0u);
  fill(moved, tokens);
  EXPECT_EQ(client_->commit(std::move(moved)), 3u);
  EXPECT_EQ(get(tokens), 3u);
  draft = client_->reserve(id_, blocks_of({6}), 0);
  draft->abort();
  EXPECT_EQ(client_->commit(std::move(*draft)), 0u);
  EXPECT_EQ(count(Counter::kBlocksStored), 3u);
}

TEST_F(ClientTest, ReserveSaysWhatItCannotDo) {
  const auto tokens = blocks_of({1, 2});
  EXPECT_EQ(client_->reserve(KeyspaceId{}, tokens, 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(client_->reserve(id_, std::span(tokens).first(20), 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(client_->reserve(id_, tokens, 1).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(put(tokens), 2u);
  const Result<Draft> nothing = client_->reserve(id_, tokens, 0);
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->blocks_count(), 0u);
  EXPECT_EQ(nothing->first_block(), 2u);
  // A draft with nothing to write pins nothing either.
  EXPECT_EQ(count(Counter::kMemoryPinned), 0u);
}

// R7 as an engine meets it.
TEST_F(ClientTest, WhoComesSecondIsToldAndHisBlocksAreDropped) {
  const auto tokens = blocks_of({1, 2});
  Result<Draft> first = client_->reserve(id_, tokens, 0);
  Result<Draft> second = client_->reserve(id_, tokens, 0);
  ASSERT_TRUE(first && second);
  fill(*first, tokens);
  fill(*second, tokens);
  EXPECT_EQ(client_->commit(std::move(*second)), 2u);
  EXPECT_EQ(client_->commit(std::move(*first)), 0u);
  EXPECT_EQ(count(Counter::kBlocksStored), 2u);
  EXPECT_EQ(get(tokens), 2u);
}

// Blocks that vanish while they are wanted: only ever a shorter hit.
TEST_F(SmallClientTest, BlocksVanishWhileTheyAreWanted) {
  size_t found = 0;
  for (Token agent = 0; agent < 300; ++agent) {
    auto tokens = blocks_of({1, 2, 3});
    const auto own = blocks_of({agent % 100 + 100, agent % 100 + 200});
    tokens.insert(tokens.end(), own.begin(), own.end());
    const size_t held = get(tokens);
    found += held;
    Result<Draft> draft = client_->reserve(id_, tokens, static_cast<uint32_t>(held));
    ASSERT_TRUE(draft);
    fill(*draft, tokens);
    client_->commit(std::move(*draft));
    hit_.release();
  }
  EXPECT_GT(found, 3u * 290) << "the part that all share should survive";
  EXPECT_GT(count(Counter::kEvictions), 20u);
  EXPECT_LE(count(Counter::kMemoryUsed), count(Counter::kMemoryCapacity));
}

TEST_F(SmallClientTest, WhenAllIsPinnedThereIsNoRoom) {
  std::vector<Hit> hits;
  for (Token i = 0; i < 200; ++i) {
    if (put(blocks_of({i})) == 0) break;
    hits.emplace_back();
    client_->lookup(id_, blocks_of({i}), hits.back());
  }
  EXPECT_LT(hits.size(), 100u);
  EXPECT_EQ(client_->reserve(id_, blocks_of({1000}), 0).error().code, Code::kResourceExhausted);
  for (size_t i = 0; i < hits.size(); ++i) {
    EXPECT_TRUE(client_->read(hits[i], blocks_of({static_cast<Token>(i)}), 0));
  }
  hits.clear();
  EXPECT_EQ(put(blocks_of({1000})), 1u);
}

TEST(Stopped, EachReasonHasItsOwnCounter) {
  for (int i = 0; i < kReasonsCount; ++i) {
    const auto reason = static_cast<Reason>(i);
    const std::string labels(counter_info(stopped_counter(reason)).labels);
    EXPECT_EQ(labels, "reason=\"" + std::string(reason_name(reason)) + "\"");
  }
}

// An engine asks where computing and loading would meet, and has the rest loaded.
TEST(ClientPlan, OffersWhereTheTwoMeet) {
  ManualClock clock(1000000000);
  const auto counters = Counters::local();
  EmbeddedOptions options{.memory_bytes = 4 << 20, .tiering = {.background = false, .clock = &clock}};
  options.tier = std::make_unique<MemoryTier>(MemoryTierOptions{.clock = &clock});
  const auto client = std::move(*make_embedded_client(std::move(options), *counters));
  const Keyspace keyspace = keyspace_named("a");
  const KeyspaceId id = *client->open(keyspace, block_of(kPayload));
  const std::vector<Token> tokens = blocks_of({1, 2, 3, 4});
  Hit hit;
  EXPECT_EQ(client->plan(hit, tokens, 0, 4).end, 0u) << "nothing was looked up";
  Result<Draft> draft = client->reserve(id, tokens, 0);
  ASSERT_TRUE(draft);
  client->commit(std::move(*draft));
  client->lookup(id, tokens, hit);
  const LoadSplit in_memory = client->plan(hit, tokens, 0, 100);
  EXPECT_EQ(in_memory.load_from, 4u);
  EXPECT_EQ(in_memory.load_tokens + in_memory.compute_tokens, 0u);
  EXPECT_EQ(client->load(hit, tokens, 2, 4), 4u);
  EXPECT_TRUE(client->read(hit, tokens, 3));
}

}  // namespace
}  // namespace rhizome
