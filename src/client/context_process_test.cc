// Processes that hand contexts to one another, and are killed in the middle of it: publishers, adopters, and nodes.
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>

#include "client/attached_user_fixture.h"
#include "client/test_process.h"
#include "machine/clock.h"
#include "machine/mapping.h"
#include "machine/process.h"
#include "machine/random.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "node/node.h"
#include "telemetry/log.h"
#include "tier/memory_tier.h"

namespace rhizome {
namespace {

constexpr const char* kUserVariable = "RHIZOME_TEST_CONTEXT_USER";
constexpr const char* kNodeVariable = "RHIZOME_TEST_CONTEXT_NODE";
constexpr const char* kBoardVariable = "RHIZOME_TEST_CONTEXT_BOARD";
constexpr const char* kSeedVariable = "RHIZOME_TEST_CONTEXT_SEED";
constexpr uint64_t kPatienceNs = 20'000'000'000;
constexpr uint64_t kLifetimeMaxNs = 500'000'000;
constexpr int kWrongStatus = 3;

// Where they write handles down for one another. Half of one and half of another one is none.
struct Board {
  struct Place {
    std::atomic<uint64_t> high;
    std::atomic<uint64_t> low;
  };
  std::array<Place, 16> places;
};

Board& board_in(const Mapping& memory) {
  return *reinterpret_cast<Board*>(memory.bytes().data());
}

// What each of them does: stores, publishes, adopts what anybody has published, and goes on with it.
class Agent {
 public:
  Agent(const std::string& socket, const Mapping& board, uint64_t seed)
      : user_(std::make_unique<AttachedUser>(socket)), board_(board_in(board)), random_(seed) {}
  ~Agent() { user_->hit = Hit(); }

  void step() {
    Board::Place& place = board_.places[random_() % board_.places.size()];
    const ContextHandle known{place.high.load(), place.low.load()};
    const uint64_t choice = random_() % 8;
    if (choice < 3) {
      const auto prompt = chain(static_cast<Token>(1000 * (random_() % 20)), 1 + random_() % 30);
      user_->put(prompt);
      const ContextTerms terms{.use = random_() % 2 == 0 ? ContextUse::kFork : ContextUse::kMove,
                               .lifetime_ns = 1 + random_() % kLifetimeMaxNs,
                               .outlives_publisher = random_() % 2 == 0};
      const auto handle = user_->client->publish(user_->id, prompt, terms);
      if (!handle) return;
      ++published_;
      place.high = handle->high;
      place.low = handle->low;
    } else if (choice < 7) {
      Result<Context> context = user_->client->adopt(known);
      if (!context) return;
      ++adopted_;
      user_->hit = std::move(context->hit);
      user_->check(context->tokens);
      if (random_() % 2 == 0) user_->hit.release();
    } else {
      static_cast<void>(user_->client->unpublish(known));
    }
  }
  uint64_t wrong() const { return user_->wrong; }
  uint64_t published() const { return published_; }
  uint64_t adopted() const { return adopted_; }

 private:
  std::unique_ptr<AttachedUser> user_;
  Board& board_;
  std::mt19937_64 random_;
  uint64_t published_ = 0;
  uint64_t adopted_ = 0;
};

// Not tests of their own: what the others start in processes of their own.
TEST(ContextChild, AgentUntilItIsKilled) {
  const std::string socket = variable_text(kUserVariable);
  if (socket.empty()) GTEST_SKIP() << "only in a child of ContextProcess";
  set_log_level(LogLevel::kSilent);
  const Mapping board = *Mapping::attach_file(variable_text(kBoardVariable));
  Agent agent(socket, board, std::stoull(variable_text(kSeedVariable)));
  for (;;) {
    agent.step();
    if (agent.wrong() > 0) std::_Exit(kWrongStatus);
  }
}

NodeOptions node_options(const std::string& socket) {
  NodeOptions options{.socket_path = socket, .memory_bytes = 4 << 20};
  options.tier = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 4 << 20});
  options.tiering.admission.unused_wait_ns = 0;
  return options;
}

TEST(ContextChild, NodeUntilItIsKilled) {
  const std::string socket = variable_text(kNodeVariable);
  if (socket.empty()) GTEST_SKIP() << "only in a child of ContextProcess";
  set_log_level(LogLevel::kSilent);
  const auto counters = Counters::local();
  const auto node = Node::start(node_options(socket), *counters);
  if (!node) std::_Exit(4);
  for (;;)
    pause_thread(1'000'000'000);
}

class ContextProcess : public testing::Test {
 protected:
  ContextProcess() { set_log_level(LogLevel::kSilent); }

  std::string socket() const { return folder_.path("run/node.sock"); }
  Child start_agent() {
    return start_test_process("ContextChild.AgentUntilItIsKilled", {{kUserVariable, socket()},
                                                                    {kBoardVariable, folder_.path("board")},
                                                                    {kSeedVariable, std::to_string(random_())}});
  }
  Child start_node() const {
    return start_test_process("ContextChild.NodeUntilItIsKilled", {{kNodeVariable, socket()}});
  }
  static void kill_child(Child& child) {
    ASSERT_FALSE(child.try_wait()) << "it has ended by itself";
    ASSERT_TRUE(child.signal(SIGKILL));
    child.wait();
  }
  // Contexts that outlive their publishers are there until their lifetimes have ended.
  static void expect_nothing_held(const Node& node, Store& store) {
    const uint64_t until = monotonic_now_ns() + kPatienceNs;
    const auto is_empty = [&] {
      store.clear();
      const SlabUsage slab = store.slab_usage();
      return node.clients_count() == 0 && store.index_usage().blocks == 0 && slab.stored_bytes == 0;
    };
    while (!is_empty() && monotonic_now_ns() < until)
      pause_thread(1'000'000);
    EXPECT_EQ(node.clients_count(), 0u);
    EXPECT_EQ(store.index_usage().blocks + store.index_usage().withheld_blocks, 0u);
    const SlabUsage slab = store.slab_usage();
    EXPECT_EQ(slab.stored_bytes + slab.pinned_bytes, 0u);
    EXPECT_EQ(slab.reserved_slots + slab.doomed_slots, 0u);
    EXPECT_EQ(store.block_counts().pinned, 0u);
  }

  const uint64_t seed_ = random_u64();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937_64 random_{seed_};
  TemporaryFolder folder_;
  const Mapping board_ = *Mapping::create_file(folder_.path("board"), sizeof(Board));
  const std::unique_ptr<Counters> counters_ = Counters::local();
};

TEST_F(ContextProcess, AgentsThatAreKilledLeaveNothing) {
  constexpr int kKills = 30;
  const auto node = std::move(*Node::start(node_options(socket()), *counters_));
  std::array<Child, 3> children;
  for (Child& child : children)
    child = start_agent();
  {
    Agent own(socket(), board_, random_());
    for (int kill = 0; kill < kKills; ++kill) {
      Child& victim = children[random_() % children.size()];
      for (const uint64_t until = monotonic_now_ns() + random_() % 60'000'000; monotonic_now_ns() < until;)
        own.step();
      // Stopped for a while, it holds what it holds, and nobody else waits for it.
      if (random_() % 3 == 0) {
        ASSERT_TRUE(victim.signal(SIGSTOP));
        for (int i = 0; i < 20; ++i)
          own.step();
        ASSERT_TRUE(victim.signal(SIGCONT));
      }
      kill_child(victim);
      victim = start_agent();
    }
    EXPECT_GT(own.published(), 0u);
    EXPECT_GT(own.adopted(), 0u);
    EXPECT_EQ(own.wrong(), 0u);
  }
  for (Child& child : children)
    kill_child(child);
  expect_nothing_held(*node, node->store());
}

TEST_F(ContextProcess, NodesThatAreKilledKeepNobody) {
  constexpr int kKills = 8;
  Child node = start_node();
  std::array<Child, 2> children = {start_agent(), start_agent()};
  auto own = std::make_unique<Agent>(socket(), board_, random_());
  uint64_t steps_ns_max = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const auto act_for = [&](uint64_t ns) {
      for (const uint64_t until = monotonic_now_ns() + ns; monotonic_now_ns() < until;) {
        const uint64_t began = monotonic_now_ns();
        own->step();
        steps_ns_max = std::max(steps_ns_max, monotonic_now_ns() - began);
      }
    };
    // Until its clients have found it again.
    const uint64_t before = own->published();
    for (const uint64_t until = monotonic_now_ns() + kPatienceNs;
         own->published() == before && monotonic_now_ns() < until;)
      act_for(1'000'000);
    ASSERT_GT(own->published(), before);
    act_for(random_() % 100'000'000);
    kill_child(node);
    act_for(random_() % 20'000'000);
    node = start_node();
  }
  // A call waits for an answer as long as the client says, and that is not what it came to.
  EXPECT_LT(steps_ns_max, 4'000'000'000u);
  EXPECT_EQ(own->wrong(), 0u);
  EXPECT_GT(own->adopted(), 0u);
  own.reset();
  kill_child(node);
  const auto last = std::move(*Node::start(node_options(socket()), *counters_));
  for (const uint64_t until = monotonic_now_ns() + kPatienceNs;
       last->clients_count() < 2 && monotonic_now_ns() < until;)
    pause_thread(1'000'000);
  EXPECT_EQ(last->clients_count(), 2u) << "they live, and have found it";
  for (Child& child : children)
    kill_child(child);
  expect_nothing_held(*last, last->store());
}

}  // namespace
}  // namespace rhizome
