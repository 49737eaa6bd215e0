#include "concurrency/mutex.h"

#include <vector>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

struct Account {
  Mutex mutex;
  CondVar changed;
  int value GUARDED_BY(mutex) = 0;
};

TEST(Mutex, LetsOneThreadInAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  Account account;
  std::vector<Thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.push_back(start_thread("adder", [&account] {
                        for (int round = 0; round < kRounds; ++round) {
                          const MutexLock lock(account.mutex);
                          // Two steps, so that a missing lock loses additions.
                          const int seen = account.value;
                          account.value = seen + 1;
                        }
                      }).value());
  }
  threads.clear();
  const MutexLock lock(account.mutex);
  EXPECT_EQ(account.value, kThreads * kRounds);
}

TEST(Mutex, CanBeTried) {
  Mutex mutex;
  // Not through the test's own macro, in which the analysis loses sight of the lock.
  if (!mutex.try_lock()) FAIL() << "nobody else holds it";
  bool taken_elsewhere = true;
  start_thread("trier", [&]() NO_THREAD_SAFETY_ANALYSIS { taken_elsewhere = mutex.try_lock(); }).value().join();
  EXPECT_FALSE(taken_elsewhere);
  mutex.unlock();
}

TEST(CondVar, WakesWhoeverWaits) {
  Account account;
  const Thread thread = start_thread("setter", [&account] {
                          const MutexLock lock(account.mutex);
                          account.value = 7;
                          account.changed.notify_one();
                        }).value();
  const MutexLock lock(account.mutex);
  while (account.value != 7)
    account.changed.wait(account.mutex);
  EXPECT_EQ(account.value, 7);
}

TEST(CondVar, HandsATokenBackAndForth) {
  constexpr int kRounds = 2'000;
  Account account;
  const auto play = [&account](int mine) {
    for (int round = 0; round < kRounds; ++round) {
      const MutexLock lock(account.mutex);
      while (account.value % 2 != mine)
        account.changed.wait(account.mutex);
      ++account.value;
      account.changed.notify_all();
    }
  };
  {
    const Thread odd = start_thread("odd", [&play] { play(1); }).value();
    play(0);
  }
  const MutexLock lock(account.mutex);
  EXPECT_EQ(account.value, 2 * kRounds);
}

struct Pair {
  SharedMutex mutex;
  uint64_t first GUARDED_BY(mutex) = 0;
  uint64_t second GUARDED_BY(mutex) = 0;
};

TEST(SharedMutex, ReadersNeverSeeHalfOfAWrite) {
  constexpr uint64_t kRounds = 20'000;
  Pair pair;
  {
    const Thread writer = start_thread("writer", [&pair] {
                            for (uint64_t i = 0; i < kRounds; ++i) {
                              const WriterLock lock(pair.mutex);
                              ++pair.first;
                              ++pair.second;
                            }
                          }).value();
    for (uint64_t i = 0; i < kRounds; ++i) {
      const ReaderLock lock(pair.mutex);
      ASSERT_EQ(pair.first, pair.second);
    }
  }
  const ReaderLock lock(pair.mutex);
  EXPECT_EQ(pair.second, kRounds);
}

TEST(SharedMutex, LetsReadersInTogether) {
  Pair pair;
  const ReaderLock lock(pair.mutex);
  uint64_t seen = 1;
  start_thread("reader",
               [&] {
                 const ReaderLock other(pair.mutex);
                 seen = pair.first;
               })
      .value()
      .join();
  EXPECT_EQ(seen, 0u);
}

TEST(CondVar, GivesUpAfterTheTimeAndHoldsTheLockAgain) {
  Account account;
  const MutexLock lock(account.mutex);
  const uint64_t before = monotonic_now_ns();
  // Waking for no reason is allowed, hence the loop.
  while (account.changed.wait_for(account.mutex, 2'000'000)) {
  }
  EXPECT_GE(monotonic_now_ns() - before, 2'000'000u);
  bool taken_elsewhere = true;
  start_thread("trier", [&]() NO_THREAD_SAFETY_ANALYSIS { taken_elsewhere = account.mutex.try_lock(); }).value().join();
  EXPECT_FALSE(taken_elsewhere);
}

TEST(CondVar, TakesATimeoutThatNeverComes) {
  Account account;
  const Thread thread = start_thread("setter", [&account] {
                          const MutexLock lock(account.mutex);
                          account.value = 1;
                          account.changed.notify_all();
                        }).value();
  const MutexLock lock(account.mutex);
  while (account.value == 0)
    EXPECT_TRUE(account.changed.wait_for(account.mutex, UINT64_MAX));
}

}  // namespace
}  // namespace rhizome
