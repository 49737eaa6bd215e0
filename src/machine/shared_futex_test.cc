#include "machine/shared_futex.h"

#include <array>
#include <new>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/mapping.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

uint64_t patience() {
  return monotonic_now_ns() + 60'000'000'000;
}

using Word = std::atomic<uint32_t>;

TEST(SharedFutex, DoesNotWaitForWhatHasChanged) {
  Word word{5};
  EXPECT_TRUE(shared_futex_wait(word, 4, patience()));
  EXPECT_TRUE(shared_futex_wait(word, 4, 0));
  EXPECT_EQ(shared_futex_wake(word), 0u);
}

TEST(SharedFutex, WaitsNoLongerThanTheDeadline) {
  const Word word{5};
  EXPECT_FALSE(shared_futex_wait(word, 5, 0));
  const uint64_t deadline = monotonic_now_ns() + 2'000'000;
  while (shared_futex_wait(word, 5, deadline)) {
  }
  EXPECT_GE(monotonic_now_ns(), deadline);
}

// Two processes play a word from hand to hand: one writes it, the other sees it through a read-only mapping and answers
// in a word of its own.
TEST(SharedFutex, WakesAnotherProcessThroughAReadOnlyMapping) {
  constexpr uint32_t kRounds = 200;
  const Mapping questions = Mapping::shareable(4096).value();
  const Descriptor questions_file(::fcntl(questions.descriptor(), F_DUPFD_CLOEXEC, 0));
  const Mapping answers = Mapping::shareable(4096, Mapping::Sharing::kWritable).value();
  const Descriptor answers_file(::fcntl(answers.descriptor(), F_DUPFD_CLOEXEC, 0));
  Word& question = *new (questions.bytes().data()) Word(0);
  Word& answer = *new (answers.bytes().data()) Word(0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto heard = Mapping::attach_shared(questions_file, 4096, Mapping::Access::kRead);
    const auto said = Mapping::attach_shared(answers_file, 4096, Mapping::Access::kWrite);
    if (!heard || !said) ::_exit(1);
    const Word& asked = *std::launder(reinterpret_cast<const Word*>(heard->bytes().data()));
    Word& reply = *std::launder(reinterpret_cast<Word*>(said->bytes().data()));
    for (uint32_t round = 1; round <= kRounds; ++round) {
      while (asked.load() < round) {
        if (!shared_futex_wait(asked, round - 1, patience())) ::_exit(2);
      }
      reply.store(round);
      shared_futex_wake(reply);
    }
    ::_exit(0);
  }
  for (uint32_t round = 1; round <= kRounds; ++round) {
    question.store(round);
    shared_futex_wake(question);
    while (answer.load() < round)
      ASSERT_TRUE(shared_futex_wait(answer, round - 1, patience()));
  }
  int status = 1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SharedFutex, WakesAsManyAsItIsAskedTo) {
  Word word{0};
  std::array<Word, 2> woken{};
  std::vector<Thread> waiters;
  for (Word& own : woken) {
    waiters.push_back(start_thread("waiter", [&word, &own] {
                        while (word.load() == 0)
                          shared_futex_wait(word, 0, patience());
                        own.store(1);
                      }).value());
  }
  uint32_t count = 0;
  const uint64_t deadline = patience();
  // Woken, they find the word as it was and wait again.
  while (count < 2 && monotonic_now_ns() < deadline) {
    const uint32_t now = shared_futex_wake(word, 1);
    EXPECT_LE(now, 1u);
    count += now;
    yield_thread();
  }
  EXPECT_EQ(count, 2u);
  word.store(1);
  shared_futex_wake(word);
  waiters.clear();
  EXPECT_EQ(woken[0].load() + woken[1].load(), 2u);
}

}  // namespace
}  // namespace rhizome
