// Clients of a node that is in this process, too: what they share is mapped twice.
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "block/oracle.h"
#include "client/attached_user_fixture.h"
#include "client/open_disk.h"
#include "machine/clock.h"
#include "machine/random.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "node/node.h"
#include "telemetry/log.h"
#include "tier/fault_tier.h"
#include "tier/memory_tier.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class AttachedTest : public testing::Test {
 protected:
  NodeOptions options(uint64_t memory_bytes = 8 * kMiB) const {
    return {.socket_path = folder_.path("run/node.sock"), .memory_bytes = memory_bytes};
  }
  std::unique_ptr<Node> start(NodeOptions chosen) {
    Result<std::unique_ptr<Node>> node = Node::start(std::move(chosen), *counters_);
    EXPECT_TRUE(node) << (node ? "" : node.error().reason);
    return std::move(*node);
  }
  std::string socket() const { return folder_.path("run/node.sock"); }
  // A node whose memory takes some of what is stored, and the tier all of it.
  NodeOptions small_over(std::unique_ptr<Tier> tier) const {
    NodeOptions chosen = options(4 * kMiB);
    chosen.tier = std::move(tier);
    chosen.tiering.admission.unused_wait_ns = 0;
    return chosen;
  }
  static std::unique_ptr<MemoryTier> large_tier() {
    return std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 64 * kMiB});
  }
  // Stores the prompt, and then what needs its place in memory.
  static void put_below(Node& node, AttachedUser& user, std::span<const Token> prompt) {
    EXPECT_EQ(user.put(prompt), prompt.size() / 16);
    for (Token i = 1; i < 12; ++i) {
      node.store().flush(monotonic_now_ns() + 10'000'000'000);
      user.put(chain(i * 1000, 40));
    }
    node.store().flush(monotonic_now_ns() + 10'000'000'000);
    EXPECT_GT(node.store().block_counts().below, 0u);
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
};

TEST_F(AttachedTest, WhatOneStoresTheOtherReads) {
  const auto node = start(options());
  AttachedUser one(socket());
  AttachedUser other(socket());
  EXPECT_EQ(node->clients_count(), 2u);
  const auto prompt = blocks_of({1, 2, 3, 4});
  EXPECT_EQ(other.get(prompt), 0u);
  EXPECT_EQ(other.hit.reason(), Reason::kNeverStored);
  EXPECT_EQ(one.put(prompt), 4u);
  EXPECT_EQ(other.get(prompt), 4u);
  EXPECT_EQ(other.hit.reason(), Reason::kFull);
  EXPECT_EQ(one.get(blocks_of({1, 2, 9})), 2u);
  EXPECT_EQ(one.put(prompt), 0u) << "all is there";
  EXPECT_EQ(one.put(blocks_of({1, 2, 9})), 1u);
  EXPECT_EQ(other.client->peek(other.id, blocks_of({1, 2, 9})), 48u);
  EXPECT_EQ(node->store().index_usage().blocks, 5u);
  EXPECT_EQ(one.wrong + other.wrong, 0u);
}

TEST_F(AttachedTest, KeyspacesAreApart) {
  const auto node = start(options());
  AttachedUser one(socket(), "a");
  AttachedUser other(socket(), "b");
  const auto prompt = blocks_of({1, 2});
  EXPECT_EQ(one.put(prompt), 2u);
  EXPECT_EQ(other.get(prompt), 0u);
  EXPECT_EQ(other.put(prompt), 2u);
  EXPECT_EQ(one.get(prompt), 2u);
  EXPECT_EQ(other.get(prompt), 2u);
  EXPECT_EQ(one.wrong + other.wrong, 0u);
}

TEST_F(AttachedTest, AHitKeepsWhatItFound) {
  const auto node = start(options());
  AttachedUser user(socket());
  const auto prompt = blocks_of({1, 2, 3});
  user.put(prompt);
  EXPECT_EQ(user.get(prompt), 3u);
  EXPECT_EQ(node->store().clear(), 0u);
  EXPECT_EQ(user.check(prompt), 3u);
  user.hit.release();
  EXPECT_EQ(node->store().clear(), 3u);
  EXPECT_EQ(user.get(prompt), 0u);
  EXPECT_EQ(user.wrong, 0u);
}

// A client that ends gives back what it held, without a word.
TEST_F(AttachedTest, WhatAClientHeldIsFreeWhenItHasEnded) {
  const auto node = start(options());
  auto user = std::make_unique<AttachedUser>(socket());
  const auto prompt = blocks_of({1, 2, 3});
  user->put(prompt);
  EXPECT_EQ(user->get(prompt), 3u);
  EXPECT_EQ(node->store().clear(), 0u);
  user->hit = Hit();
  user.reset();
  while (node->clients_count() > 0)
    pause_thread(100'000);
  EXPECT_EQ(node->store().clear(), 3u);
}

TEST_F(AttachedTest, BlocksThatAreBelowComeBack) {
  const auto node = start(small_over(large_tier()));
  AttachedUser user(socket());
  const auto prompt = chain(1, 40);
  put_below(*node, user, prompt);
  EXPECT_EQ(user.get(prompt), 40u);
  EXPECT_GT(user.hit.loaded_count(), 0u);
  EXPECT_EQ(user.wrong, 0u);
}

// The node knows that nothing comes, and so does who waits.
TEST_F(AttachedTest, ALoadThatBringsNothingIsNotWaitedFor) {
  set_log_level(LogLevel::kSilent);
  constexpr uint64_t kForEverNs = 300'000'000'000;
  for (const TierFaults& faults : {TierFaults{.fail = 1}, TierFaults{.forget = 1}, TierFaults{.flip = 1}}) {
    auto tier = std::make_unique<FaultTier>(large_tier(), TierFaults(), 1);
    FaultTier& faulty = *tier;
    NodeOptions chosen = small_over(std::move(tier));
    chosen.tiering.load_wait_ns = kForEverNs;
    const auto node = start(std::move(chosen));
    AttachedUser user(socket());
    const auto prompt = chain(1, 40);
    put_below(*node, user, prompt);
    faulty.set_faults(faults);
    const uint64_t began = monotonic_now_ns();
    EXPECT_LT(user.get(prompt), 40u);
    EXPECT_LT(monotonic_now_ns(), began + kForEverNs / 10);
    EXPECT_EQ(user.hit.reason(), Reason::kLoadFailed);
    EXPECT_EQ(user.wrong, 0u);
  }
}

// The next node has nothing in memory at first, not even what says where blocks are.
TEST_F(AttachedTest, WhatANodeLeftOnDiskTheNextOneLoads) {
  const auto with_disk = [&] {
    NodeOptions chosen = options();
    chosen.tiering.admission.unused_wait_ns = 0;
    chosen.tier = open_disk({.directory = folder_.path("blocks"), .bytes = 64 * kMiB}, chosen.tiering);
    EXPECT_NE(chosen.tier, nullptr);
    return start(std::move(chosen));
  };
  const auto prompt = chain(1, 20);
  auto node = with_disk();
  {
    AttachedUser user(socket());
    EXPECT_EQ(user.put(prompt), 20u);
    node->store().flush(monotonic_now_ns() + 10'000'000'000);
  }
  node.reset();
  node = with_disk();
  AttachedUser user(socket());
  EXPECT_EQ(user.get(prompt), 20u);
  EXPECT_EQ(user.hit.loaded_count(), 20u);
  EXPECT_EQ(user.wrong, 0u);
}

TEST_F(AttachedTest, TheNodeKnowsWhyALookUpStopped) {
  const auto node = start(options());
  AttachedUser user(socket());
  const auto why = [&](const std::vector<Token>& prompt) {
    user.client->lookup(user.id, prompt, user.hit);
    return user.client->explain(user.id, prompt);
  };
  const auto prompt = blocks_of({1, 2, 3});
  EXPECT_EQ(why(prompt), Reason::kNeverStored);
  user.put(prompt);
  EXPECT_EQ(why(prompt), Reason::kFull);
  EXPECT_EQ(why(blocks_of({1, 2, 9})), Reason::kDiverged);
  user.hit.release();
  EXPECT_EQ(node->store().clear(), 3u);
  EXPECT_EQ(why(prompt), Reason::kEvicted);
}

// Who finds all that it asks for asks the node nothing, and would stay with one that is gone.
TEST_F(AttachedTest, ANodeThatIsGoneIsNoticedWithoutAQuestion) {
  set_log_level(LogLevel::kSilent);
  auto node = start(options());
  AttachedUser user(socket());
  node.reset();
  node = start(options());
  const uint64_t began = monotonic_now_ns();
  while (node->clients_count() == 0 && monotonic_now_ns() < began + 20'000'000'000)
    pause_thread(1'000'000);
  EXPECT_EQ(node->clients_count(), 1u);
  // And what it knew of keyspaces is said to the new node, too.
  AttachedUser other(socket());
  other.put(blocks_of({1, 2}));
  EXPECT_EQ(user.get(blocks_of({1, 2})), 2u);
}

TEST_F(AttachedTest, MoreThanTheStagingMemoryTakesIsStoredInParts) {
  const auto node = start(options(32 * kMiB));
  AttachedUser user(socket(), "a", 256 << 10);
  const auto prompt = chain(1, 300);
  size_t stored = 0;
  while (const size_t more = user.put(prompt))
    stored += more;
  EXPECT_EQ(stored, 300u);
  EXPECT_EQ(user.get(prompt), 300u);
  EXPECT_EQ(user.wrong, 0u);
}

TEST_F(AttachedTest, ANodeThatIsGoneAndComesBack) {
  set_log_level(LogLevel::kSilent);
  auto node = start(options());
  AttachedUser user(socket());
  const auto prompt = blocks_of({1, 2, 3});
  EXPECT_EQ(user.put(prompt), 3u);
  EXPECT_EQ(user.get(prompt), 3u);
  node.reset();
  // What is mapped stays; that it may be used is another question, to which the node has answered no.
  EXPECT_EQ(user.check(prompt), 0u);
  EXPECT_EQ(user.put(blocks_of({4})), 0u);
  node = start(options());
  const uint64_t began = monotonic_now_ns();
  while (user.put(blocks_of({5, 6})) == 0 && monotonic_now_ns() < began + 10'000'000'000)
    pause_thread(50'000'000);
  EXPECT_EQ(user.get(blocks_of({5, 6})), 2u);
  EXPECT_EQ(user.get(prompt), 0u) << "this node knows nothing of it";
  EXPECT_EQ(user.wrong, 0u);
}

// The node has ended a session, which only its notice page says: nothing that is found from then on would be kept.
TEST_F(AttachedTest, ASessionThatTheNodeHasEndedIsNotReadFrom) {
  set_log_level(LogLevel::kSilent);
  auto node = start(options());
  AttachedUser user(socket());
  const auto prompt = blocks_of({1, 2, 3});
  EXPECT_EQ(user.put(prompt), 3u);
  node.reset();
  EXPECT_EQ(user.client->peek(user.id, prompt), 0u);
  user.client->lookup(user.id, prompt, user.hit);
  EXPECT_EQ(user.hit.blocks_count(), 0u);
}

// One client, which finds the node again in whichever thread needs it first.
TEST_F(AttachedTest, ThreadsOfOneClientAndANodeThatComesAndGoes) {
  set_log_level(LogLevel::kSilent);
  auto node = start(options());
  AttachedUser user(socket());
  const Digest keyspace = keyspace_named("a").digest();
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> stored{0};
  std::atomic<uint64_t> wrong{0};
  std::vector<Thread> threads;
  for (Token number = 0; number < 3; ++number) {
    threads.push_back(std::move(*start_thread("user", [&, number] {
      Hit hit;
      for (Token round = 0; !stop.load(std::memory_order_relaxed); ++round) {
        const auto prompt = chain(1000 * (round % 7) + number, 8);
        if (Result<Draft> draft = user.client->reserve(user.id, prompt, 0)) {
          for (size_t i = 0; i < draft->blocks_count(); ++i) {
            fill_oracle(draft->payload(i), keyspace, std::span(prompt).first((draft->first_block() + i + 1) * 16));
          }
          stored += user.client->commit(std::move(*draft));
        }
        user.client->lookup(user.id, prompt, hit);
        for (size_t i = 0; i < hit.blocks_count(); ++i) {
          const auto bytes = user.client->read(hit, prompt, i);
          if (bytes) wrong += !oracle_matches(*bytes, keyspace, std::span(prompt).first((i + 1) * 16));
        }
      }
    })));
  }
  for (int round = 0; round < 4; ++round) {
    const uint64_t before = stored.load();
    const uint64_t began = monotonic_now_ns();
    while (stored.load() < before + 50 && monotonic_now_ns() < began + 20'000'000'000)
      pause_thread(1'000'000);
    EXPECT_GE(stored.load(), before + 50) << "they have found it again";
    node.reset();
    node = start(options());
  }
  stop = true;
  for (Thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong.load(), 0u);
}

TEST_F(AttachedTest, ThereAreNoMoreHitsThanSlots) {
  const auto node = start(options());
  AttachedUser user(socket());
  const auto prompt = blocks_of({1, 2, 3});
  user.put(prompt);
  std::vector<Hit> hits(65);
  for (Hit& hit : hits)
    user.client->lookup(user.id, prompt, hit);
  EXPECT_EQ(hits[63].blocks_count(), 3u);
  EXPECT_EQ(hits[64].blocks_count(), 0u);
  EXPECT_EQ(hits[64].reason(), Reason::kQuota);
  hits[0] = Hit();
  user.client->lookup(user.id, prompt, hits[64]);
  EXPECT_EQ(hits[64].blocks_count(), 3u);
}

TEST_F(AttachedTest, ThereIsOneNodeForASocket) {
  EXPECT_EQ(make_attached_client({.socket_path = socket()}, *counters_).error().code, Code::kNotFound);
  const auto node = start(options());
  EXPECT_EQ(Node::start(options(), *counters_).error().code, Code::kAlreadyExists);
  EXPECT_EQ(make_attached_client({.socket_path = socket(), .tenant = "b"}, *counters_).error().code,
            Code::kPermissionDenied);
}

// The bytes of a block change in the node's memory, as a fault would change them.
TEST_F(AttachedTest, ABlockThatRotsIsQuarantinedAtTheNode) {
  set_log_level(LogLevel::kSilent);
  const auto node = start(options());
  AttachedUser user(socket(), "a", 1 << 20, {}, VerifyPolicy::kAlways);
  AttachedUser other(socket());
  const auto prompt = blocks_of({1, 2, 3, 4});
  user.put(prompt);
  StoredPrefix prefix;
  const Root root = *node->store().open(keyspace_named("a"), block_of(AttachedUser::kPayloadBytes));
  node->store().lookup(root, prompt, prefix);
  const auto bytes = node->store().read(prefix, prompt, 2);
  ASSERT_TRUE(bytes);
  const_cast<std::byte&>((*bytes)[100]) ^= std::byte{4};
  prefix.release();
  other.client->lookup(other.id, prompt, other.hit);
  EXPECT_TRUE(other.client->read(other.hit, prompt, 2)) << "it has chosen not to look again";
  other.hit.release();
  user.client->lookup(user.id, prompt, user.hit);
  EXPECT_EQ(user.hit.blocks_count(), 4u);
  EXPECT_EQ(user.client->read(user.hit, prompt, 2).error().code, Code::kDataLoss);
  EXPECT_EQ(user.hit.blocks_count(), 2u);
  EXPECT_EQ(user.hit.reason(), Reason::kCorrupt);
  EXPECT_EQ(other.client->peek(other.id, prompt), 32u) << "nobody finds it any more";
  EXPECT_EQ(counters_->get(Counter::kQuarantines), 2u);
  EXPECT_EQ(counters_->get(Counter::kReportsRefuted), 0u);
  user.hit.release();
  EXPECT_EQ(user.put(prompt), 2u);
  EXPECT_EQ(other.get(prompt), 4u);
  EXPECT_EQ(other.wrong, 0u);
}

TEST_F(AttachedTest, TheNodeSaysWhyALookupStops) {
  const auto node = start(options());
  AttachedUser user(socket());
  const auto prompt = blocks_of({1, 2, 3});
  const auto reason = [&](std::span<const Token> tokens) { return user.client->explain(user.id, tokens); };
  EXPECT_EQ(reason(prompt), Reason::kNeverStored);
  user.put(prompt);
  EXPECT_EQ(reason(prompt), Reason::kFull);
  EXPECT_EQ(reason(std::span(prompt).first(40)), Reason::kPartialBlock);
  EXPECT_EQ(reason(blocks_of({1, 2, 9})), Reason::kDiverged);
  const auto longer = blocks_of({1, 2, 3, 4});
  const Announcement announcement = user.client->announce(user.id, longer, 3, 4, 10'000'000'000);
  EXPECT_EQ(reason(longer), Reason::kNeverStored) << "it computes that itself";
  AttachedUser other(socket());
  EXPECT_EQ(other.client->explain(other.id, longer), Reason::kInFlight);
  EXPECT_EQ(user.client->explain({}, prompt), Reason::kNotCacheable);
}

// The load model of the node's store is fed by its clients' engines.
TEST_F(AttachedTest, WhatComputingCostsReachesTheNode) {
  NodeOptions chosen = options();
  chosen.tier = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = kMiB});
  const auto node = start(std::move(chosen));
  AttachedUser user(socket());
  const auto after = [&](uint64_t tokens, uint64_t before, double seconds) {
    for (int i = 0; i < 3; ++i)
      user.client->observe_compute(tokens, before, seconds);
    // Answered, so what was said before has been heard.
    user.client->explain(user.id, blocks_of({1}));
    return counters_->get(Counter::kComputeActual);
  };
  const uint64_t once = after(512, 0, 0.5);
  EXPECT_GT(once, 0u);
  // What cannot be is not believed.
  EXPECT_EQ(after(0, 0, 0.5), once);
  EXPECT_EQ(after(512, uint64_t{1} << 31, 0.5), once);
  EXPECT_EQ(after(uint64_t{1} << 30, 0, 0.5), once);
  EXPECT_EQ(after(1, 0, 11), once);
  EXPECT_EQ(after(512, 0, -1), once);
  EXPECT_GT(after(256, 512, 0.25), once);
}

// Clients that store, read and end, beside a store that is too small for all of it.
TEST_F(AttachedTest, ManyClientsAndLittleMemory) {
  constexpr int kUsers = 3;
  constexpr int kRounds = 400;
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  NodeOptions chosen = options(4 * kMiB);
  chosen.tier = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 4 * kMiB});
  chosen.tiering.admission.unused_wait_ns = 0;
  const auto node = start(std::move(chosen));
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> read{0};
  std::vector<Thread> threads;
  for (uint64_t number = 0; number < kUsers; ++number) {
    threads.push_back(std::move(*start_thread("user", [&, number] {
      std::mt19937_64 random(seed + number);
      auto user = std::make_unique<AttachedUser>(socket());
      for (int round = 0; round < kRounds; ++round) {
        std::vector<Token> prompt = chain(static_cast<Token>(1000 * (random() % 5)), 20);
        const auto rest = chain(static_cast<Token>(100'000 + 100 * (random() % 20)), 10);
        prompt.insert(prompt.end(), rest.begin(), rest.end());
        if (random() % 2 == 0) user->put(prompt);
        read += user->get(prompt);
        if (random() % 4 == 0) user->hit.release();
        if (random() % 50 == 0) {
          wrong += user->wrong;
          user->hit = Hit();
          user = std::make_unique<AttachedUser>(socket());
        }
      }
      wrong += user->wrong;
      user->hit = Hit();
    })));
  }
  for (Thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(read.load(), 1000u);
  while (node->clients_count() > 0)
    pause_thread(100'000);
  node->store().clear();
  EXPECT_EQ(node->store().index_usage().blocks, 0u);
  EXPECT_EQ(node->store().slab_usage().stored_bytes, 0u);
}

}  // namespace
}  // namespace rhizome
