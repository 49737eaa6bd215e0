// What one computes the others wait for: threads of one embedded client, and clients of a node.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <signal.h>

#include "client/attached_user_fixture.h"
#include "client/test_process.h"
#include "machine/clock.h"
#include "machine/process.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "node/node.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kLong = 60'000'000'000;
constexpr uint64_t kShort = 20'000'000;
constexpr uint64_t kPayloadBytes = 3000;
constexpr const char* kSocketVariable = "RHIZOME_TEST_FLIGHT_SOCKET";

uint64_t in(uint64_t ns) {
  return monotonic_now_ns() + ns;
}

size_t put(Client& client, KeyspaceId id, std::span<const Token> tokens) {
  Result<Draft> draft = client.reserve(id, tokens, 0);
  return draft ? client.commit(std::move(*draft)) : 0;
}

// Two who share a cache: both threads of one client, or each with a client of its own.
class FlightTest : public testing::TestWithParam<bool> {
 protected:
  FlightTest() {
    set_log_level(LogLevel::kSilent);
    if (GetParam()) {
      node_ = std::move(*Node::start({.socket_path = socket(), .memory_bytes = 8 << 20}, *counters_));
      for (auto& client : clients_)
        client = std::move(*make_attached_client({.socket_path = socket()}, *counters_));
    } else {
      clients_[0] = std::move(*make_embedded_client({.memory_bytes = 8 << 20}, *counters_));
    }
    for (size_t i = 0; i < 2; ++i)
      ids_[i] = *of(i).open(keyspace_named("a"), block_of(kPayloadBytes));
  }

  std::string socket() const { return folder_.path("run/node.sock"); }
  Client& of(size_t who) { return GetParam() ? *clients_[who] : *clients_[0]; }
  Announcement announce(size_t who, std::span<const Token> prompt, size_t first = 0, uint64_t patience_ns = kLong) {
    return of(who).announce(ids_[who], prompt, first, prompt.size() / 16, patience_ns);
  }
  Arrival wait(size_t who, std::span<const Token> prompt, size_t more_than, uint64_t deadline_ns) {
    return of(who).wait(ids_[who], prompt, more_than, deadline_ns);
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
  std::unique_ptr<Node> node_;
  std::unique_ptr<Client> clients_[2];
  KeyspaceId ids_[2];
};

TEST_P(FlightTest, OneComputesAndTheOtherLearnsOfEachPiece) {
  EXPECT_EQ(of(0).is_shared(), GetParam());
  const auto prompt = chain(1, 12);
  const auto other_prompt = [&] {
    auto tokens = std::vector<Token>(prompt.begin(), prompt.begin() + 8 * 16);
    const auto rest = chain(900, 4);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    return tokens;
  }();
  const Announcement ours = announce(0, prompt);
  EXPECT_TRUE(ours.is_ours());
  EXPECT_FALSE(ours.is_others());
  EXPECT_EQ(ours.end_block(), 12u);
  const Announcement theirs = announce(1, other_prompt);
  EXPECT_FALSE(theirs.is_ours());
  EXPECT_TRUE(theirs.is_others());
  EXPECT_EQ(theirs.end_block(), 8u);
  std::atomic<size_t> seen{0};
  Thread waiter = *start_thread("waiter", [&] {
    while (seen < 8) {
      const Arrival arrival = wait(1, other_prompt, seen, in(kLong));
      EXPECT_GT(arrival.blocks, seen.load()) << "it has not ended for any other reason";
      if (arrival.blocks <= seen) break;
      seen = arrival.blocks;
    }
    // The ninth block of the other prompt nobody computes.
    const Arrival last = wait(1, other_prompt, 8, in(kLong));
    EXPECT_EQ(last.blocks, 8u);
    EXPECT_FALSE(last.is_computed);
  });
  for (size_t blocks = 2; blocks <= 12; blocks += 2) {
    // Meanwhile others use the client.
    EXPECT_TRUE(of(1).open(keyspace_named("b" + std::to_string(blocks)), block_of(100)));
    EXPECT_EQ(put(of(0), ids_[0], std::span(prompt).first(blocks * 16)), 2u);
    const uint64_t until_ns = in(kLong);
    while (seen < std::min<size_t>(blocks, 8) && monotonic_now_ns() < until_ns)
      yield_thread();
    EXPECT_EQ(seen, std::min<size_t>(blocks, 8));
  }
  waiter.join();
  EXPECT_TRUE(announce(1, chain(1, 13), 12).is_ours()) << "the claim ended with its last block";
}

TEST_P(FlightTest, AClaimEndsWhenItIsWithdrawn) {
  const auto prompt = chain(1, 4);
  {
    Announcement first = announce(0, prompt);
    Announcement moved = std::move(first);
    EXPECT_TRUE(moved.is_ours());
    EXPECT_FALSE(first.is_ours());  // NOLINT(bugprone-use-after-move): that is what is asked
    EXPECT_TRUE(announce(1, prompt).is_others());
    std::atomic<bool> is_over{false};
    Thread waiter = *start_thread("waiter", [&] {
      const Arrival arrival = wait(1, prompt, 0, in(kLong));
      EXPECT_EQ(arrival.blocks, 0u);
      EXPECT_FALSE(arrival.is_computed);
      is_over = true;
    });
    EXPECT_FALSE(is_over);
    moved.withdraw();
    EXPECT_FALSE(moved.is_ours());
    waiter.join();
  }
  {
    const Announcement again = announce(1, prompt);
  }
  EXPECT_TRUE(announce(0, prompt).is_ours()) << "destroyed";
}

TEST_P(FlightTest, WaitsEnd) {
  const auto prompt = chain(1, 4);
  EXPECT_FALSE(wait(1, prompt, 0, in(kLong)).is_computed) << "at once: nobody computes";
  const Announcement ours = announce(0, prompt, 0, kLong);
  const uint64_t deadline_ns = in(kShort);
  const Arrival late = wait(1, prompt, 0, deadline_ns);
  EXPECT_GE(monotonic_now_ns(), deadline_ns);
  EXPECT_TRUE(late.is_computed);
  EXPECT_EQ(late.blocks, 0u);
  EXPECT_TRUE(wait(1, prompt, 0, 0).is_computed) << "no more than a look";
  EXPECT_FALSE(wait(1, prompt, 4, in(kLong)).is_computed) << "there are no more blocks";
  EXPECT_FALSE(of(1).wait({}, prompt, 0, in(kLong)).is_computed);
  EXPECT_FALSE(announce(1, prompt, 4).is_others());
  EXPECT_FALSE(announce(1, prompt, 4).is_ours());
}

TEST_P(FlightTest, PatienceRunsOut) {
  const auto prompt = chain(1, 4);
  const Announcement ours = announce(0, prompt, 0, kShort);
  EXPECT_FALSE(wait(1, prompt, 0, in(kLong)).is_computed);
  const Announcement next = announce(1, prompt);
  EXPECT_TRUE(next.is_ours());
  EXPECT_TRUE(announce(0, prompt).is_others());
}

// Each waits for what the other has announced.
// Whoever announces has looked before, and more may have come since.
TEST_P(FlightTest, AClaimBeginsBehindWhatIsStored) {
  const auto prompt = chain(1, 6);
  const Announcement ours = announce(0, prompt);
  EXPECT_EQ(put(of(0), ids_[0], std::span(prompt).first(48)), 3u);
  const Announcement theirs = announce(1, prompt, 0);
  EXPECT_TRUE(theirs.is_others());
  EXPECT_EQ(theirs.end_block(), 6u);
  const Announcement all = announce(1, std::span(prompt).first(48), 1);
  EXPECT_FALSE(all.is_ours() || all.is_others());
}

TEST_P(FlightTest, WaitingInACircleEndsWithPatience) {
  const auto one = chain(1, 4);
  const auto two = chain(500, 4);
  const Announcement first = announce(0, one, 0, kShort);
  const Announcement second = announce(1, two, 0, kShort);
  Thread waiter = *start_thread("waiter", [&] { EXPECT_FALSE(wait(1, one, 0, in(kLong)).is_computed); });
  EXPECT_FALSE(wait(0, two, 0, in(kLong)).is_computed);
  waiter.join();
}

INSTANTIATE_TEST_SUITE_P(All, FlightTest, testing::Bool(),
                         [](const auto& each) { return std::string(each.param ? "attached" : "embedded"); });

class AttachedFlight : public testing::Test {
 protected:
  AttachedFlight() { set_log_level(LogLevel::kSilent); }
  std::unique_ptr<Node> start() {
    return std::move(*Node::start({.socket_path = socket(), .memory_bytes = 8 << 20}, *counters_));
  }
  std::string socket() const { return folder_.path("run/node.sock"); }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
  const std::vector<Token> prompt_ = chain(1, 4);
};

TEST_F(AttachedFlight, EndsWithTheOwnersSession) {
  const auto node = start();
  AttachedUser own(socket());
  auto owner = std::make_unique<AttachedUser>(socket());
  Announcement announcement = owner->client->announce(owner->id, prompt_, 0, 4, kLong);
  EXPECT_TRUE(announcement.is_ours());
  EXPECT_TRUE(own.client->announce(own.id, prompt_, 0, 4, kLong).is_others());
  announcement = Announcement();
  announcement = owner->client->announce(owner->id, prompt_, 0, 4, kLong);
  Thread waiter = *start_thread("waiter", [&] {
    const Arrival arrival = own.client->wait(own.id, prompt_, 0, in(kLong));
    EXPECT_FALSE(arrival.is_computed);
  });
  announcement = Announcement();
  owner.reset();
  waiter.join();
  EXPECT_TRUE(own.client->announce(own.id, prompt_, 0, 4, kLong).is_ours());
}

TEST_F(AttachedFlight, ANodeThatEndsWakesWhoWaits) {
  auto node = start();
  AttachedUser own(socket());
  AttachedUser owner(socket());
  Announcement announcement = owner.client->announce(owner.id, prompt_, 0, 4, kLong);
  EXPECT_TRUE(announcement.is_ours());
  std::atomic<bool> begins{false};
  Thread waiter = *start_thread("waiter", [&] {
    begins = true;
    EXPECT_FALSE(own.client->wait(own.id, prompt_, 0, in(kLong)).is_computed);
  });
  while (!begins)
    yield_thread();
  node.reset();
  waiter.join();
  // The claim of a session that is over is nobody's.
  node = start();
  announcement.withdraw();
  EXPECT_FALSE(owner.client->announce(owner.id, prompt_, 0, 0, kLong).is_ours());
}

TEST(FlightChild, AnnouncesAndStops) {
  const char* const socket = std::getenv(kSocketVariable);
  if (socket == nullptr) GTEST_SKIP() << "only in a child of AttachedFlight";
  AttachedUser user(socket);
  const auto prompt = chain(1, 4);
  const Announcement announcement = user.client->announce(user.id, prompt, 0, 4, kLong);
  put(*user.client, user.id, std::span(prompt).first(16));
  for (;;)
    pause_thread(kLong);
}

TEST_F(AttachedFlight, AnOwnerThatIsKilledIsNotWaitedFor) {
  const auto node = start();
  AttachedUser own(socket());
  Child child = start_test_process("FlightChild.*", {{kSocketVariable, socket()}});
  // It stores one block of the four that it has announced.
  const uint64_t until_ns = in(kLong);
  while (own.client->peek(own.id, prompt_) == 0 && monotonic_now_ns() < until_ns)
    pause_thread(1'000'000);
  EXPECT_TRUE(own.client->wait(own.id, prompt_, 1, in(kShort)).is_computed);
  Thread waiter = *start_thread("waiter", [&] {
    const Arrival arrival = own.client->wait(own.id, prompt_, 1, in(kLong));
    EXPECT_EQ(arrival.blocks, 1u) << "what is there is taken";
    EXPECT_FALSE(arrival.is_computed);
  });
  static_cast<void>(child.signal(SIGKILL));
  child.wait();
  waiter.join();
  EXPECT_LT(monotonic_now_ns(), until_ns);
  EXPECT_TRUE(own.client->announce(own.id, prompt_, 1, 4, kLong).is_ours());
}

// More claims than a client may have, and what is no prompt of the node's.
TEST_F(AttachedFlight, WhatIsRefusedIsComputedAlone) {
  const auto node = start();
  AttachedUser own(socket());
  std::vector<Announcement> announcements;
  for (Token i = 0; i < 70; ++i) {
    const auto prompt = chain(1000 * (i + 1), 2);
    announcements.push_back(own.client->announce(own.id, prompt, 0, 2, kLong));
    EXPECT_EQ(announcements.back().is_ours(), i < 64);
    EXPECT_FALSE(announcements.back().is_others());
  }
  announcements.clear();
  EXPECT_TRUE(own.client->announce(own.id, prompt_, 0, 4, kLong).is_ours());
}

}  // namespace
}  // namespace rhizome
