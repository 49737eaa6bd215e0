#include "machine/thread.h"

#include <array>
#include <atomic>
#include <string>

#include <pthread.h>
#include <signal.h>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(Thread, RunsUnderItsName) {
  std::string name;
  Thread thread = start_thread("rhizome hashing of weights", [&name] {
                    std::array<char, 16> text{};
                    ::pthread_getname_np(::pthread_self(), text.data(), text.size());
                    name = text.data();
                  }).value();
  thread.join();
  EXPECT_FALSE(thread.joinable());
  EXPECT_EQ(name, "rhizome hashing");
}

TEST(Thread, IsAskedToStopAndJoinedByDestruction) {
  std::atomic<bool> ended{false};
  {
    const Thread thread = start_thread("loop", [&ended](const std::stop_token& stop) {
                            while (!stop.stop_requested())
                              std::this_thread::yield();
                            ended = true;
                          }).value();
    EXPECT_FALSE(ended);
  }
  EXPECT_TRUE(ended);
}

TEST(Thread, LeavesSignalsToTheOthers) {
  sigset_t inside;
  start_thread("mask", [&inside] { ::pthread_sigmask(SIG_BLOCK, nullptr, &inside); }).value().join();
  EXPECT_TRUE(::sigismember(&inside, SIGTERM));
  EXPECT_TRUE(::sigismember(&inside, SIGCHLD));
  EXPECT_FALSE(::sigismember(&inside, SIGSEGV));
  sigset_t outside;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &outside);
  EXPECT_FALSE(::sigismember(&outside, SIGTERM));
}

}  // namespace
}  // namespace rhizome
