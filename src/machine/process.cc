#include "machine/process.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>
#include <tuple>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/check.h"
#include "machine/clock.h"
#include "machine/files.h"

namespace rhizome {
namespace {

// The limit before take_all_descriptors(); 0: it was not called, or took nothing.
std::atomic<rlim_t> given_descriptors{0};

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

std::vector<std::string> child_environment(const SpawnOptions& options) {
  const auto changed = [&options](std::string_view name) {
    for (const auto& [set, value] : options.environment) {
      if (set == name) return true;
    }
    return std::find(options.environment_removed.begin(), options.environment_removed.end(), name) !=
           options.environment_removed.end();
  };
  std::vector<std::string> variables;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    if (!changed(name_of(*at))) variables.emplace_back(*at);
  }
  for (const auto& [name, value] : options.environment)
    variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts)
    out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// All that the child needs, made before the fork: between fork and exec nothing may allocate, since
// another thread may have held the heap's lock at that moment.
struct Prepared {
  std::vector<std::string> variables;
  std::vector<char*> argv;
  std::vector<char*> envp;
  const SpawnOptions* options;
  pid_t parent;
  int report;  // the pipe that tells the parent why exec failed
};

[[noreturn]] void report_and_exit(int report) {
  const int error_number = errno;
  [[maybe_unused]] const ssize_t written = ::write(report, &error_number, sizeof error_number);
  ::_exit(127);
}

bool redirect(const std::string& path, int flags, int target) {
  if (path.empty()) return true;
  const int descriptor = ::open(path.c_str(), flags, 0600);
  if (descriptor < 0) return false;
  if (descriptor == target) return true;
  const bool done = ::dup2(descriptor, target) == target;
  ::close(descriptor);
  return done;
}

void give_descriptor_limit_back() {
  rlimit limit{};
  const rlim_t given = given_descriptors.load(std::memory_order_relaxed);
  if (given == 0 || ::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min(given, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

[[noreturn]] void run_child(const Prepared& prepared) {
  const SpawnOptions& options = *prepared.options;
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Ignored signals stay ignored over exec; a child that never hears of a broken pipe would spin.
  ::signal(SIGPIPE, SIG_DFL);
  give_descriptor_limit_back();
  if (options.own_process_group) ::setpgid(0, 0);
  if (options.die_with_parent) {
    if (::prctl(PR_SET_PDEATHSIG, options.death_signal) != 0) report_and_exit(prepared.report);
    // The parent may have ended before the line above took effect.
    if (::getppid() != prepared.parent) ::_exit(127);
  }
  const int append = O_WRONLY | O_CREAT | O_APPEND;
  if (!redirect(options.stdin_path, O_RDONLY, STDIN_FILENO)) report_and_exit(prepared.report);
  if (!redirect(options.stdout_path, append, STDOUT_FILENO)) report_and_exit(prepared.report);
  if (!redirect(options.stderr_path, append, STDERR_FILENO)) report_and_exit(prepared.report);
  ::execvpe(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
  report_and_exit(prepared.report);
}

ExitStatus exit_status(int status) {
  if (WIFSIGNALED(status)) return {.signalled = true, .value = WTERMSIG(status)};
  return {.signalled = false, .value = WEXITSTATUS(status)};
}

}  // namespace

void take_all_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  const rlim_t given = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) given_descriptors.store(given, std::memory_order_relaxed);
}

Result<Child> Child::spawn(const std::vector<std::string>& argv, const SpawnOptions& options) {
  if (argv.empty() || argv[0].empty()) return fail(Code::kInvalidArgument, "there is no program to start");
  Prepared prepared{.variables = child_environment(options),
                    .argv = pointers(argv),
                    .envp = {},
                    .options = &options,
                    .parent = ::getpid(),
                    .report = -1};
  prepared.envp = pointers(prepared.variables);

  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(error_from_errno(errno, "cannot make a pipe"));
  prepared.report = ends[1];
  const pid_t pid = ::fork();
  if (pid == 0) run_child(prepared);
  const int fork_error = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return fail(error_from_errno(fork_error, "cannot start a process"));
  }
  // exec closes the child's end, so this returns with the child's error or with nothing.
  int child_error = 0;
  ssize_t got = 0;
  do {
    got = ::read(ends[0], &child_error, sizeof child_error);
  } while (got < 0 && errno == EINTR);
  ::close(ends[0]);
  Child child(pid);
  if (got == static_cast<ssize_t>(sizeof child_error)) {
    child.wait();
    return fail(error_from_errno(child_error, "cannot start the program"));
  }
  return child;
}

Child::~Child() {
  if (pid_ == 0 || ended_) return;
  // Its end cannot have been reaped by anybody else, so the number is still its own.
  ::kill(pid_, SIGKILL);
  wait();
}

Child::Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)), ended_(std::exchange(other.ended_, {})) {}

Child& Child::operator=(Child&& other) noexcept {
  if (this != &other) {
    Child old(std::move(*this));
    pid_ = std::exchange(other.pid_, 0);
    ended_ = std::exchange(other.ended_, {});
  }
  return *this;
}

ExitStatus Child::wait() {
  const std::optional<ExitStatus> ended = reap(0);
  RHIZOME_CHECK(ended.has_value());
  return *ended;
}

std::optional<ExitStatus> Child::try_wait() {
  return reap(WNOHANG);
}

std::optional<ExitStatus> Child::wait_for(uint64_t timeout_ns) {
  RHIZOME_CHECK(pid_ != 0);
  const uint64_t start = monotonic_now_ns();
  if (const std::optional<ExitStatus> ended = try_wait()) return ended;
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  for (;;) {
    if (const std::optional<ExitStatus> ended = try_wait()) {
      if (descriptor >= 0) ::close(descriptor);
      return ended;
    }
    const uint64_t passed = monotonic_now_ns() - start;
    if (passed >= timeout_ns) break;
    // Kernels before 5.3 have no descriptor for a process; there the state is asked for now and then.
    const uint64_t step_ms_max = descriptor >= 0 ? std::numeric_limits<int>::max() : 5;
    const uint64_t left_ms = (timeout_ns - passed + 999'999) / 1'000'000;
    pollfd wait{.fd = descriptor, .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, static_cast<int>(std::min(left_ms, step_ms_max)));
  }
  if (descriptor >= 0) ::close(descriptor);
  return std::nullopt;
}

Status Child::signal(int signal_number) {
  if (pid_ == 0 || ended_) return fail(Code::kFailedPrecondition, "the process has ended");
  if (::kill(pid_, signal_number) != 0) return fail(error_from_errno(errno, "cannot send the signal"));
  return {};
}

ExitStatus Child::terminate(uint64_t patience_ns) {
  std::ignore = signal(SIGTERM);
  if (const std::optional<ExitStatus> ended = wait_for(patience_ns)) return *ended;
  std::ignore = signal(SIGKILL);
  return wait();
}

std::optional<ExitStatus> Child::reap(int options) {
  RHIZOME_CHECK(pid_ != 0);
  if (ended_) return ended_;
  int status = 0;
  pid_t got = 0;
  do {
    got = ::waitpid(pid_, &status, options);
  } while (got < 0 && errno == EINTR);
  if (got == 0) return std::nullopt;
  // Fails only when SIGCHLD is ignored or somebody else reaped it: it has ended, how is unknown.
  ended_ = got == pid_ ? exit_status(status) : ExitStatus{.signalled = false, .value = 127};
  return ended_;
}

}  // namespace rhizome
