#include "machine/process_watch.h"

#include <array>

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/host.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

uint64_t patience() {
  return monotonic_now_ns() + 60'000'000'000;
}

// A child that lives until it is killed.
pid_t start_idle_child() {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;)
      ::pause();
  }
  return child;
}

TEST(ProcessWatch, SeesTheEndOfAProcess) {
  const pid_t child = start_idle_child();
  const ProcessWatch watch = ProcessWatch::of_process(child).value();
  EXPECT_FALSE(watch.has_ended());
  EXPECT_FALSE(watch.wait(monotonic_now_ns() + 1'000'000));
  ASSERT_EQ(::kill(child, SIGSTOP), 0);
  EXPECT_FALSE(watch.wait(monotonic_now_ns() + 1'000'000));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  // Before it is reaped, and after.
  EXPECT_TRUE(watch.wait(patience()));
  EXPECT_TRUE(watch.has_ended());
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(watch.has_ended());
  EXPECT_EQ(ProcessWatch::of_process(child).error().code, Code::kNotFound);
}

TEST(ProcessWatch, SeesTheEndOfAPeer) {
  const TemporaryFolder folder;
  LocalListener listener = LocalListener::listen(folder.path("socket")).value();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto connected = LocalSocket::connect(folder.path("socket"), patience());
    for (;;)
      ::pause();
  }
  LocalSocket server = listener.accept(patience()).value();
  const ProcessWatch watch = ProcessWatch::of_peer(server).value();
  EXPECT_FALSE(watch.has_ended());
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_TRUE(watch.wait(patience()));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  // Whoever comes late is told, and not given another process.
  const auto late = ProcessWatch::of_peer(server);
  EXPECT_TRUE(late ? late->has_ended() : late.error().code == Code::kNotFound);
}

TEST(ProcessWatch, KnowsOnlyProcesses) {
  EXPECT_EQ(ProcessWatch::of_process(0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(ProcessWatch::of_process(-1).error().code, Code::kInvalidArgument);
  EXPECT_EQ(ProcessWatch::of_process(1 << 30).error().code, Code::kNotFound);
  EXPECT_FALSE(ProcessWatch::of_process(own_pid()).value().has_ended());
}

}  // namespace
}  // namespace rhizome
