// A node and clients in other processes, which are killed in the middle of what they do; and clients that mean harm.
#include <array>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/frame.h"
#include "client/attached_user_fixture.h"
#include "client/test_process.h"
#include "machine/clock.h"
#include "machine/forked_child.h"
#include "machine/local_socket.h"
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

constexpr const char* kSocketVariable = "RHIZOME_TEST_NODE_SOCKET";
constexpr const char* kSeedVariable = "RHIZOME_TEST_NODE_SEED";

std::vector<Token> prompt_of(std::mt19937_64& random) {
  std::vector<Token> prompt = chain(static_cast<Token>(1000 * (random() % 5)), 20);
  const auto rest = chain(static_cast<Token>(100'000 + 100 * (random() % 20)), 10);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  return prompt;
}

// Not a test of its own: what the others start in processes of their own. Exit status 3: wrong bytes.
TEST(AttachedChild, StoresAndReadsUntilItIsKilled) {
  const char* const socket = std::getenv(kSocketVariable);
  if (socket == nullptr) GTEST_SKIP() << "only in a child of AttachedProcess";
  set_log_level(LogLevel::kSilent);
  std::mt19937_64 random(std::stoull(std::getenv(kSeedVariable)));
  AttachedUser user(socket);
  for (;;) {
    const std::vector<Token> prompt = prompt_of(random);
    const uint64_t how = random() % 4;
    if (how == 0) user.put(prompt);
    // On the way while it reads, and maybe when it is killed.
    if (how == 1) user.put_later(prompt);
    user.get(prompt);
    user.check(prompt);
    if (user.wrong > 0) std::_Exit(3);
    if (random() % 4 == 0) user.hit.release();
  }
}

class AttachedProcess : public testing::Test {
 protected:
  AttachedProcess() { set_log_level(LogLevel::kSilent); }

  NodeOptions options() const {
    NodeOptions chosen{.socket_path = socket(), .memory_bytes = 4 << 20};
    chosen.tier = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = 4 << 20});
    chosen.tiering.admission.unused_wait_ns = 0;
    return chosen;
  }
  std::string socket() const { return folder_.path("run/node.sock"); }
  Child start_user(uint64_t seed) const {
    return start_test_process("AttachedChild.*", {{kSocketVariable, socket()}, {kSeedVariable, std::to_string(seed)}});
  }
  static void expect_nothing_held(const Node& node, Store& store) {
    const uint64_t began = monotonic_now_ns();
    while (node.clients_count() > 0 && monotonic_now_ns() < began + 10'000'000'000)
      pause_thread(100'000);
    EXPECT_EQ(node.clients_count(), 0u);
    // Loads that a client asked for end by themselves.
    store.clear();
    while ((store.index_usage().blocks > 0 || store.slab_usage().stored_bytes > 0) &&
           monotonic_now_ns() < began + 10'000'000'000) {
      pause_thread(1'000'000);
      store.clear();
    }
    EXPECT_EQ(store.index_usage().blocks, 0u);
    EXPECT_EQ(store.index_usage().withheld_blocks, 0u);
    const SlabUsage slab = store.slab_usage();
    EXPECT_EQ(slab.stored_bytes + slab.pinned_bytes, 0u);
    EXPECT_EQ(slab.reserved_slots + slab.doomed_slots, 0u);
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
};

TEST_F(AttachedProcess, ClientsThatAreKilledLeaveNothing) {
  constexpr int kKills = 30;
  constexpr size_t kUsers = 3;
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto node = std::move(*Node::start(options(), *counters_));
  std::array<Child, kUsers> children;
  for (Child& child : children)
    child = start_user(random());
  AttachedUser own(socket());
  for (int kill = 0; kill < kKills; ++kill) {
    Child& victim = children[random() % kUsers];
    // Their lives are short, and end anywhere.
    const uint64_t until = monotonic_now_ns() + random() % 60'000'000;
    while (monotonic_now_ns() < until) {
      const std::vector<Token> prompt = prompt_of(random);
      own.put(prompt);
      own.get(prompt);
    }
    ASSERT_FALSE(victim.try_wait()) << "it has ended by itself";
    ASSERT_TRUE(victim.signal(random() % 4 == 0 ? SIGSTOP : SIGKILL));
    if (random() % 2 == 0) static_cast<void>(victim.signal(SIGCONT));
    static_cast<void>(victim.signal(SIGKILL));
    victim.wait();
    victim = start_user(random());
  }
  for (Child& child : children) {
    ASSERT_FALSE(child.try_wait()) << "it has ended by itself";
    child.terminate(0);
  }
  EXPECT_EQ(own.wrong, 0u);
  own.hit.release();
  EXPECT_GT(node->store().index_usage().blocks, 0u);
  EXPECT_EQ(node->clients_count() > 0, true);
  own.hit = Hit();
  own.close();
  expect_nothing_held(*node, node->store());
}

// What it handed over would be believed.
TEST(AttachedToAnother, ANodeOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs to be another user";
  constexpr uid_t kNobody = 65534;
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  const std::string path = folder.path("run/node.sock");
  ForkedChild other([&] {
    if (::setuid(kNobody) != 0) return 1;
    const Result<LocalListener> listener = LocalListener::listen(path);
    if (!listener) return 2;
    for (;;)
      pause_thread(1'000'000'000);
  });
  const auto counters = Counters::local();
  Result<std::unique_ptr<Client>> client = fail(Code::kNotFound, "");
  while (!client && (client.error().code == Code::kNotFound || client.error().code == Code::kUnavailable)) {
    pause_thread(1'000'000);
    client = make_attached_client({.socket_path = path, .staging_bytes = 1 << 20}, *counters);
  }
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, Code::kPermissionDenied);
}

TEST_F(AttachedProcess, ANodeThatComesAndGoes) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  auto node = std::move(*Node::start(options(), *counters_));
  std::array<Child, 2> children;
  for (Child& child : children)
    child = start_user(random());
  for (int round = 0; round < 4; ++round) {
    const uint64_t blocks = 100;
    const uint64_t began = monotonic_now_ns();
    while (node->store().index_usage().blocks < blocks && monotonic_now_ns() < began + 20'000'000'000)
      pause_thread(1'000'000);
    EXPECT_GE(node->store().index_usage().blocks, blocks) << "they have found it again";
    node.reset();
    pause_thread(random() % 20'000'000);
    node = std::move(*Node::start(options(), *counters_));
  }
  for (Child& child : children) {
    ASSERT_FALSE(child.try_wait()) << "it has ended by itself";
    child.terminate(0);
  }
}

// --- clients that mean harm

class HostileClient : public AttachedProcess {
 protected:
  LocalSocket connect() { return std::move(*LocalSocket::connect(socket(), monotonic_now_ns() + 1'000'000'000)); }
  static uint64_t soon() { return monotonic_now_ns() + 5'000'000'000; }
  static Status send(LocalSocket& socket, const AnyFrame& frame, std::span<const int> descriptors = {}) {
    return socket.send(*encode_frame(frame, 7), soon(), descriptors);
  }
  // The next message; nothing: the node has hung up.
  static std::optional<AnyFrame> next(LocalSocket& socket) {
    std::vector<std::byte> room(kMessageBytesMax);
    const Result<ReceivedMessage> message = socket.receive(room, soon());
    if (!message) {
      EXPECT_NE(message.error().code, Code::kDeadlineExceeded) << "the node says nothing";
      return std::nullopt;
    }
    if (message->has_ended) return std::nullopt;
    return *decode_frame(std::span<const std::byte>(room).first(message->bytes));
  }
  static bool is_refused(const std::optional<AnyFrame>& answer) {
    return answer && std::holds_alternative<ErrorFrame>(*answer);
  }
  // The code of what it is told before the node hangs up; kOk: nothing.
  static Code refusal(LocalSocket& socket) {
    Code code = Code::kOk;
    while (const std::optional<AnyFrame> frame = next(socket)) {
      if (const auto* const error = std::get_if<ErrorFrame>(&*frame)) code = error->code;
    }
    return code;
  }
  LocalSocket welcomed(const Mapping& staging) {
    LocalSocket socket = connect();
    const int descriptor = staging.descriptor();
    EXPECT_TRUE(send(socket, HelloFrame{.staging_bytes = staging.bytes().size()}, std::span(&descriptor, 1)));
    const std::optional<AnyFrame> frame = next(socket);
    EXPECT_TRUE(frame && std::holds_alternative<WelcomeFrame>(*frame));
    return socket;
  }
};

TEST_F(HostileClient, IsDroppedAndTheOthersNoticeNothing) {
  const auto node = std::move(*Node::start(options(), *counters_));
  AttachedUser good(socket());
  const auto prompt = chain(1, 10);
  EXPECT_EQ(good.put(prompt), 10u);
  const auto expect_good = [&] {
    EXPECT_EQ(good.get(prompt), 10u);
    EXPECT_EQ(good.wrong, 0u);
  };
  {
    LocalSocket socket = connect();
    const std::array<std::byte, 100> garbage{std::byte{1}};
    ASSERT_TRUE(socket.send(garbage, soon()));
    EXPECT_EQ(refusal(socket), Code::kOk);
  }
  for (const AnyFrame& frame : {AnyFrame(AskRootFrame{}), AnyFrame(WelcomeFrame{}), AnyFrame(CommitFrame{})}) {
    LocalSocket socket = connect();
    ASSERT_TRUE(send(socket, frame));
    EXPECT_EQ(refusal(socket), Code::kOk) << "nothing is said before hello";
  }
  {
    LocalSocket socket = connect();
    ASSERT_TRUE(send(socket, HelloFrame{.protocol_version = kProtocolVersion + 1}));
    EXPECT_EQ(refusal(socket), Code::kFailedPrecondition);
  }
  // Staging memory that could be taken away, that is another size, or is none.
  const int unsealed = ::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(::ftruncate(unsealed, 8192), 0);
  const Mapping other = *Mapping::shareable(4096, Mapping::Sharing::kWritable);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  for (const int descriptor : {unsealed, other.descriptor(), ends[0]}) {
    LocalSocket socket = connect();
    ASSERT_TRUE(send(socket, HelloFrame{.staging_bytes = 8192}, std::span(&descriptor, 1)));
    EXPECT_NE(refusal(socket), Code::kOk);
    expect_good();
  }
  ::close(unsealed);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(HostileClient, WhoSaysNothingGivesItsPlaceBack) {
  NodeOptions few = options();
  few.clients_max = 2;
  few.pinned_grace_ns = 50'000'000;  // looked at twice as often
  few.hello_wait_ns = 50'000'000;
  const auto node = std::move(*Node::start(std::move(few), *counters_));
  AttachedUser good(socket());
  const auto prompt = chain(1, 4);
  EXPECT_EQ(good.put(prompt), 4u);
  LocalSocket silent = connect();
  std::array<std::byte, 16> room{};
  const Result<ReceivedMessage> end = silent.receive(room, soon());
  EXPECT_TRUE(end && end->has_ended);
  AttachedUser next(socket());
  EXPECT_EQ(next.get(prompt), 4u);
  EXPECT_EQ(good.get(prompt), 4u);
  EXPECT_EQ(node->over_quota_count(), 0u);
}

TEST_F(HostileClient, NumbersThatPointNowhereAreRefused) {
  const auto node = std::move(*Node::start(options(), *counters_));
  AttachedUser good(socket());
  const auto prompt = chain(1, 10);
  EXPECT_EQ(good.put(prompt), 10u);
  const Mapping staging = *Mapping::shareable(1 << 16, Mapping::Sharing::kWritable);
  LocalSocket socket = welcomed(staging);
  const KeyspaceNumber first{1, node->store().shared_root({1, 1}).run == 0 ? 0u : 1u};
  const std::vector<AnyFrame> questions = {
      AskChunkFrame{UINT32_MAX},
      AskDirectoryFrame{UINT32_MAX},
      AskRootFrame{{77, 1}},
      OpenFrame{.keyspace = std::vector<std::byte>(100), .geometry = std::vector<std::byte>(24)},
      CommitFrame{.keyspace = first, .tokens = {UINT64_MAX - 3, 16}, .blocks_count = 1},
      CommitFrame{.keyspace = first, .tokens = {0, UINT32_MAX}, .blocks_count = 1},
      CommitFrame{.keyspace = first, .tokens = {1, 16}, .blocks_count = 1},
      CommitFrame{.keyspace = first, .tokens = {0, 16}, .blocks_count = UINT32_MAX},
      CommitFrame{.keyspace = first, .tokens = {0, 16}, .blocks_count = 1, .payloads_offset = 65535},
      CommitFrame{.keyspace = first, .tokens = {0, 32}, .first_block = 1, .blocks_count = 1, .payloads_offset = 4096},
      LoadFrame{{.keyspace = first, .tokens = {1 << 20, 16}, .first = 0, .end = 1}},
      AnnounceFrame{{.keyspace = {77, 1}, .tokens = {0, 16}, .first = 0, .end = 1}, 1},
      AnnounceFrame{{.keyspace = first, .tokens = {0, 16}, .first = 0, .end = 2}, 1},
      AnnounceFrame{{.keyspace = first, .tokens = {0, 16}, .first = 1, .end = 1}, UINT64_MAX},
      AnnounceFrame{{.keyspace = first, .tokens = {1 << 20, 16}, .first = 0, .end = 1}, 1},
      WaitFrame{{.keyspace = first, .tokens = {0, 16}, .first = 0, .end = UINT32_MAX}, 1},
      WaitFrame{{.keyspace = {1, 77}, .tokens = {0, 16}, .first = 0, .end = 1}, UINT64_MAX},
      ExplainFrame{first, {1 << 20, 16}},
      ExplainFrame{{77, 1}, {0, 16}},
      ReportFrame{{.keyspace = first, .tokens = {0, 0}, .first = 0, .end = 0}},
      ReportFrame{{.keyspace = first, .tokens = {0, 16}, .first = 0, .end = 9}},
      StatsFrame{},
  };
  for (size_t i = 0; i + 1 < questions.size(); ++i) {
    ASSERT_TRUE(send(socket, questions[i]));
    EXPECT_TRUE(is_refused(next(socket))) << i;
  }
  ASSERT_TRUE(send(socket, questions.back()));
  EXPECT_FALSE(next(socket)) << "only a node sends that";
  EXPECT_EQ(good.get(prompt), 10u);
  EXPECT_EQ(good.wrong, 0u);
}

// Who says that others' blocks are wrong, and gives others' claims up.
TEST_F(HostileClient, LiesChangeNothing) {
  const auto node = std::move(*Node::start(options(), *counters_));
  AttachedUser good(socket());
  const auto prompt = chain(1, 4);
  EXPECT_EQ(good.put(prompt), 4u);
  const auto longer = chain(1, 6);
  const Announcement announcement = good.client->announce(good.id, longer, 4, 6, 60'000'000'000);
  EXPECT_TRUE(announcement.is_ours());
  const Mapping staging = *Mapping::shareable(1 << 16, Mapping::Sharing::kWritable);
  std::memcpy(staging.bytes().data(), prompt.data(), prompt.size() * sizeof(Token));
  LocalSocket socket = welcomed(staging);
  // The keyspace that the good one has opened.
  const Root root = *node->store().open(keyspace_named("a"), block_of(AttachedUser::kPayloadBytes));
  const KeyspaceNumber keyspace{root.value, root.generation};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(send(socket, ReportFrame{{.keyspace = keyspace, .tokens = {0, 64}, .first = 3, .end = 4}}));
    const std::optional<AnyFrame> reported = next(socket);
    EXPECT_TRUE(reported == AnyFrame(ReportedFrame{4}));
  }
  for (uint64_t claim = 0; claim < 10; ++claim)
    ASSERT_TRUE(send(socket, WithdrawFrame{claim}));
  ASSERT_TRUE(send(socket, ObserveFrame{UINT32_MAX, UINT32_MAX, UINT64_MAX}));
  ASSERT_TRUE(send(socket, AskRootFrame{keyspace}));
  ASSERT_TRUE(next(socket)) << "and all before it was heard";
  EXPECT_EQ(counters_->get(Counter::kReportsRefuted), 3u);
  EXPECT_EQ(counters_->get(Counter::kQuarantines), 0u);
  EXPECT_EQ(good.get(prompt), 4u);
  AttachedUser other(this->socket());
  EXPECT_EQ(other.client->explain(other.id, longer), Reason::kInFlight) << "the claim is still there";
  EXPECT_EQ(good.client->explain(good.id, longer), Reason::kNeverStored) << "nobody else computes it";
  EXPECT_EQ(good.wrong, 0u);
}

// Who scribbles over its lease page holds things, and nobody comes to harm.
TEST_F(HostileClient, ALeasePageFullOfNonsense) {
  const auto node = std::move(*Node::start(options(), *counters_));
  AttachedUser good(socket());
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  LocalSocket socket = connect();
  ASSERT_TRUE(send(socket, HelloFrame{}));
  std::vector<std::byte> room(kMessageBytesMax);
  const Result<ReceivedMessage> welcome = socket.receive(room, soon());
  ASSERT_TRUE(welcome);
  ASSERT_EQ(welcome->descriptors.size(), 2u);
  const Mapping page = *Mapping::attach_shared(welcome->descriptors[0], 4096, Mapping::Access::kWrite);
  EXPECT_FALSE(Mapping::attach_shared(welcome->descriptors[1], 4096, Mapping::Access::kWrite)) << "the notice page";
  for (int round = 0; round < 300; ++round) {
    for (std::byte& byte : page.bytes())
      byte = static_cast<std::byte>(random() % (round % 2 == 0 ? 256 : 3));
    const std::vector<Token> prompt = prompt_of(random);
    good.put(prompt);
    good.get(prompt);
  }
  EXPECT_EQ(good.wrong, 0u);
  good.hit = Hit();
  good.close();
  socket.close();
  expect_nothing_held(*node, node->store());
}

// Questions without end, whose answers nobody reads.
TEST_F(HostileClient, WhoDoesNotReadTheAnswersIsDropped) {
  const auto node = std::move(*Node::start(options(), *counters_));
  const Mapping staging = *Mapping::shareable(1 << 16, Mapping::Sharing::kWritable);
  LocalSocket socket = welcomed(staging);
  const uint64_t began = monotonic_now_ns();
  while (send(socket, AskDirectoryFrame{0}) && monotonic_now_ns() < began + 10'000'000'000) {
  }
  while (node->clients_count() > 0 && monotonic_now_ns() < began + 10'000'000'000)
    pause_thread(100'000);
  EXPECT_EQ(node->clients_count(), 0u);
  AttachedUser good(this->socket());
  EXPECT_EQ(good.put(chain(1, 3)), 3u);
}

}  // namespace
}  // namespace rhizome
