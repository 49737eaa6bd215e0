// Nodes in processes of their own that are killed at any moment, and the keeper that holds their memory meanwhile.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>

#include "client/attached_user_fixture.h"
#include "client/test_process.h"
#include "machine/clock.h"
#include "machine/host.h"
#include "machine/local_socket.h"
#include "machine/process.h"
#include "machine/random.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "node/keeper.h"
#include "node/node.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr const char* kKeeperVariable = "RHIZOME_TEST_KEEPER";
constexpr const char* kKeeperWaitVariable = "RHIZOME_TEST_KEEPER_WAIT_NS";
constexpr const char* kNodeVariable = "RHIZOME_TEST_RESTART_NODE";
constexpr const char* kUserVariable = "RHIZOME_TEST_RESTART_USER";
constexpr const char* kSeedVariable = "RHIZOME_TEST_RESTART_SEED";
constexpr const char* kBytesVariable = "RHIZOME_TEST_RESTART_BYTES";
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPatienceNs = 20'000'000'000;

// Not tests of their own: what the others start in processes of their own.
TEST(RestartChild, Keeper) {
  const std::string path = variable_text(kKeeperVariable);
  if (path.empty()) GTEST_SKIP() << "only in a child of Restart";
  const std::string wait = variable_text(kKeeperWaitVariable);
  std::_Exit(run_keeper(path, wait.empty() ? kKeeperWaitNs : std::stoull(wait)) ? 0 : 1);
}

NodeOptions node_options(const std::string& socket, uint64_t memory_bytes) {
  NodeOptions options{.socket_path = socket, .memory_bytes = memory_bytes};
  options.keeper = {.socket_path = socket + ".keeper",
                    .command = {*own_executable_path(), "--gtest_filter=RestartChild.Keeper"},
                    .environment = {{kKeeperVariable, socket + ".keeper"}}};
  return options;
}

TEST(RestartChild, NodeUntilItIsKilled) {
  const std::string socket = variable_text(kNodeVariable);
  if (socket.empty()) GTEST_SKIP() << "only in a child of Restart";
  set_log_level(LogLevel::kSilent);
  const auto counters = Counters::local();
  const auto node = Node::start(node_options(socket, std::stoull(variable_text(kBytesVariable))), *counters);
  if (!node) std::_Exit(4);
  for (;;)
    pause_thread(1'000'000'000);
}

// Exit status 3: wrong bytes.
TEST(RestartChild, UserUntilItIsKilled) {
  const std::string socket = variable_text(kUserVariable);
  if (socket.empty()) GTEST_SKIP() << "only in a child of Restart";
  set_log_level(LogLevel::kSilent);
  std::mt19937_64 random(std::stoull(variable_text(kSeedVariable)));
  AttachedUser user(socket);
  for (;;) {
    const auto prompt = chain(static_cast<Token>(100 * (random() % 300)), 10 + random() % 30);
    if (random() % 2 == 0) user.put(prompt);
    user.get(prompt);
    if (user.wrong > 0) std::_Exit(3);
    if (random() % 4 == 0) user.hit.release();
  }
}

class Restart : public testing::Test {
 protected:
  Restart() { set_log_level(LogLevel::kSilent); }

  std::string socket() const { return folder_.path("run/node.sock"); }
  std::string keeper_socket() const { return socket() + ".keeper"; }
  Child start_node(uint64_t memory_bytes = 64 * kMiB) const {
    return start_test_process("RestartChild.NodeUntilItIsKilled",
                              {{kNodeVariable, socket()}, {kBytesVariable, std::to_string(memory_bytes)}});
  }
  Child start_user(uint64_t seed) const {
    return start_test_process("RestartChild.UserUntilItIsKilled",
                              {{kUserVariable, socket()}, {kSeedVariable, std::to_string(seed)}});
  }
  std::unique_ptr<Node> start_here(uint64_t memory_bytes = 64 * kMiB) {
    Result<std::unique_ptr<Node>> node = Node::start(node_options(socket(), memory_bytes), *counters_);
    EXPECT_TRUE(node) << (node ? "" : node.error().reason);
    return std::move(*node);
  }
  // The process that holds memory, if there is one.
  pid_t keeper_pid() const {
    const Result<LocalSocket> keeper = LocalSocket::connect(keeper_socket(), monotonic_now_ns() + 1'000'000'000);
    if (!keeper) return 0;
    return keeper->peer_credentials()->pid;
  }
  static bool is_there(const std::string& path) {
    const Result<LocalSocket> socket = LocalSocket::connect(path, 0);
    return socket || socket.error().code != Code::kNotFound;
  }
  // Nobody holds memory, and no socket is left.
  void expect_nothing_left() const {
    EXPECT_TRUE(comes_true([this] { return !is_there(keeper_socket()); }));
    EXPECT_FALSE(is_there(socket()));
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
};

TEST_F(Restart, CommittedBlocksAreWarmAfterAKill) {
  Child child = start_node();
  size_t committed = 0;
  std::vector<std::vector<Token>> prompts;
  {
    AttachedUser user(socket());
    for (Token start = 0; start < 50; ++start) {
      prompts.push_back(chain(start * 1000, 100));
      committed += user.put(prompts.back());
    }
    ASSERT_EQ(committed, 5000u);
    EXPECT_EQ(user.get(prompts[3]), 100u);
    user.hit.release();
    ASSERT_TRUE(child.signal(SIGKILL));
    child.wait();
    EXPECT_EQ(user.get(prompts[3]), 100u) << "what was mapped stays";
    EXPECT_EQ(user.wrong, 0u);
  }
  const auto node = start_here();
  EXPECT_EQ(node->adoption().offered_blocks, committed);
  EXPECT_EQ(node->adoption().warm_blocks, committed);
  EXPECT_EQ(counters_->get(Counter::kBlocksAdopted), committed);
  EXPECT_EQ(counters_->get(Counter::kKeeperPresent), 1u);
  AttachedUser user(socket());
  size_t warm = 0;
  for (const auto& prompt : prompts)
    warm += user.get(prompt);
  EXPECT_EQ(warm, committed);
  // In time all of it is in the node's own memory.
  EXPECT_TRUE(comes_true([&] { return node->store().slab_usage().adopted_chunks == 0; }));
  EXPECT_EQ(node->store().slab_usage().adopted_bytes, 0u);
  EXPECT_TRUE(comes_true([&] { return counters_->get(Counter::kMemoryAdopted) == 0; }));
  warm = 0;
  for (const auto& prompt : prompts)
    warm += user.get(prompt);
  EXPECT_EQ(warm, committed);
  EXPECT_EQ(user.wrong, 0u);
}

// Under load, at any moment; some are killed before they have come to themselves, and some with the keeper.
TEST_F(Restart, KilledAgainAndAgain) {
  constexpr int kKills = 25;
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  std::array<Child, 2> users = {start_user(random()), start_user(random())};
  Child child = start_node();
  auto own = std::make_unique<AttachedUser>(socket());
  size_t committed = 0;
  size_t warm = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    const auto prompt = chain(static_cast<Token>(1'000'000 + 1000 * kill), 50);
    const size_t stored = own->put(prompt);
    own->hit = Hit();
    pause_thread(random() % 30'000'000);
    const bool with_keeper = random() % 5 == 0;
    if (with_keeper) {
      const pid_t keeper = keeper_pid();
      ASSERT_GT(keeper, 0);
      ::kill(keeper, SIGKILL);
    }
    ASSERT_TRUE(child.signal(SIGKILL));
    child.wait();
    if (random() % 3 == 0) {
      child = start_node();
      pause_thread(random() % 60'000'000);
      static_cast<void>(child.signal(SIGKILL));
      child.wait();
    }
    child = start_node();
    own = std::make_unique<AttachedUser>(socket());
    const size_t found = own->get(prompt);
    EXPECT_EQ(own->wrong, 0u);
    if (with_keeper) continue;
    committed += stored;
    warm += found;
    EXPECT_EQ(found, stored) << kill;
  }
  EXPECT_GE(static_cast<double>(warm), 0.99 * static_cast<double>(committed));
  RecordProperty("committed", static_cast<int>(committed));
  for (Child& user : users) {
    ASSERT_FALSE(user.try_wait()) << "it has ended by itself";
    user.terminate(0);
  }
  EXPECT_EQ(own->put(chain(5'000'000, 50)), 50u);
  own->hit = Hit();
  own.reset();
  ASSERT_TRUE(child.signal(SIGKILL));
  child.wait();
  // The last one stops in good order, and leaves nothing.
  {
    const auto node = start_here();
    EXPECT_GE(node->adoption().warm_blocks, 50u);
    node->store().clear();
    EXPECT_TRUE(comes_true([&] { return node->store().slab_usage().stored_bytes == 0; }));
    EXPECT_EQ(node->store().index_usage().blocks, 0u);
  }
  expect_nothing_left();
}

// What a client has mapped of a former node's memory it unmaps when it is asked to, in the middle of its reading.
TEST_F(Restart, ClientsUnmapWhatIsGone) {
  constexpr uint64_t kBlocks = 1000;
  Child child = start_node();
  {
    AttachedUser user(socket(), "a", 32 * kMiB);
    ASSERT_EQ(user.put(chain(1, kBlocks)), kBlocks);
    ASSERT_TRUE(child.signal(SIGKILL));
    child.wait();
  }
  NodeOptions chosen = node_options(socket(), 64 * kMiB);
  chosen.pinned_grace_ns = 20'000'000;  // it looks twice as often
  chosen.moved_bytes_per_second = 2'000'000;
  const auto node = std::move(*Node::start(std::move(chosen), *counters_));
  AttachedUser user(socket());
  AttachedUser second(socket());
  ASSERT_EQ(user.get(chain(1, kBlocks)), kBlocks);
  ASSERT_EQ(second.get(chain(1, kBlocks)), kBlocks);
  ASSERT_GT(node->store().slab_usage().adopted_chunks, 0u);
  EXPECT_GT(counters_->get(Counter::kMemoryAdopted), kBlocks * AttachedUser::kPayloadBytes / 2);
  EXPECT_EQ(counters_->get(Counter::kClientsAttached), 2u);
  // Where the former node has put them.
  const auto prompt = chain(1, kBlocks);
  std::vector<std::span<const std::byte>> held;
  for (size_t i = 0; i < kBlocks; ++i)
    held.push_back(second.client->read(second.hit, prompt, i).value());
  ASSERT_TRUE(comes_true([&] {
    EXPECT_EQ(user.get(chain(1, 300)), 300u);
    return node->store().slab_usage().adopted_chunks == 0;
  }));
  // It is asked to unmap, looks up other things meanwhile, and keeps what it holds.
  Hit other;
  const auto uses_another_hit = [&] {
    second.client->lookup(second.id, chain(1, 300), other);
    EXPECT_EQ(other.blocks_count(), 300u);
    other.release();
  };
  EXPECT_TRUE(comes_true([&] {
    uses_another_hit();
    return node->retired_bytes() > 0;
  }));
  for (int i = 0; i < 100; ++i)
    uses_another_hit();
  const Digest keyspace = keyspace_named("a").digest();
  for (size_t i = 0; i < kBlocks; ++i)
    ASSERT_TRUE(oracle_matches(held[i], keyspace, std::span(prompt).first((i + 1) * 16)));
  EXPECT_GT(node->retired_bytes(), 0u) << "so it cannot have been let go";
  EXPECT_GT(counters_->get(Counter::kMemoryRetired), 0u);
  second.hit.release();
  ASSERT_TRUE(comes_true([&] {
    EXPECT_EQ(user.get(chain(1, 300)), 300u);
    EXPECT_EQ(second.get(chain(1, kBlocks)), kBlocks);
    return node->retired_bytes() == 0;
  }));
  EXPECT_EQ(user.get(chain(1, kBlocks)), kBlocks);
  EXPECT_EQ(second.get(chain(1, kBlocks)), kBlocks);
  EXPECT_EQ(user.wrong + second.wrong, 0u);
  EXPECT_EQ(node->clients_count(), 2u);
  EXPECT_TRUE(comes_true([&] { return counters_->get(Counter::kMemoryRetired) == 0; }));
}

TEST_F(Restart, AKeeperThatIsGoneMeansCold) {
  {
    Child child = start_node();
    AttachedUser user(socket());
    EXPECT_EQ(user.put(chain(1, 50)), 50u);
    ASSERT_GT(keeper_pid(), 0);
    ::kill(keeper_pid(), SIGKILL);
    // The node does not need it.
    for (Token start = 1; start < 20; ++start)
      EXPECT_EQ(user.put(chain(start * 1000, 200)), 200u);
    EXPECT_EQ(user.get(chain(1, 50)), 50u);
    ASSERT_TRUE(child.signal(SIGKILL));
    child.wait();
  }
  {
    const auto node = start_here();
    EXPECT_EQ(node->adoption().offered_blocks, 0u);
    AttachedUser user(socket());
    EXPECT_EQ(user.get(chain(1, 50)), 0u);
    EXPECT_EQ(user.put(chain(1, 50)), 50u);
    EXPECT_EQ(counters_->get(Counter::kBlocksAdopted), 0u);
  }
  EXPECT_EQ(counters_->get(Counter::kClientsAttached), 0u);
  expect_nothing_left();
}

// Though nothing is handed over to it just then.
TEST_F(Restart, AKeeperThatIsGoneIsNoticed) {
  const auto node = start_here();
  ASSERT_EQ(counters_->get(Counter::kKeeperPresent), 1u);
  ASSERT_GT(keeper_pid(), 0);
  ::kill(keeper_pid(), SIGKILL);
  EXPECT_TRUE(comes_true([&] { return counters_->get(Counter::kKeeperPresent) == 0; }));
}

// It does not answer: nobody waits for it for long.
TEST_F(Restart, AKeeperThatIsStopped) {
  Child child = start_node();
  AttachedUser user(socket());
  EXPECT_EQ(user.put(chain(1, 50)), 50u);
  ASSERT_TRUE(child.signal(SIGKILL));
  child.wait();
  const pid_t keeper = keeper_pid();
  ASSERT_GT(keeper, 0);
  ::kill(keeper, SIGSTOP);
  const uint64_t began = monotonic_now_ns();
  {
    const auto node = start_here();
    EXPECT_LT(monotonic_now_ns() - began, 15'000'000'000u);
    EXPECT_EQ(node->adoption().offered_blocks, 0u);
  }
  ::kill(keeper, SIGKILL);
}

TEST_F(Restart, ANodeThatCannotStartLeavesWhatWasThere) {
  EXPECT_EQ(Node::start(node_options(socket(), 1024), *counters_).error().code, Code::kInvalidArgument);
  EXPECT_FALSE(is_there(keeper_socket())) << "nothing was there";
  {
    Child child = start_node();
    AttachedUser user(socket());
    EXPECT_EQ(user.put(chain(1, 50)), 50u);
    ASSERT_TRUE(child.signal(SIGKILL));
    child.wait();
  }
  EXPECT_EQ(Node::start(node_options(socket(), 1024), *counters_).error().code, Code::kInvalidArgument);
  ASSERT_TRUE(is_there(keeper_socket()));
  EXPECT_EQ(start_here()->adoption().warm_blocks, 50u);
}

TEST_F(Restart, AKeeperEndsWhenItsNameIsGone) {
  Child keeper = start_test_process("RestartChild.Keeper", {{kKeeperVariable, keeper_socket()}});
  ASSERT_TRUE(comes_true([&] { return keeper_pid() != 0; }));
  Child child = start_node();
  {
    AttachedUser user(socket());
    EXPECT_EQ(user.put(chain(1, 50)), 50u);
  }
  ASSERT_TRUE(child.signal(SIGKILL));
  child.wait();
  EXPECT_FALSE(keeper.try_wait()) << "it waits for the next node";
  ASSERT_EQ(::unlink(keeper_socket().c_str()), 0);
  EXPECT_TRUE(keeper.wait_for(kPatienceNs).value_or(ExitStatus{.signalled = true}).success());
}

TEST_F(Restart, AKeeperEndsByItself) {
  // Longer than a node needs to start, on a busy machine and under a sanitizer, too.
  const std::string wait = std::to_string(4'000'000'000);
  Child keeper =
      start_test_process("RestartChild.Keeper", {{kKeeperVariable, keeper_socket()}, {kKeeperWaitVariable, wait}});
  ASSERT_TRUE(comes_true([&] { return keeper_pid() != 0; }));
  Child child = start_node();
  {
    AttachedUser user(socket());
    EXPECT_EQ(user.put(chain(1, 50)), 50u);
  }
  EXPECT_FALSE(keeper.try_wait()) << "there is a node";
  ASSERT_TRUE(child.signal(SIGKILL));
  child.wait();
  EXPECT_TRUE(keeper.wait_for(kPatienceNs).value_or(ExitStatus{.signalled = true}).success());
  EXPECT_FALSE(is_there(keeper_socket()));
}

TEST_F(Restart, AnotherConfigurationStartsClean) {
  {
    Child child = start_node();
    AttachedUser user(socket());
    EXPECT_EQ(user.put(chain(1, 50)), 50u);
    ASSERT_TRUE(child.signal(SIGKILL));
    child.wait();
  }
  NodeOptions other = node_options(socket(), 64 * kMiB);
  other.tenant = "another";
  {
    const auto node = std::move(*Node::start(std::move(other), *counters_));
    EXPECT_EQ(node->adoption().offered_blocks, 0u);
    EXPECT_EQ(node->store().index_usage().blocks, 0u);
  }
  expect_nothing_left();
  NodeOptions larger = node_options(socket(), 64 * kMiB);
  larger.block_tokens = 32;
  {
    Child child = start_node();
    AttachedUser user(socket());
    EXPECT_EQ(user.put(chain(1, 50)), 50u);
    ASSERT_TRUE(child.signal(SIGKILL));
    child.wait();
  }
  const auto node = std::move(*Node::start(std::move(larger), *counters_));
  EXPECT_EQ(node->adoption().offered_blocks, 0u);
}

// Each tenant gets its own back.
TEST_F(Restart, DomainsStayApart) {
  NodeOptions chosen = node_options(socket(), 64 * kMiB);
  chosen.domains.push_back({.tenant = "blue", .memory_bytes = 32 * kMiB});
  {
    Child child = start_node();
    AttachedUser user(socket());
    EXPECT_EQ(user.put(chain(1, 50)), 50u);
    ASSERT_TRUE(child.signal(SIGKILL));
    child.wait();
  }
  const auto node = std::move(*Node::start(std::move(chosen), *counters_));
  EXPECT_EQ(node->store().index_usage().blocks, 50u);
  EXPECT_EQ(node->store_of("blue")->index_usage().blocks, 0u);
}

}  // namespace
}  // namespace rhizome
