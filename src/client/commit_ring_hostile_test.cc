// Clients that mean harm, by their commit rings.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "attach/commit_rings.h"
#include "block/oracle.h"
#include "client/attached_user_fixture.h"
#include "client/raw_client_fixture.h"
#include "client/test_process.h"
#include "codec/geometry_record.h"
#include "machine/clock.h"
#include "machine/random.h"
#include "machine/shared_futex.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "node/node.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLong = 60'000'000'000;
constexpr uint64_t kPayloadsAt = 4096;

// One that has opened a keyspace, and its side of the rings.
class RingClient {
 public:
  explicit RingClient(const std::string& socket)
      : raw_(socket),
        records_(std::get<WelcomeFrame>(raw_.welcome().frame).ring_records),
        memory_(*Mapping::attach_shared(raw_.welcome().descriptors[2], commit_rings_bytes(records_),
                                        Mapping::Access::kWrite)),
        submissions(submissions_of(memory_.bytes(), records_), records_),
        completions(completions_of(memory_.bytes(), records_), records_) {
    const Keyspace keyspace = keyspace_named("a");
    const auto geometry = encode_geometry(block_of(AttachedUser::kPayloadBytes));
    EXPECT_EQ(commit_rings_head(memory_.bytes()).is_served.load(), 0u) << "there is nothing to commit to yet";
    const auto opened = raw_.ask(OpenFrame{.keyspace = {keyspace.encoding().begin(), keyspace.encoding().end()},
                                           .geometry = {geometry.begin(), geometry.end()}});
    number_ = std::get<OpenedFrame>(opened.frame).keyspace;
    EXPECT_EQ(commit_rings_head(memory_.bytes()).is_served.load(), 1u);
  }

  RawClient& raw() { return raw_; }
  uint32_t records() const { return records_; }
  std::span<std::byte> memory() const { return memory_.bytes(); }
  std::span<std::byte> staging() const { return raw_.staging().bytes(); }
  RingWords& words() const {
    return *std::launder(reinterpret_cast<RingWords*>(submissions_of(memory_.bytes(), records_).data()));
  }
  // Tokens and oracle payloads where commit() says that they are.
  void stage(std::span<const Token> prompt) {
    std::ranges::copy(std::as_bytes(prompt), staging().begin());
    for (size_t i = 0; i < prompt.size() / 16; ++i) {
      fill_oracle(staging().subspan(kPayloadsAt + i * AttachedUser::kPayloadBytes, AttachedUser::kPayloadBytes),
                  keyspace_named("a").digest(), prompt.first((i + 1) * 16));
    }
  }
  CommitFrame commit(uint32_t blocks) const {
    return {.keyspace = number_, .tokens = {0, blocks * 16}, .blocks_count = blocks, .payloads_offset = kPayloadsAt};
  }
  bool submit(const CommitFrame& frame, uint64_t request = 1) {
    return submissions.push_until(*record_of_frame(frame, request), monotonic_now_ns() + kLong) == RingOutcome::kDone;
  }
  std::optional<RecordedFrame> completion() {
    RingRecord record;
    if (completions.pop_until(record, monotonic_now_ns() + kLong) != RingOutcome::kDone) return std::nullopt;
    return *frame_of_record(record);
  }
  // kOk: it was committed.
  Code code_of(const CommitFrame& frame) {
    if (!submit(frame)) return Code::kAborted;
    const auto ended = completion();
    if (!ended) return Code::kDeadlineExceeded;
    const auto* const error = std::get_if<ErrorFrame>(&ended->frame);
    return error == nullptr ? Code::kOk : error->code;
  }

 private:
  RawClient raw_;
  const uint32_t records_;
  const Mapping memory_;
  KeyspaceNumber number_;

 public:
  RingProducer submissions;
  RingConsumer completions;
};

class HostileRing : public testing::Test {
 protected:
  HostileRing()
      : node_(std::move(*Node::start({.socket_path = socket(), .memory_bytes = 8 * kMiB}, *counters_))),
        good_(std::make_unique<AttachedUser>(socket())) {
    set_log_level(LogLevel::kSilent);
    EXPECT_EQ(good_->put(prompt_), 10u);
  }

  std::string socket() const { return folder_.path("run/node.sock"); }
  // The good one is the only one left, and has noticed nothing.
  void expect_dropped() {
    EXPECT_TRUE(comes_true([this] { return node_->clients_count() == 1; }));
    expect_good();
    const SlabUsage slab = node_->store().slab_usage();
    EXPECT_EQ(slab.reserved_slots, 0u);
  }
  void expect_good() {
    EXPECT_EQ(good_->get(prompt_), 10u);
    good_->hit.release();
    good_->put_later(chain(++fresh_ * 1000, 2));
    EXPECT_EQ(good_->client->settle().blocks_count, 2u);
    EXPECT_EQ(good_->wrong, 0u);
  }

  TemporaryFolder folder_;
  const std::unique_ptr<Counters> counters_ = Counters::local();
  const std::vector<Token> prompt_ = chain(1, 10);
  Token fresh_ = 1000;
  std::unique_ptr<Node> node_;
  std::unique_ptr<AttachedUser> good_;
};

TEST_F(HostileRing, NumbersThatPointNowhereAreRefused) {
  RingClient client(socket());
  const auto prompt = chain(50, 4);
  client.stage(prompt);
  std::vector<CommitFrame> wrong(8, client.commit(4));
  wrong[0].keyspace = {77, 1};
  wrong[1].tokens = {UINT64_MAX - 3, 64};
  wrong[2].tokens = {1, 64};
  wrong[3].tokens = {0, UINT32_MAX};
  wrong[4].blocks_count = UINT32_MAX;
  wrong[5].payloads_offset = client.staging().size() - AttachedUser::kPayloadBytes;
  wrong[6].payloads_offset = UINT64_MAX;
  wrong[7].first_block = 1;
  for (size_t i = 0; i < wrong.size(); ++i)
    EXPECT_NE(client.code_of(wrong[i]), Code::kOk) << i;
  CommitFrame behind = client.commit(4);
  behind.first_block = 3;
  behind.blocks_count = 1;
  EXPECT_EQ(client.code_of(behind), Code::kFailedPrecondition) << "what it continues is not there";
  EXPECT_EQ(client.code_of(client.commit(4)), Code::kOk);
  EXPECT_EQ(good_->get(prompt), 4u);
  expect_good();
}

// The same bytes for all blocks, which are also the tokens: that is what it has stored, and what others find is
// whatever it put there.
TEST_F(HostileRing, PayloadsThatOverlap) {
  RingClient client(socket());
  const auto prompt = chain(50, 4);
  client.stage(prompt);
  CommitFrame overlapping = client.commit(4);
  overlapping.payloads_offset = 0;
  EXPECT_EQ(client.code_of(overlapping), Code::kOk);
  for (uint64_t request = 0; request < 10; ++request) {
    CommitFrame next = client.commit(4);
    next.payloads_offset = 100 * request;
    ASSERT_TRUE(client.submit(next, request));
  }
  for (uint64_t request = 0; request < 10; ++request)
    EXPECT_TRUE(client.completion());
  Hit hit;
  good_->client->lookup(good_->id, prompt, hit);
  EXPECT_EQ(hit.blocks_count(), 4u);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(good_->client->read(hit, prompt, i)) << "it has its checksum";
  hit.release();
  expect_good();
}

TEST_F(HostileRing, RecordsThatMakeNoSense) {
  RingRecord noise;
  noise.bytes.fill(std::byte{0xee});
  for (const RingRecord& record :
       {noise, RingRecord{}, *record_of_frame(GoodbyeFrame{}, 1), *record_of_frame(AskStatsFrame{}, 1)}) {
    RingClient client(socket());
    const uint64_t dropped = counters_->get(Counter::kClientsDroppedMisuse);
    ASSERT_EQ(client.submissions.push(record), RingOutcome::kDone);
    expect_dropped();
    EXPECT_EQ(counters_->get(Counter::kClientsDroppedMisuse), dropped + 1);
  }
}

TEST_F(HostileRing, WordsThatCannotBe) {
  for (const uint32_t tail : {uint32_t{1} << 31, UINT32_MAX, uint32_t{1} << 14}) {
    RingClient client(socket());
    client.words().tail.store(tail);
    shared_futex_wake(client.words().tail);
    expect_dropped();
  }
}

TEST_F(HostileRing, CompletionsThatNobodyTakes) {
  RingClient client(socket());
  for (uint64_t i = 0; i <= 2 * client.records() && node_->clients_count() == 2; ++i) {
    if (client.submissions.push_until(*record_of_frame(client.commit(1), i), monotonic_now_ns() + 100'000'000) !=
        RingOutcome::kDone)
      break;
  }
  expect_dropped();
}

// What was committed is the node's copy, and what is checksummed is that.
TEST_F(HostileRing, StagingThatChangesAllTheTime) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  RingClient client(socket());
  std::atomic<bool> stop{false};
  Thread scribbler = *start_thread("scribbler", [&] {
    const std::span words(reinterpret_cast<std::atomic<uint64_t>*>(client.staging().data() + kPayloadsAt), 1000);
    for (uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i)
      words[i % words.size()].store(i, std::memory_order_relaxed);
  });
  for (Token number = 0; number < 200; ++number) {
    const auto prompt = chain(2'000'000 + 1000 * number, 2);
    std::ranges::copy(std::as_bytes(std::span(prompt)), client.staging().begin());
    ASSERT_EQ(client.code_of(client.commit(2)), Code::kOk);
    Hit hit;
    good_->client->lookup(good_->id, prompt, hit);
    ASSERT_EQ(hit.blocks_count(), 2u);
    for (size_t i = 0; i < 2; ++i)
      ASSERT_TRUE(good_->client->read(hit, prompt, i)) << "it has its checksum";
  }
  stop = true;
  scribbler.join();
  expect_good();
}

// All of its shared memory, all the time, while it commits as well as it can.
TEST_F(HostileRing, RingsFullOfNonsense) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    RingClient client(socket());
    const std::span words(reinterpret_cast<std::atomic<uint32_t>*>(client.memory().data()),
                          client.memory().size() / sizeof(uint32_t));
    for (int step = 0; step < 200; ++step) {
      if (random() % 2 == 0) static_cast<void>(client.submissions.push(*record_of_frame(client.commit(1), 1)));
      words[random() % (random() % 2 == 0 ? 64 : words.size())].store(
          random() % 2 == 0 ? static_cast<uint32_t>(random()) : static_cast<uint32_t>(random() % 8));
      if (random() % 4 == 0) client.words().tail.fetch_add(1);
      if (random() % 4 == 0) shared_futex_wake(client.words().tail);
    }
    if (round % 10 == 0) expect_good();
  }
  expect_dropped();
}

// Both ways at once: whoever does that has no order of his own, and that is all.
TEST_F(HostileRing, TheSocketBesideTheRing) {
  RingClient client(socket());
  const auto prompt = chain(50, 4);
  client.stage(prompt);
  for (uint64_t request = 0; request < 50; ++request) {
    ASSERT_TRUE(client.submit(client.commit(4), request));
    EXPECT_EQ(client.raw().code_of(client.commit(4)), Code::kOk);
  }
  for (uint64_t request = 0; request < 50; ++request) {
    EXPECT_EQ(client.completion().value_or(RecordedFrame{.request = UINT64_MAX}).request, request);
  }
  EXPECT_EQ(good_->get(prompt), 4u);
  expect_good();
}

}  // namespace
}  // namespace rhizome
