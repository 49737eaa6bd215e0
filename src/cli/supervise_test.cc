#include "cli/supervise.h"

#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/files.h"
#include "machine/host.h"

namespace rhizome {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

Child shell(const std::string& script, bool own_group = true) {
  SpawnOptions options;
  options.own_process_group = own_group;
  options.die_with_parent = true;
  auto child = Child::spawn({"/bin/sh", "-c", script}, options);
  EXPECT_TRUE(child);
  return std::move(*child);
}

SignalWait signals() {
  return std::move(*SignalWait::create());
}

TEST(SuperviseServer, ReportsAnEndThatNobodyAskedFor) {
  SignalWait wait = signals();
  Child child = shell("exit 7");
  const Ended ended = supervise_server(child, wait, kSecond, [] { FAIL(); });
  EXPECT_FALSE(ended.asked || ended.killed || ended.status.signalled);
  EXPECT_EQ(ended.status.value, 7);
}

TEST(SuperviseServer, ReportsTheSignalThatEndedIt) {
  SignalWait wait = signals();
  Child child = shell("kill -SEGV $$");
  const Ended ended = supervise_server(child, wait, kSecond, [] {});
  EXPECT_TRUE(ended.status.signalled);
  EXPECT_EQ(ended.status.value, SIGSEGV);
}

// The child tells its parent to stop once it can itself be told: no time has to pass for the test.
TEST(SuperviseServer, AsksTheChildToStop) {
  for (const std::string signal : {"TERM", "INT"}) {
    SignalWait wait = signals();
    Child child = shell("trap 'exit 3' TERM; kill -" + signal + " $PPID; while :; do read x < /dev/null; done");
    int told = 0;
    const Ended ended = supervise_server(child, wait, 30 * kSecond, [&] { ++told; });
    EXPECT_TRUE(ended.asked);
    EXPECT_FALSE(ended.killed);
    EXPECT_FALSE(ended.asked_again);
    EXPECT_EQ(told, 1);
    EXPECT_FALSE(ended.status.signalled);
    EXPECT_EQ(ended.status.value, 3);
  }
}

TEST(SuperviseServer, KillsWhatDoesNotStop) {
  SignalWait wait = signals();
  Child child = shell("trap '' TERM; kill -TERM $PPID; while :; do read x < /dev/null; done");
  const Ended ended = supervise_server(child, wait, kSecond / 10, [] {});
  EXPECT_TRUE(ended.asked && ended.killed);
  EXPECT_TRUE(ended.status.signalled);
  EXPECT_EQ(ended.status.value, SIGKILL);
}

TEST(SuperviseServer, AsksASecondTime) {
  SignalWait wait = signals();
  Child child = shell("trap 'trap \"exit 3\" TERM' TERM; kill -TERM $PPID; while :; do read x < /dev/null; done");
  const Ended ended = supervise_server(child, wait, 3 * kSecond, [] {});
  EXPECT_FALSE(ended.killed);
  EXPECT_TRUE(ended.asked_again);
  EXPECT_EQ(ended.status.value, 3);
}

TEST(SuperviseServer, ASecondInterruptEndsThePatience) {
  SignalWait wait = signals();
  Child child = shell("trap 'kill -INT $PPID' TERM; kill -INT $PPID; while :; do read x < /dev/null; done");
  const Ended ended = supervise_server(child, wait, 3600 * kSecond, [] {});
  EXPECT_TRUE(ended.killed);
}

TEST(SuperviseProgram, PassesSignalsOn) {
  SignalWait wait = signals();
  Child child =
      shell("trap 'exit 5' TERM; trap 'kill -TERM $PPID' INT; kill -INT $PPID; while :; do read x < /dev/null; done");
  EXPECT_EQ(supervise_program(child, wait).shell_status(), 5);
}

TEST(SuperviseProgram, EndsWithItsStatus) {
  SignalWait wait = signals();
  Child child = shell("exit 42");
  EXPECT_EQ(supervise_program(child, wait).shell_status(), 42);
  Child killed = shell("kill -KILL $$");
  EXPECT_EQ(supervise_program(killed, wait).shell_status(), 128 + SIGKILL);
}

}  // namespace
}  // namespace rhizome
