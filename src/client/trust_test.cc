// What a client cannot reach: the memory of another tenant, and the bytes of a committed block.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "block/oracle.h"
#include "client/attached_user_fixture.h"
#include "client/raw_client_fixture.h"
#include "codec/geometry_record.h"
#include "machine/clock.h"
#include "machine/tampering.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "node/node.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint32_t kNumbersTried = 64;

class TrustTest : public testing::Test {
 protected:
  TrustTest() { set_log_level(LogLevel::kSilent); }

  std::string socket() const { return folder_.path("run/node.sock"); }
  NodeOptions options() const {
    NodeOptions chosen{.socket_path = socket(), .memory_bytes = 8 * kMiB, .tenant = "red"};
    chosen.domains.push_back({.tenant = "blue", .memory_bytes = 8 * kMiB, .counters = blue_counters_.get()});
    return chosen;
  }
  static OpenFrame opening(std::string_view name) {
    const Keyspace keyspace = keyspace_named(name);
    const auto geometry = encode_geometry(block_of(AttachedUser::kPayloadBytes));
    return {.keyspace = {keyspace.encoding().begin(), keyspace.encoding().end()},
            .geometry = {geometry.begin(), geometry.end()}};
  }
  // The files of all memory that a client is given, whatever number it asks for.
  static std::set<uint64_t> files_of(RawClient& client) {
    std::set<uint64_t> files;
    for (const Descriptor& descriptor : client.welcome().descriptors)
      files.insert(file_number(descriptor.number()));
    for (uint32_t number = 0; number < kNumbersTried; ++number) {
      for (const AnyFrame& question : {AnyFrame(AskChunkFrame{number}), AnyFrame(AskDirectoryFrame{number})}) {
        const auto reply = client.ask(question);
        if (!reply) ADD_FAILURE() << "the node has hung up";
        for (const Descriptor& descriptor : reply.descriptors)
          files.insert(file_number(descriptor.number()));
      }
    }
    return files;
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
  const std::unique_ptr<Counters> blue_counters_ = Counters::local();
};

TEST_F(TrustTest, TenantsShareNoBlockAndNoMemory) {
  const auto node = std::move(*Node::start(options(), *counters_));
  AttachedUser red(socket(), "k", kMiB, "red");
  AttachedUser blue(socket(), "k", kMiB, "blue");
  const auto prompt = chain(1, 100);
  EXPECT_EQ(red.put(prompt), 100u);
  EXPECT_EQ(red.get(prompt), 100u);
  EXPECT_EQ(blue.get(prompt), 0u) << "the same keyspace of another tenant";
  EXPECT_EQ(node->store_of("blue")->index_usage().blocks, 0u);
  const uint64_t red_used = counters_->get(Counter::kMemoryUsed);
  EXPECT_EQ(blue.put(chain(500, 20)), 20u);
  EXPECT_EQ(counters_->get(Counter::kMemoryUsed), red_used);
  EXPECT_GT(blue_counters_->get(Counter::kMemoryUsed), 0u);
  RawClient blue_raw(socket(), "blue");
  const auto cleared = blue_raw.ask(ClearFrame{});
  EXPECT_EQ(std::get<ClearedFrame>(cleared.frame).blocks_count, 20u);
  EXPECT_EQ(red.get(prompt), 100u) << "what another tenant clears is its own";
  EXPECT_EQ(red.wrong + blue.wrong, 0u);

  RawClient red_raw(socket(), "red");
  const std::set<uint64_t> red_files = files_of(red_raw);
  const std::set<uint64_t> blue_files = files_of(blue_raw);
  // Two pages, the index, one segment, and chunks.
  EXPECT_GE(red_files.size(), 5u);
  EXPECT_GE(blue_files.size(), 5u);
  std::vector<uint64_t> both;
  std::ranges::set_intersection(red_files, blue_files, std::back_inserter(both));
  EXPECT_TRUE(both.empty());
}

// Whatever number of the other tenant's a client says, it is looked up among its own.
TEST_F(TrustTest, NumbersOfAnotherTenantNameNothing) {
  const auto node = std::move(*Node::start(options(), *counters_));
  RawClient red(socket(), "red");
  RawClient blue(socket(), "blue");
  const auto opened = red.ask(opening("k"));
  const auto* const keyspace = std::get_if<OpenedFrame>(&opened.frame);
  ASSERT_NE(keyspace, nullptr);
  const auto prompt = chain(1, 1);
  std::ranges::copy(std::as_bytes(std::span(prompt)), red.staging().bytes().begin());
  std::ranges::copy(std::as_bytes(std::span(prompt)), blue.staging().bytes().begin());
  const CommitFrame commit{
      .keyspace = keyspace->keyspace, .tokens = {0, 16}, .blocks_count = 1, .payloads_offset = 4096};
  const LoadFrame load{{.keyspace = keyspace->keyspace, .tokens = {0, 16}, .first = 0, .end = 1}};
  EXPECT_EQ(red.code_of(commit), Code::kOk);
  EXPECT_EQ(red.code_of(AskRootFrame{keyspace->keyspace}), Code::kOk);
  EXPECT_EQ(red.code_of(AskChunkFrame{0}), Code::kOk);
  EXPECT_EQ(red.code_of(AskDirectoryFrame{1}), Code::kOk);
  EXPECT_EQ(red.code_of(load), Code::kOk);

  EXPECT_NE(blue.code_of(commit), Code::kOk);
  EXPECT_NE(blue.code_of(AskRootFrame{keyspace->keyspace}), Code::kOk);
  EXPECT_EQ(blue.code_of(ClearFrame{keyspace->keyspace}), Code::kNotFound);
  EXPECT_EQ(node->store_of("red")->index_usage().blocks, 1u);
  EXPECT_EQ(blue.code_of(AskChunkFrame{0}), Code::kNotFound);
  EXPECT_EQ(blue.code_of(AskDirectoryFrame{1}), Code::kNotFound);
  const auto loading = blue.ask(load);
  ASSERT_TRUE(loading && std::holds_alternative<LoadingFrame>(loading.frame));
  EXPECT_EQ(std::get<LoadingFrame>(loading.frame).end, 0u);
  // The same numbers once they are its own: another keyspace, with nothing in it.
  const auto own = blue.ask(opening("k"));
  EXPECT_EQ(std::get<OpenedFrame>(own.frame).keyspace.number, keyspace->keyspace.number);
  EXPECT_EQ(node->store_of("blue")->index_usage().blocks, 0u);
  EXPECT_EQ(blue.code_of(commit), Code::kOk);
  EXPECT_EQ(node->store_of("blue")->index_usage().blocks, 1u);
  EXPECT_EQ(node->store_of("red")->index_usage().blocks, 1u);
  const auto cleared = blue.ask(ClearFrame{keyspace->keyspace});
  EXPECT_EQ(std::get<ClearedFrame>(cleared.frame).blocks_count, 1u);
  EXPECT_EQ(node->store_of("red")->index_usage().blocks, 1u);
}

TEST_F(TrustTest, WhoIsNotServedIsToldSo) {
  const auto node = std::move(*Node::start(options(), *counters_));
  EXPECT_EQ(node->store_of("green"), nullptr);
  for (const char* const tenant : {"", "green", "re", "red ", "Red"}) {
    RawClient stranger(socket(), tenant);
    ASSERT_TRUE(stranger.welcome());
    const auto* const error = std::get_if<ErrorFrame>(&stranger.welcome().frame);
    ASSERT_NE(error, nullptr) << tenant;
    EXPECT_EQ(error->code, Code::kPermissionDenied);
    EXPECT_TRUE(stranger.welcome().descriptors.empty());
    EXPECT_FALSE(stranger.ask(AskDirectoryFrame{0})) << "the node has hung up";
  }
  // A second hello changes nothing: the session is over.
  EXPECT_EQ(counters_->get(Counter::kClientsAttached), 0u);
  RawClient blue(socket(), "blue");
  EXPECT_TRUE(blue.is_welcome());
  EXPECT_EQ(blue_counters_->get(Counter::kClientsAttached), 1u);
  const uint64_t dropped = counters_->get(Counter::kClientsDroppedMisuse);
  EXPECT_EQ(dropped, 0u) << "who is refused has misused nothing";
  EXPECT_FALSE(blue.ask(HelloFrame{.tenant = "red"}));
  EXPECT_EQ(counters_->get(Counter::kClientsDroppedMisuse), dropped + 1);
}

TEST_F(TrustTest, ATenantComesOnce) {
  NodeOptions chosen = options();
  chosen.domains.push_back({.tenant = "red", .memory_bytes = 8 * kMiB});
  EXPECT_EQ(Node::start(std::move(chosen), *counters_).error().code, Code::kInvalidArgument);
  NodeOptions small = options();
  small.domains.push_back({.tenant = "green"});
  EXPECT_EQ(Node::start(std::move(small), *counters_).error().code, Code::kInvalidArgument) << "without memory";
}

// --- committed bytes

void expect_unchangeable(const Descriptor& given, uint64_t bytes, const char* what) {
  for (const std::string& way : ways_to_change(given, bytes))
    ADD_FAILURE() << what << ": " << way;
}

TEST_F(TrustTest, ACommittedBlockCannotBeChanged) {
  const auto node = std::move(*Node::start(options(), *counters_));
  AttachedUser good(socket(), "k", kMiB, "red");
  const auto prompt = chain(1, 100);
  ASSERT_EQ(good.put(prompt), 100u);
  RawClient client(socket(), "red");
  size_t tried = 0;
  for (uint32_t number = 0; number < kNumbersTried; ++number) {
    if (auto reply = client.ask(AskChunkFrame{number}); reply && reply.code() == Code::kOk) {
      expect_unchangeable(reply.descriptors[0], std::get<ChunkFrame>(reply.frame).bytes, "a chunk");
      ++tried;
    }
    if (auto reply = client.ask(AskDirectoryFrame{number}); reply && reply.code() == Code::kOk) {
      expect_unchangeable(reply.descriptors[0], std::get<DirectoryFrame>(reply.frame).bytes, "index or directory");
      ++tried;
    }
  }
  EXPECT_GE(tried, 3u);
  expect_unchangeable(client.welcome().descriptors[1], 4096, "the notice page");
  EXPECT_EQ(good.get(prompt), 100u);
  EXPECT_EQ(good.wrong, 0u);
  // The positive twin: what is meant to be written to can be.
  const Mapping page = *Mapping::attach_shared(client.welcome().descriptors[0], 4096, Mapping::Access::kWrite);
  page.bytes()[4000] = std::byte{1};
  EXPECT_FALSE(ways_to_change(client.welcome().descriptors[0], 4096).empty());
}

// What was committed is the node's copy.
TEST_F(TrustTest, StagingThatChangesAfterTheCommit) {
  const auto node = std::move(*Node::start(options(), *counters_));
  RawClient client(socket(), "red");
  const auto opened = client.ask(opening("k"));
  const KeyspaceNumber number = std::get<OpenedFrame>(opened.frame).keyspace;
  const auto prompt = chain(1, 1);
  const std::span<std::byte> staging = client.staging().bytes();
  std::ranges::copy(std::as_bytes(std::span(prompt)), staging.begin());
  fill_oracle(staging.subspan(4096, AttachedUser::kPayloadBytes), keyspace_named("k").digest(), prompt);
  ASSERT_EQ(
      client.code_of(CommitFrame{.keyspace = number, .tokens = {0, 16}, .blocks_count = 1, .payloads_offset = 4096}),
      Code::kOk);
  std::ranges::fill(staging, std::byte{0x5a});
  AttachedUser good(socket(), "k", kMiB, "red");
  EXPECT_EQ(good.get(prompt), 1u);
  EXPECT_EQ(good.wrong, 0u);
}

// --- quotas

// Who keeps more than it may is told, and what it kept is free; who keeps less is left alone, as is who lets go in
// time.
TEST_F(TrustTest, WhoKeepsTooMuchForTooLongIsDropped) {
  NodeOptions chosen = options();
  chosen.pinned_bytes_max = 50 * 3200;
  chosen.pinned_grace_ns = 20'000'000;
  const auto node = std::move(*Node::start(std::move(chosen), *counters_));
  AttachedUser greedy(socket(), "k", kMiB, "red");
  AttachedUser modest(socket(), "k", kMiB, "red");
  const auto prompt = chain(1, 100);
  ASSERT_EQ(greedy.put(prompt), 100u);
  const auto head = chain(5000, 40);
  ASSERT_EQ(modest.put(head), 40u);
  EXPECT_EQ(modest.get(head), 40u);
  EXPECT_EQ(greedy.get(prompt), 100u);
  const uint64_t began = monotonic_now_ns();
  while (node->over_quota_count() == 0 && monotonic_now_ns() < began + 10'000'000'000)
    pause_thread(1'000'000);
  EXPECT_EQ(node->over_quota_count(), 1u);
  EXPECT_EQ(counters_->get(Counter::kClientsDroppedQuota), 1u);
  EXPECT_EQ(blue_counters_->get(Counter::kClientsDroppedQuota), 0u);
  EXPECT_GE(monotonic_now_ns() - began, 15'000'000u) << "not before the grace time is over";
  // It may attach again, with nothing held. What it had found is not believed any more, and what only it has kept can
  // go.
  EXPECT_EQ(greedy.check(prompt), 0u);
  EXPECT_EQ(node->store_of("red")->clear(), 100u);
  EXPECT_EQ(modest.check(head), 40u);
  EXPECT_EQ(greedy.wrong + modest.wrong, 0u);
  greedy.hit.release();
}

}  // namespace
}  // namespace rhizome
