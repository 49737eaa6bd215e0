#include "node/commit_ring.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/mapping.h"
#include "machine/shared_futex.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint32_t kRecords = CommitRing::kRecords;

uint64_t patience() {
  return monotonic_now_ns() + 60'000'000'000;
}

uint64_t seed_of_run() {
  const char* const given = std::getenv("RHIZOME_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20'261'130;
}

// A ring whose commits answer with their own numbers, and the client's side of it.
class ServedRing {
 public:
  explicit ServedRing(const std::function<void(const CommitRing& ring)>& before_answer = [](const CommitRing&) {})
      : ring_(CommitRing::make({.perform = [this, before_answer](const CommitFrame& commit,
                                                                 const CommitRing& ring) -> Result<CommittedFrame> {
                                  performed.fetch_add(1);
                                  before_answer(ring);
                                  if (commit.blocks_count == 0) return fail(Code::kInvalidArgument, "a reason");
                                  return CommittedFrame{.visible_count = commit.blocks_count,
                                                        .stored_before_count = commit.first_block};
                                },
                                .on_broken = [this] { broken.fetch_add(1); }})
                  .value()),
        memory_(Mapping::attach_shared(Descriptor(::fcntl(ring_->descriptor(), F_DUPFD_CLOEXEC, 0)),
                                       commit_rings_bytes(kRecords), Mapping::Access::kWrite)
                    .value()),
        submissions(submissions_of(memory_.bytes(), kRecords), kRecords),
        completions(completions_of(memory_.bytes(), kRecords), kRecords) {}

  CommitRing& ring() { return *ring_; }
  void end() { ring_.reset(); }
  bool is_served() const { return commit_rings_head(memory_.bytes()).is_served.load() != 0; }
  RingOutcome submit(uint64_t request, uint32_t blocks) {
    return submissions.push(
        record_of_frame(CommitFrame{.first_block = static_cast<uint32_t>(request), .blocks_count = blocks}, request)
            .value());
  }
  std::optional<RecordedFrame> completion() {
    RingRecord record;
    if (completions.pop_until(record, patience()) != RingOutcome::kDone) return std::nullopt;
    return frame_of_record(record).value();
  }
  bool breaks() {
    const uint64_t until = patience();
    while (broken.load() == 0 && monotonic_now_ns() < until)
      yield_thread();
    return ring_->is_broken();
  }

  std::atomic<uint32_t> performed{0};
  std::atomic<uint32_t> broken{0};

 private:
  std::unique_ptr<CommitRing> ring_;
  const Mapping memory_;

 public:
  RingProducer submissions;
  RingConsumer completions;
};

TEST(CommitRing, AnswersInOrder) {
  ServedRing served;
  EXPECT_FALSE(served.is_served());
  served.ring().start();
  ASSERT_TRUE(served.is_served());
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr uint64_t kCommits = 5'000;
  uint64_t submitted = 0;
  for (uint64_t ended = 0; ended < kCommits; ++ended) {
    const uint64_t until = std::clamp(submitted + random() % 8, ended + 1, std::min(ended + kRecords, kCommits));
    for (; submitted < until; ++submitted)
      ASSERT_EQ(served.submit(submitted, static_cast<uint32_t>(submitted % 3)), RingOutcome::kDone);
    const RecordedFrame completion = served.completion().value_or(RecordedFrame{.request = UINT64_MAX});
    ASSERT_EQ(completion.request, ended);
    const AnyFrame expected = ended % 3 == 0
                                  ? AnyFrame(ErrorFrame{.code = Code::kInvalidArgument})
                                  : AnyFrame(CommittedFrame{.visible_count = static_cast<uint32_t>(ended % 3),
                                                            .stored_before_count = static_cast<uint32_t>(ended)});
    EXPECT_EQ(completion.frame, expected);
  }
  EXPECT_EQ(served.broken.load(), 0u);
}

TEST(CommitRing, IsNotServedBeforeItIsStarted) {
  ServedRing served;
  ASSERT_EQ(served.submit(1, 1), RingOutcome::kDone);
  RingRecord record;
  EXPECT_EQ(served.completions.pop_until(record, monotonic_now_ns() + 1'000'000), RingOutcome::kBusy);
  served.end();
}

TEST(CommitRing, BreaksAtWhatIsNoCommit) {
  RingRecord noise;
  noise.bytes.fill(std::byte{0xff});
  for (const RingRecord& record : {noise, RingRecord{}, record_of_frame(GoodbyeFrame{}, 1).value(),
                                   record_of_frame(CommittedFrame{}, 1).value()}) {
    ServedRing served;
    served.ring().start();
    ASSERT_EQ(served.submit(7, 1), RingOutcome::kDone);
    ASSERT_EQ(served.submissions.push(record), RingOutcome::kDone);
    EXPECT_TRUE(served.breaks());
    // What came before it was done.
    EXPECT_EQ(served.performed.load(), 1u);
    EXPECT_EQ(served.submit(8, 1), RingOutcome::kDone);
    served.end();
    EXPECT_EQ(served.performed.load(), 1u);
    EXPECT_EQ(served.broken.load(), 1u);
  }
}

TEST(CommitRing, BreaksAtWordsThatCannotBe) {
  for (const uint32_t tail : {kRecords + 1, 1u << 31, UINT32_MAX}) {
    ServedRing served;
    served.ring().start();
    const Mapping memory = Mapping::attach_shared(Descriptor(::fcntl(served.ring().descriptor(), F_DUPFD_CLOEXEC, 0)),
                                                  commit_rings_bytes(kRecords), Mapping::Access::kWrite)
                               .value();
    auto& words = *std::launder(reinterpret_cast<RingWords*>(submissions_of(memory.bytes(), kRecords).data()));
    words.tail.store(tail);
    shared_futex_wake(words.tail);
    EXPECT_TRUE(served.breaks()) << tail;
    EXPECT_EQ(served.performed.load(), 0u);
  }
}

// As many as the ring takes may be under way; one more than that, and there is no room for the answer.
TEST(CommitRing, BreaksWhenNobodyTakesTheCompletions) {
  ServedRing served;
  served.ring().start();
  for (uint64_t i = 0; i < kRecords; ++i)
    ASSERT_EQ(served.submissions.push_until(record_of_frame(CommitFrame{.blocks_count = 1}, i).value(), patience()),
              RingOutcome::kDone);
  const uint64_t until = patience();
  while (served.performed.load() < kRecords && monotonic_now_ns() < until)
    yield_thread();
  EXPECT_EQ(served.broken.load(), 0u);
  ASSERT_EQ(
      served.submissions.push_until(record_of_frame(CommitFrame{.blocks_count = 1}, kRecords).value(), patience()),
      RingOutcome::kDone);
  EXPECT_TRUE(served.breaks());
}

TEST(CommitRing, EndsWhereverItIs) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const uint64_t began_ns = monotonic_now_ns();
  for (int round = 0; round < 200; ++round) {
    // A commit that goes on until the ring is over.
    const bool is_long = round % 4 == 0;
    ServedRing served([&](const CommitRing& ring) {
      while (is_long && !ring.is_over())
        yield_thread();
    });
    if (round % 8 != 7) served.ring().start();
    for (uint64_t i = random() % 4 + (is_long ? 1 : 0); i > 0; --i)
      ASSERT_EQ(served.submit(i, 1), RingOutcome::kDone);
    const uint64_t until = patience();
    while (is_long && served.performed.load() == 0 && monotonic_now_ns() < until)
      yield_thread();
    for (uint64_t yields = random() % 8; yields > 0; --yields)
      yield_thread();
    served.end();
  }
  EXPECT_LT(monotonic_now_ns(), began_ns + 60'000'000'000);
}

}  // namespace
}  // namespace rhizome
