// Blocks that are committed later: embedded, by a node over the rings, and by a node over the socket.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>

#include "client/attached_user_fixture.h"
#include "client/test_process.h"
#include "machine/clock.h"
#include "machine/process.h"
#include "machine/random.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "node/node.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLong = 60'000'000'000;
constexpr const char* kSocketVariable = "RHIZOME_TEST_LATER_SOCKET";

enum class Way : uint8_t { kEmbedded, kRing, kSocket };

// One that stores later, and what it stores, by each way there is.
class CommitLater : public testing::TestWithParam<Way> {
 protected:
  CommitLater() {
    set_log_level(LogLevel::kSilent);
    if (GetParam() == Way::kEmbedded) {
      client_ = std::move(*make_embedded_client({.memory_bytes = 32 * kMiB}, *counters_));
    } else {
      const std::string socket = folder_.path("run/node.sock");
      node_ = std::move(*Node::start(
          {.socket_path = socket, .memory_bytes = 32 * kMiB, .takes_commits_by_ring = GetParam() == Way::kRing},
          *counters_));
      client_ = std::move(*make_attached_client({.socket_path = socket, .staging_bytes = kStagingBytes}, *counters_));
    }
    id_ = *client_->open(keyspace_, block_of(kPayloadBytes));
  }

  Result<Draft> draft_of(std::span<const Token> tokens, uint32_t first_block) {
    Result<Draft> draft = client_->reserve(id_, tokens, first_block);
    if (!draft) return draft;
    for (size_t i = 0; i < draft->blocks_count(); ++i)
      fill_oracle(draft->payload(i), keyspace_.digest(), tokens.first((draft->first_block() + i + 1) * 16));
    return draft;
  }
  size_t found(std::span<const Token> prompt) {
    Hit hit;
    client_->lookup(id_, prompt, hit);
    for (size_t i = 0; i < hit.blocks_count(); ++i) {
      const auto bytes = client_->read(hit, prompt, i);
      if (!bytes || !oracle_matches(*bytes, keyspace_.digest(), prompt.first((i + 1) * 16))) return 0;
    }
    return hit.blocks_count();
  }

  static constexpr uint64_t kPayloadBytes = 3000;
  // Twenty blocks and their tokens.
  static constexpr uint64_t kStagingBytes = 64 << 10;

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
  const Keyspace keyspace_ = keyspace_named("a");
  std::unique_ptr<Node> node_;
  std::unique_ptr<Client> client_;
  KeyspaceId id_;
};

TEST_P(CommitLater, SettleSaysHowManyBecameVisible) {
  EXPECT_EQ(client_->settle().blocks_count, 0u);
  for (Token number = 0; number < 5; ++number)
    client_->commit_later(*draft_of(chain(1000 * number, 3), 0));
  EXPECT_EQ(client_->settle(), (Settled{15, 15 * kPayloadBytes}));
  EXPECT_EQ(client_->settle().blocks_count, 0u);
  for (Token number = 0; number < 5; ++number)
    EXPECT_EQ(found(chain(1000 * number, 3)), 3u);
  // Of these two are new.
  client_->commit_later(*draft_of(chain(0, 5), 0));
  EXPECT_EQ(client_->settle().blocks_count, 2u);
  EXPECT_EQ(found(chain(0, 5)), 5u);
}

// Nobody waits for it and it is nobody's: the end of a client, or a draft of nothing.
TEST_P(CommitLater, OfNothingIsNothing) {
  client_->commit_later(Draft());
  const auto prompt = chain(1, 2);
  client_->commit_later(*draft_of(prompt, 0));
  client_->commit_later(Draft());
  EXPECT_EQ(client_->settle().blocks_count, 2u);
  client_->commit_later(*draft_of(prompt, 0));
  EXPECT_EQ(client_->settle().blocks_count, 0u);
  client_->commit_later(*draft_of(chain(500, 2), 0));
}

// Block by block, each behind one that may be on its way; far more than the staging memory takes, and than the ring.
TEST_P(CommitLater, BlocksOnTheirWayAreContinued) {
  constexpr uint32_t kBlocks = 600;
  const auto prompt = chain(1, kBlocks);
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const auto tokens = std::span(prompt).first(size_t{block + 1} * 16);
    Result<Draft> draft = draft_of(tokens, block);
    ASSERT_TRUE(draft) << block << ": " << draft.error().reason;
    ASSERT_EQ(draft->first_block(), block);
    ASSERT_EQ(draft->blocks_count(), 1u);
    client_->commit_later(std::move(*draft));
  }
  EXPECT_EQ(client_->settle().blocks_count, kBlocks);
  EXPECT_EQ(found(prompt), kBlocks);
}

// As reserve() says: what is on its way is as good as stored, for whoever begins with it too.
TEST_P(CommitLater, ReserveBeginsBehindWhatIsOnItsWay) {
  const auto prompt = chain(1, 8);
  client_->commit_later(*draft_of(std::span(prompt).first(4 * 16), 0));
  Result<Draft> rest = draft_of(prompt, 0);
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->first_block(), 4u);
  client_->commit_later(std::move(*rest));
  // Another prompt that has two of these blocks.
  auto other = std::vector<Token>(prompt.begin(), prompt.begin() + 2 * 16);
  const auto tail = chain(900, 2);
  other.insert(other.end(), tail.begin(), tail.end());
  Result<Draft> branch = draft_of(other, 2);
  ASSERT_TRUE(branch);
  EXPECT_EQ(branch->first_block(), 2u);
  // commit() waits for its own, and thereby for those before it.
  EXPECT_EQ(client_->commit(std::move(*branch)), 2u);
  EXPECT_EQ(found(prompt), 8u);
  EXPECT_EQ(found(other), 4u);
  EXPECT_EQ(client_->settle().blocks_count, 8u);
  EXPECT_EQ(client_->reserve(id_, chain(5000, 4), 2).error().code, Code::kFailedPrecondition);
}

// What cannot be continued is not, whichever way it is found out.
TEST_P(CommitLater, WhatContinuesALostBlockIsLost) {
  const auto prompt = chain(1, 8);
  client_->commit_later(*draft_of(std::span(prompt).first(4 * 16), 0));
  Result<Draft> rest = draft_of(prompt, 4);
  ASSERT_TRUE(rest);
  EXPECT_EQ(client_->settle().blocks_count, 4u);
  if (node_ != nullptr) {
    EXPECT_EQ(node_->store().clear(), 4u);
    client_->commit_later(std::move(*rest));
    EXPECT_EQ(client_->settle().blocks_count, 0u);
    EXPECT_EQ(found(prompt), 0u);
  }
  rest = Draft();
}

TEST_P(CommitLater, WhoWithdrawsHasStoredBefore) {
  for (int round = 0; round < 20; ++round) {
    const auto own = chain(static_cast<Token>(1000 * round), 12);
    Announcement announcement = client_->announce(id_, own, 0, 12, kLong);
    ASSERT_TRUE(announcement.is_ours());
    client_->commit_later(*draft_of(std::span(own).first(8 * 16), 0));
    announcement.withdraw();
    const Arrival arrival = client_->wait(id_, own, 8, 0);
    EXPECT_FALSE(arrival.is_computed);
    EXPECT_EQ(arrival.blocks, 8u);
  }
}

TEST_P(CommitLater, ThreadsOfOneClient) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::atomic<uint64_t> visible{0};
  std::vector<Thread> threads;
  for (uint64_t number = 0; number < 4; ++number) {
    threads.push_back(std::move(*start_thread("user", [&, number] {
      std::mt19937_64 random(seed + number);
      for (int round = 0; round < 200; ++round) {
        const auto prompt = chain(static_cast<Token>(1000 * (random() % 20)), 1 + random() % 12);
        Result<Draft> draft = draft_of(prompt, 0);
        if (!draft) continue;
        if (random() % 3 == 0) {
          visible += client_->commit(std::move(*draft));
        } else if (random() % 8 != 0) {
          client_->commit_later(std::move(*draft));
        }
        if (random() % 16 == 0) visible += client_->settle().blocks_count;
      }
    })));
  }
  for (Thread& thread : threads)
    thread.join();
  visible += client_->settle().blocks_count;
  uint64_t stored = 0;
  for (Token number = 0; number < 20; ++number)
    stored += found(chain(1000 * number, 12));
  EXPECT_EQ(visible.load(), stored);
}

std::string name_of(const testing::TestParamInfo<Way>& way) {
  return way.param == Way::kEmbedded ? "Embedded" : way.param == Way::kRing ? "Ring" : "Socket";
}
INSTANTIATE_TEST_SUITE_P(Ways, CommitLater, testing::Values(Way::kEmbedded, Way::kRing, Way::kSocket), name_of);

// --- nodes and clients that end in between

// Not a test of its own.
TEST(CommitLaterChild, NodeUntilItIsKilled) {
  const char* const socket = std::getenv(kSocketVariable);
  if (socket == nullptr) GTEST_SKIP() << "only in a child of CommitLaterNode";
  set_log_level(LogLevel::kSilent);
  const auto counters = Counters::local();
  const auto node = Node::start({.socket_path = socket, .memory_bytes = 32 * kMiB}, *counters);
  if (!node) std::_Exit(4);
  for (;;)
    pause_thread(1'000'000'000);
}

class CommitLaterNode : public testing::Test {
 protected:
  CommitLaterNode() { set_log_level(LogLevel::kSilent); }

  std::string socket() const { return folder_.path("run/node.sock"); }
  std::unique_ptr<Node> start(uint64_t memory_bytes = 32 * kMiB) {
    return std::move(*Node::start({.socket_path = socket(), .memory_bytes = memory_bytes}, *counters_));
  }
  Child start_child() const { return start_test_process("CommitLaterChild.*", {{kSocketVariable, socket()}}); }
  // Stores again, however often it takes.
  static bool stores(AttachedUser& user, Token number) {
    return comes_true([&] {
      user.put(chain(number, 3));
      return user.get(chain(number, 3)) == 3;
    });
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
};

TEST_F(CommitLaterNode, AClientMayGoWithCommitsOnTheirWay) {
  const auto node = start();
  for (int round = 0; round < 20; ++round) {
    auto user = std::make_unique<AttachedUser>(socket());
    for (Token number = 0; number < 10; ++number)
      user->put_later(chain(1000 * number + 100'000 * static_cast<Token>(round), 8));
    if (round % 2 == 0) static_cast<void>(user->client->settle());
    // And a draft that nobody commits.
    Result<Draft> draft = user->draft_of(chain(7, 2));
    if (round % 4 == 0) draft = fail(Code::kUnknown, "");
    draft = fail(Code::kUnknown, "");
    user.reset();
  }
  EXPECT_TRUE(comes_true([&] { return node->clients_count() == 0; }));
  const SlabUsage slab = node->store().slab_usage();
  EXPECT_EQ(slab.reserved_slots + slab.doomed_slots, 0u);
  AttachedUser user(socket());
  EXPECT_EQ(user.get(chain(1000, 8)), 8u) << "it was settled";
  EXPECT_EQ(user.wrong, 0u);
}

TEST_F(CommitLaterNode, ANodeThatEndsWithCommitsOnTheirWay) {
  for (int round = 0; round < 3; ++round) {
    auto node = start();
    AttachedUser user(socket());
    const auto prompt = chain(1, 100);
    for (uint32_t blocks = 10; blocks <= 100; blocks += 10)
      user.put_later(std::span(prompt).first(size_t{blocks} * 16), blocks - 10);
    node.reset();
    EXPECT_LE(user.client->settle().blocks_count, 100u);
    EXPECT_EQ(user.client->settle().blocks_count, 0u);
    user.put_later(chain(500, 3));
    EXPECT_EQ(user.client->settle().blocks_count, 0u);
    node = start();
    EXPECT_TRUE(stores(user, 9000));
    EXPECT_EQ(user.wrong, 0u);
  }
}

TEST_F(CommitLaterNode, ANodeThatIsKilledWithCommitsOnTheirWay) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  Child node = start_child();
  AttachedUser user(socket());
  for (Token round = 0; round < 4; ++round) {
    ASSERT_TRUE(stores(user, 100'000 * round));
    const auto prompt = chain(100'000 * round + 1000, 60);
    uint32_t blocks = 0;
    const uint64_t until = random() % 6;
    for (; blocks < until * 10; blocks += 10)
      user.put_later(std::span(prompt).first(size_t{blocks + 10} * 16), blocks);
    for (uint64_t yields = random() % 20; yields > 0; --yields)
      yield_thread();
    ASSERT_TRUE(node.signal(SIGKILL));
    node.wait();
    const uint64_t began_ns = monotonic_now_ns();
    EXPECT_LE(user.client->settle().blocks_count, blocks);
    EXPECT_EQ(user.put(chain(77, 2)), 0u);
    EXPECT_LT(monotonic_now_ns(), began_ns + kLong);
    node = start_child();
  }
  EXPECT_TRUE(stores(user, 900'000));
  EXPECT_EQ(user.wrong, 0u);
  node.terminate(0);
}

// A node that stands still: what is handed to it is bounded, and so is each wait.
TEST_F(CommitLaterNode, ANodeThatIsStopped) {
  Child node = start_child();
  AttachedUser user(socket(), "a", 16 * kMiB, {}, VerifyPolicy::kTier, 300'000'000);
  EXPECT_TRUE(stores(user, 1));
  ASSERT_TRUE(node.signal(SIGSTOP));
  const uint64_t began_ns = monotonic_now_ns();
  // More than the ring takes.
  size_t handed_over = 0;
  for (Token number = 0; number < 2000; ++number)
    handed_over += user.put_later(chain(1000 * number + 10'000'000, 1));
  EXPECT_GE(handed_over, 200u);
  EXPECT_LT(handed_over, 2000u);
  // It may have done some before it stood still.
  EXPECT_LT(user.client->settle().blocks_count, handed_over);
  EXPECT_EQ(user.put(chain(2, 3)), 0u);
  EXPECT_LT(monotonic_now_ns(), began_ns + kLong);
  ASSERT_TRUE(node.signal(SIGCONT));
  EXPECT_TRUE(stores(user, 900));
  for (Token number = 0; number < 2000; ++number)
    user.get(chain(1000 * number + 10'000'000, 1));
  EXPECT_EQ(user.wrong, 0u);
  node.terminate(0);
}

// Many who store the same and other things, in less memory than that takes.
TEST_F(CommitLaterNode, ManyClientsAtOnce) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto node = start(6 * kMiB);
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> right{0};
  std::vector<Thread> threads;
  for (uint64_t number = 0; number < 6; ++number) {
    threads.push_back(std::move(*start_thread("user", [&, number] {
      std::mt19937_64 random(seed + number);
      AttachedUser user(socket(), "a", 256 << 10);
      for (int round = 0; round < 60; ++round) {
        std::vector<Token> prompt = chain(static_cast<Token>(1000 * (random() % 5)), 10);
        const auto rest = chain(static_cast<Token>(100'000 + 100 * (random() % 30)), 10 + random() % 30);
        prompt.insert(prompt.end(), rest.begin(), rest.end());
        Announcement announcement = user.client->announce(user.id, prompt, 0, prompt.size() / 16, kLong);
        for (uint32_t from = 0; from < prompt.size() / 16;) {
          const auto end = std::min<uint32_t>(from + 4, static_cast<uint32_t>(prompt.size() / 16));
          if (user.put_later(std::span(prompt).first(size_t{end} * 16), from) == 0 && random() % 2 == 0) break;
          from = end;
        }
        if (random() % 4 == 0) static_cast<void>(user.client->settle());
        announcement.withdraw();
        right += user.get(prompt);
        user.hit.release();
      }
      wrong += user.wrong;
      user.hit = Hit();
    })));
  }
  for (Thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(right.load(), 1000u);
  EXPECT_TRUE(comes_true([&] { return node->clients_count() == 0; }));
  node->store().clear();
  EXPECT_TRUE(comes_true([&] {
    node->store().clear();
    return node->store().index_usage().blocks == 0;
  }));
  const SlabUsage slab = node->store().slab_usage();
  EXPECT_EQ(slab.reserved_slots + slab.doomed_slots, 0u);
}

}  // namespace
}  // namespace rhizome
