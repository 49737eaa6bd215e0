#include "attach/message_ring.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>

#include <fcntl.h>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/forked_child.h"
#include "machine/mapping.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

uint64_t patience() {
  return monotonic_now_ns() + 60'000'000'000;
}

uint64_t seed_of_run() {
  const char* const given = std::getenv("RHIZOME_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20'260'402;
}

// Every word of it depends on the number, so that a record made of two shows.
RingRecord record_of(uint64_t number) {
  RingRecord record;
  for (size_t i = 0; i < kRingRecordBytes / 8; ++i) {
    const uint64_t word = number * 8 + i;
    std::memcpy(record.bytes.data() + i * 8, &word, 8);
  }
  return record;
}

// Memory as a node makes it for a ring, and mappings of it as another process has them.
class SharedRing {
 public:
  explicit SharedRing(uint32_t capacity)
      : capacity_(capacity),
        memory_(Mapping::shareable(ring_bytes(capacity), Mapping::Sharing::kWritable).value()),
        file_(::fcntl(memory_.descriptor(), F_DUPFD_CLOEXEC, 0)) {}

  Mapping attached() const {
    return Mapping::attach_shared(file_, ring_bytes(capacity_), Mapping::Access::kWrite).value();
  }
  std::span<std::byte> memory() const { return memory_.bytes(); }
  RingWords& words() const { return *std::launder(reinterpret_cast<RingWords*>(memory_.bytes().data())); }
  RingProducer producer() const { return {memory(), capacity_}; }
  RingConsumer consumer() const { return {memory(), capacity_}; }

 private:
  uint32_t capacity_;
  Mapping memory_;
  Descriptor file_;
};

TEST(MessageRing, IsAQueueOfBoundedLength) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const uint32_t capacity : {1u, 2u, 8u, 64u}) {
    const SharedRing ring(capacity);
    RingProducer producer = ring.producer();
    RingConsumer consumer = ring.consumer();
    std::deque<uint64_t> model;
    uint64_t next = 0;
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 2 == 0) {
        const RingOutcome outcome = producer.push(record_of(next));
        ASSERT_EQ(outcome, model.size() < capacity ? RingOutcome::kDone : RingOutcome::kBusy);
        if (outcome == RingOutcome::kDone) model.push_back(next++);
      } else {
        RingRecord record;
        const RingOutcome outcome = consumer.pop(record);
        ASSERT_EQ(outcome, model.empty() ? RingOutcome::kBusy : RingOutcome::kDone);
        if (outcome == RingOutcome::kBusy) continue;
        ASSERT_EQ(record, record_of(model.front()));
        model.pop_front();
      }
    }
  }
}

TEST(MessageRing, WaitsNoLongerThanTheDeadline) {
  const SharedRing ring(2);
  RingProducer producer = ring.producer();
  RingConsumer consumer = ring.consumer();
  RingRecord record;
  EXPECT_EQ(consumer.pop_until(record, 0), RingOutcome::kBusy);
  uint64_t deadline = monotonic_now_ns() + 2'000'000;
  EXPECT_EQ(consumer.pop_until(record, deadline), RingOutcome::kBusy);
  EXPECT_GE(monotonic_now_ns(), deadline);
  EXPECT_EQ(producer.push_until(record_of(1), 0), RingOutcome::kDone);
  EXPECT_EQ(producer.push_until(record_of(2), patience()), RingOutcome::kDone);
  deadline = monotonic_now_ns() + 2'000'000;
  EXPECT_EQ(producer.push_until(record_of(3), deadline), RingOutcome::kBusy);
  EXPECT_GE(monotonic_now_ns(), deadline);
  EXPECT_EQ(consumer.pop_until(record, patience()), RingOutcome::kDone);
  EXPECT_EQ(record, record_of(1));
}

// Small rings, so that both sides wait often.
TEST(MessageRing, PassesRecordsBetweenThreads) {
  constexpr uint64_t kRecords = 30'000;
  for (const uint32_t capacity : {1u, 4u, 256u}) {
    const SharedRing ring(capacity);
    const Thread other = start_thread("producer", [&ring] {
                           RingProducer producer = ring.producer();
                           for (uint64_t i = 0; i < kRecords; ++i)
                             EXPECT_EQ(producer.push_until(record_of(i), patience()), RingOutcome::kDone);
                         }).value();
    RingConsumer consumer = ring.consumer();
    RingRecord record;
    for (uint64_t i = 0; i < kRecords; ++i) {
      ASSERT_EQ(consumer.pop_until(record, patience()), RingOutcome::kDone);
      ASSERT_EQ(record, record_of(i));
    }
  }
}

TEST(MessageRing, PassesRecordsBetweenProcesses) {
  constexpr uint64_t kRecords = 20'000;
  const SharedRing there(8);
  const SharedRing back(4);
  ForkedChild child([&] {
    const Mapping in = there.attached();
    const Mapping out = back.attached();
    RingConsumer consumer(in.bytes(), 8);
    RingProducer producer(out.bytes(), 4);
    RingRecord record;
    for (uint64_t i = 0; i < kRecords; ++i) {
      if (consumer.pop_until(record, patience()) != RingOutcome::kDone) return 1;
      if (producer.push_until(record, patience()) != RingOutcome::kDone) return 2;
    }
    return 0;
  });
  RingProducer producer = there.producer();
  RingConsumer consumer = back.consumer();
  RingRecord record;
  uint64_t pushed = 0;
  for (uint64_t popped = 0; popped < kRecords; ++popped) {
    while (pushed < kRecords && pushed < popped + 8 && producer.push(record_of(pushed)) == RingOutcome::kDone)
      ++pushed;
    ASSERT_EQ(consumer.pop_until(record, patience()), RingOutcome::kDone);
    ASSERT_EQ(record, record_of(popped));
  }
  EXPECT_EQ(child.wait(), 0);
}

TEST(MessageRing, OutlivesAPeerThatIsKilled) {
  const SharedRing ring(4);
  ForkedChild child([&] {
    const Mapping memory = ring.attached();
    RingProducer producer(memory.bytes(), 4);
    for (uint64_t i = 0; producer.push_until(record_of(i), patience()) == RingOutcome::kDone; ++i) {
    }
    return 1;
  });
  RingConsumer consumer = ring.consumer();
  RingRecord record;
  uint64_t popped = 0;
  for (; popped < 1000; ++popped) {
    ASSERT_EQ(consumer.pop_until(record, patience()), RingOutcome::kDone);
    ASSERT_EQ(record, record_of(popped));
  }
  EXPECT_EQ(child.kill_and_wait(), 128 + SIGKILL);
  while (consumer.pop(record) == RingOutcome::kDone)
    ASSERT_EQ(record, record_of(popped++));
  EXPECT_EQ(consumer.pop_until(record, monotonic_now_ns() + 1'000'000), RingOutcome::kBusy);
}

TEST(MessageRing, IsInterrupted) {
  const SharedRing ring(4);
  RingConsumer consumer = ring.consumer();
  std::atomic<bool> has_ended{false};
  RingOutcome outcome = RingOutcome::kDone;
  Result<Thread> waiter = start_thread("waiter", [&] {
    RingRecord record;
    outcome = consumer.pop_until(record, patience());
    has_ended.store(true);
  });
  ASSERT_TRUE(waiter);
  const uint64_t began_ns = monotonic_now_ns();
  while (!has_ended.load()) {
    consumer.interrupt();
    yield_thread();
  }
  waiter->join();
  EXPECT_EQ(outcome, RingOutcome::kBusy);
  // Nobody waits any more; what is there is taken.
  RingRecord record;
  EXPECT_EQ(consumer.pop_until(record, patience()), RingOutcome::kBusy);
  EXPECT_LT(monotonic_now_ns(), began_ns + 30'000'000'000);
  RingProducer producer = ring.producer();
  ASSERT_EQ(producer.push(record_of(1)), RingOutcome::kDone);
  EXPECT_EQ(consumer.pop_until(record, patience()), RingOutcome::kDone);
}

TEST(MessageRing, IsBrokenByWordsThatCannotBe) {
  constexpr uint32_t kCapacity = 8;
  // As if three were pushed, and two of them popped: what may the other word be?
  for (const uint32_t tail : {0u, 1u, 2u, 3u, 4u, 10u, 11u, 1u << 31, UINT32_MAX}) {
    const SharedRing ring(kCapacity);
    RingProducer producer = ring.producer();
    RingConsumer consumer = ring.consumer();
    RingRecord record;
    for (uint64_t i = 0; i < 3; ++i)
      ASSERT_EQ(producer.push(record_of(i)), RingOutcome::kDone);
    for (uint64_t i = 0; i < 2; ++i)
      ASSERT_EQ(consumer.pop(record), RingOutcome::kDone);
    ring.words().tail.store(tail);
    const bool may_be = tail >= 3 && tail <= 10;
    EXPECT_EQ(consumer.pop(record), may_be ? RingOutcome::kDone : RingOutcome::kBroken) << tail;
    // What was told once is not taken back, nor forgiven.
    ring.words().tail.store(3);
    EXPECT_EQ(consumer.pop(record), tail == 3 ? RingOutcome::kBusy : RingOutcome::kBroken) << tail;
    EXPECT_EQ(consumer.pop_until(record, tail == 3 ? 0 : patience()),
              tail == 3 ? RingOutcome::kBusy : RingOutcome::kBroken);
  }
  for (const uint32_t head : {0u, 1u, 2u, 3u, 4u, 1u << 31, UINT32_MAX}) {
    const SharedRing ring(kCapacity);
    RingProducer producer = ring.producer();
    RingConsumer consumer = ring.consumer();
    RingRecord record;
    for (uint64_t i = 0; i < 2; ++i)
      ASSERT_EQ(producer.push(record_of(i)), RingOutcome::kDone);
    ASSERT_EQ(consumer.pop(record), RingOutcome::kDone);
    ASSERT_EQ(producer.push(record_of(2)), RingOutcome::kDone);
    ring.words().head.store(head);
    const bool may_be = head >= 1 && head <= 3;
    EXPECT_EQ(producer.push(record), may_be ? RingOutcome::kDone : RingOutcome::kBroken) << head;
    ring.words().head.store(1);
    EXPECT_EQ(producer.push_until(record, patience()) == RingOutcome::kBroken, head != 1) << head;
  }
}

// A peer that writes anything anywhere, all the time, with wake-ups: this side stays inside its memory (the address
// sanitizer watches), and does not stay longer than its deadlines.
TEST(MessageRing, SurvivesAPeerThatScribbles) {
  constexpr uint32_t kCapacity = 16;
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  const SharedRing ring(kCapacity);
  ForkedChild child([&] {
    const Mapping memory = ring.attached();
    std::mt19937_64 random(seed);
    const std::span words(reinterpret_cast<std::atomic<uint32_t>*>(memory.bytes().data()), ring_bytes(kCapacity) / 4);
    for (;;) {
      std::atomic<uint32_t>& word = random() % 4 == 0 ? words[random() % words.size()] : words[random() % 2 * 16];
      // Small steps stay plausible for a while.
      if (random() % 8 == 0) {
        word.store(static_cast<uint32_t>(random()));
      } else {
        word.fetch_add(static_cast<uint32_t>(random() % 3));
      }
      if (random() % 64 == 0) words[random() % 2 * 16 + 1].store(1);
    }
    return 0;
  });
  const uint64_t end = patience();
  while (ring.words().tail.load() == 0 && monotonic_now_ns() < end)
    yield_thread();
  RingRecord record;
  uint64_t done = 0;
  uint64_t broken = 0;
  for (int round = 0; (round < 400 || done < 100 || broken < 100) && monotonic_now_ns() < end; ++round) {
    // A new one each round, as for a new client whose peer is as bad; the words are set back as far as it lets us.
    ring.words().head.store(0);
    ring.words().tail.store(0);
    RingProducer producer = ring.producer();
    RingConsumer consumer = ring.consumer();
    for (int step = 0; step < 20; ++step) {
      const uint64_t deadline = monotonic_now_ns() + 200'000;
      const RingOutcome outcome =
          step % 2 == 0 ? producer.push_until(record, deadline) : consumer.pop_until(record, deadline);
      done += outcome == RingOutcome::kDone ? 1 : 0;
      broken += outcome == RingOutcome::kBroken ? 1 : 0;
      // Far beyond what a busy machine adds.
      ASSERT_LT(monotonic_now_ns(), deadline + 30'000'000'000);
    }
  }
  EXPECT_GE(done, 100u);
  EXPECT_GE(broken, 100u);
  EXPECT_EQ(child.kill_and_wait(), 128 + SIGKILL);
}

TEST(MessageRingDeathTest, AbortsOnMemoryOfAnotherSize) {
  const Mapping memory = Mapping::anonymous(8192).value();
  EXPECT_DEATH(RingProducer(memory.bytes().first(ring_bytes(8) - 1), 8), "check failed");
  EXPECT_DEATH(RingProducer(memory.bytes().first(ring_bytes(3)), 3), "check failed");
  EXPECT_DEATH(RingConsumer(memory.bytes().first(ring_bytes(0)), 0), "check failed");
  EXPECT_DEATH(RingConsumer(memory.bytes().subspan(8, ring_bytes(8)), 8), "check failed");
}

}  // namespace
}  // namespace rhizome
