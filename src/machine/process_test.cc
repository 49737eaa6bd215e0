#include "machine/process.h"

#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/files.h"
#include "machine/forked_child.h"
#include "machine/host.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kPatienceNs = 60 * kSecondNs;  // an upper bound for a busy machine, never waited out

class Processes : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

  // What a shell command writes to its output.
  std::string output_of(const std::string& command, SpawnOptions options = {}) {
    options.stdout_path = path("out");
    auto child = Child::spawn({"sh", "-c", command}, options);
    EXPECT_TRUE(child.has_value());
    EXPECT_TRUE(child->wait().success());
    std::string text = read_text_file(path("out"), 1 << 20).value_or("");
    EXPECT_TRUE(remove_file(path("out")).has_value());
    return text;
  }

  const TemporaryFolder folder_;
};

TEST_F(Processes, TellHowTheyEnded) {
  Child good = Child::spawn({"true"}).value();
  EXPECT_TRUE(good.wait().success());
  EXPECT_TRUE(good.wait().success());

  Child bad = Child::spawn({"sh", "-c", "exit 7"}).value();
  const ExitStatus status = bad.wait();
  EXPECT_FALSE(status.success());
  EXPECT_FALSE(status.signalled);
  EXPECT_EQ(status.value, 7);
  EXPECT_EQ(status.shell_status(), 7);

  Child killed = Child::spawn({"sh", "-c", "kill -USR1 $$"}).value();
  EXPECT_TRUE(killed.wait().signalled);
  EXPECT_EQ(killed.wait().value, SIGUSR1);
  EXPECT_EQ(killed.wait().shell_status(), 128 + SIGUSR1);
}

TEST_F(Processes, CannotBeStartedFromNothing) {
  EXPECT_EQ(Child::spawn({}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Child::spawn({""}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Child::spawn({path("none")}).error().code, Code::kNotFound);
  EXPECT_EQ(Child::spawn({"no-program-has-this-name"}).error().code, Code::kNotFound);
  ASSERT_TRUE(write_file_atomically(path("text"), "no program", 0600).has_value());
  EXPECT_EQ(Child::spawn({path("text")}).error().code, Code::kPermissionDenied);
  SpawnOptions options;
  options.stdin_path = path("none");
  EXPECT_EQ(Child::spawn({"cat"}, options).error().code, Code::kNotFound);
}

TEST_F(Processes, GetTheirArgumentsAsTheyAre) {
  SpawnOptions options;
  options.stdout_path = path("out");
  Child child = Child::spawn({"printf", "%s|", "a b", "", "$HOME", "*"}, options).value();
  ASSERT_TRUE(child.wait().success());
  EXPECT_EQ(read_text_file(path("out"), 100).value(), "a b||$HOME|*|");
}

TEST_F(Processes, GetAChangedEnvironment) {
  ::setenv("RHIZOME_TEST_KEPT", "kept", 1);
  ::setenv("RHIZOME_TEST_REPLACED", "old", 1);
  ::setenv("RHIZOME_TEST_REMOVED", "gone", 1);
  SpawnOptions options;
  options.environment = {{"RHIZOME_TEST_REPLACED", "new"}, {"RHIZOME_TEST_ADDED", "a=b c"}};
  options.environment_removed = {"RHIZOME_TEST_REMOVED"};
  EXPECT_EQ(
      output_of("echo $RHIZOME_TEST_KEPT,$RHIZOME_TEST_REPLACED,$RHIZOME_TEST_ADDED,$RHIZOME_TEST_REMOVED", options),
      "kept,new,a=b c,\n");
  EXPECT_EQ(output_of("env | grep -c RHIZOME_TEST_REPLACED=", options), "1\n");
  EXPECT_STREQ(::getenv("RHIZOME_TEST_REPLACED"), "old");
}

// In a child: a limit that was lowered stays so.
TEST_F(Processes, GetTheDescriptorLimitThatTheirParentGot) {
  ForkedChild child([&] {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < 40) return 1;
    limit.rlim_cur = 30;
    limit.rlim_max = 40;
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
    if (output_of("ulimit -Sn") != "30\n") return 3;
    take_all_descriptors();
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur != 40) return 4;
    take_all_descriptors();
    return output_of("ulimit -Sn") == "30\n" ? 0 : 5;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Processes, ReadAndWriteFiles) {
  ASSERT_TRUE(write_file_atomically(path("in"), "from the file").has_value());
  SpawnOptions options;
  options.stdin_path = path("in");
  options.stdout_path = path("out");
  options.stderr_path = path("error");
  for (int i = 0; i < 2; ++i) {
    Child child = Child::spawn({"sh", "-c", "cat; echo oops >&2"}, options).value();
    ASSERT_TRUE(child.wait().success());
  }
  // Appended to, not cut.
  EXPECT_EQ(read_text_file(path("out"), 100).value(), "from the filefrom the file");
  EXPECT_EQ(read_text_file(path("error"), 100).value(), "oops\noops\n");
}

TEST_F(Processes, CanBeWaitedForWithALimit) {
  Child child = Child::spawn({"sleep", "1000"}).value();
  EXPECT_FALSE(child.try_wait().has_value());
  EXPECT_FALSE(child.wait_for(0).has_value());
  const uint64_t before = monotonic_now_ns();
  EXPECT_FALSE(child.wait_for(20'000'000).has_value());
  EXPECT_GE(monotonic_now_ns() - before, 20'000'000u);
  ASSERT_TRUE(child.signal(SIGTERM).has_value());
  EXPECT_EQ(child.wait_for(kPatienceNs).value_or(ExitStatus{}).value, SIGTERM);
  EXPECT_EQ(child.try_wait().value_or(ExitStatus{}).value, SIGTERM);
  EXPECT_EQ(child.signal(SIGTERM).error().code, Code::kFailedPrecondition);
}

TEST_F(Processes, AreKilledWhenTheyDoNotListen) {
  SpawnOptions options;
  options.stdout_path = path("out");
  Child child = Child::spawn({"sh", "-c", "trap '' TERM; echo ready; exec sleep 1000"}, options).value();
  while (read_text_file(path("out"), 100).value_or("").empty()) {
  }
  EXPECT_EQ(child.terminate(20'000'000).value, SIGKILL);

  Child obedient = Child::spawn({"sleep", "1000"}).value();
  EXPECT_EQ(obedient.terminate(kPatienceNs).value, SIGTERM);
}

TEST_F(Processes, EndWithTheirObject) {
  pid_t pid = 0;
  {
    const Child child = Child::spawn({"sleep", "1000"}).value();
    pid = child.pid();
    EXPECT_TRUE(is_process_alive(pid));
  }
  EXPECT_FALSE(is_process_alive(pid));
}

TEST_F(Processes, MoveWithTheirObject) {
  Result<Child> first = Child::spawn({"sleep", "1000"});
  ASSERT_TRUE(first) << first.error().reason;
  const pid_t pid = first->pid();
  Child second = std::move(*first);
  EXPECT_EQ(first->pid(), 0);
  EXPECT_EQ(second.pid(), pid);
  EXPECT_TRUE(is_process_alive(pid));
  second = Child();
  EXPECT_FALSE(is_process_alive(pid));
  EXPECT_EQ(second.signal(SIGTERM).error().code, Code::kFailedPrecondition);
}

TEST_F(Processes, DieWithTheParentThatAskedForIt) {
  // A process between this one and the child, so that there is a parent to kill.
  const pid_t parent = ::fork();
  if (parent == 0) {
    SpawnOptions options;
    options.die_with_parent = true;
    Result<Child> child = Child::spawn({"sleep", "1000"}, options);
    const std::string text = std::to_string(child.has_value() ? child->pid() : -1);
    if (!write_file_atomically(path("pid"), text)) ::_exit(1);
    for (;;)
      ::pause();
  }
  ASSERT_GT(parent, 0);
  while (!read_text_file(path("pid"), 100)) {
  }
  const pid_t child = static_cast<pid_t>(std::stol(read_text_file(path("pid"), 100).value()));
  ASSERT_TRUE(is_process_alive(child));
  ASSERT_EQ(::kill(parent, SIGKILL), 0);
  // Ends when the signal does what it should; otherwise the test's own time limit speaks.
  while (is_process_alive(child)) {
  }
}

TEST_F(Processes, CanStandOutsideTheGroupOfTheTerminal) {
  SpawnOptions options;
  options.own_process_group = true;
  Child child = Child::spawn({"sleep", "1000"}, options).value();
  EXPECT_EQ(::getpgid(child.pid()), child.pid());
  Child inside = Child::spawn({"sleep", "1000"}).value();
  EXPECT_EQ(::getpgid(inside.pid()), ::getpgrp());
}

TEST(SignalWait, HandsOutSignalsOneAtATime) {
  SignalWait wait = SignalWait::create().value();
  EXPECT_FALSE(wait.next(0).has_value());
  ::kill(::getpid(), SIGTERM);
  EXPECT_EQ(wait.next(kPatienceNs), SIGTERM);
  ::kill(::getpid(), SIGINT);
  EXPECT_EQ(wait.next(kPatienceNs), SIGINT);
  EXPECT_FALSE(wait.from_terminal());
  EXPECT_FALSE(wait.next(1'000'000).has_value());
}

TEST(SignalWait, TellsCtrlCFromASignalThatWasSent) {
  const int control = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (control < 0) GTEST_SKIP() << "no pseudo terminals here";
  ASSERT_EQ(::grantpt(control), 0);
  ASSERT_EQ(::unlockpt(control), 0);
  const std::string terminal = ::ptsname(control);
  // A process of its own, since a terminal can only become that of a session's leader.
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    Result<SignalWait> wait = SignalWait::create();
    if (!wait || ::open(terminal.c_str(), O_RDWR) < 0) ::_exit(2);
    if (::write(control, "\x03", 1) != 1) ::_exit(3);
    const bool seen = wait->next(kPatienceNs) == SIGINT && wait->from_terminal();
    ::_exit(seen ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  ::close(control);
}

TEST(SignalWait, HearsOfAChildsEndAndLeavesTheChildUnblocked) {
  SignalWait wait = SignalWait::create().value();
  Child child = Child::spawn({"sleep", "1000"}).value();
  // Blocked signals would be inherited over exec and SIGTERM would do nothing.
  ASSERT_TRUE(child.signal(SIGTERM).has_value());
  EXPECT_EQ(wait.next(kPatienceNs), SIGCHLD);
  EXPECT_EQ(child.wait().value, SIGTERM);
}

TEST(SignalWait, RestoresTheMaskAndSwallowsWhatWasPending) {
  {
    SignalWait wait = SignalWait::create().value();
    SignalWait moved = std::move(wait);
    ::kill(::getpid(), SIGTERM);
  }
  sigset_t now;
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, nullptr, &now), 0);
  EXPECT_FALSE(::sigismember(&now, SIGTERM));
  EXPECT_FALSE(::sigismember(&now, SIGCHLD));
}

}  // namespace
}  // namespace rhizome
