// Child processes, and signals as values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <signal.h>
#include <sys/types.h>

#include "contract/result.h"

namespace rhizome {

struct ExitStatus {
  bool signalled = false;
  int value = 0;  // exit status, or the number of the signal that ended it

  bool success() const { return !signalled && value == 0; }
  // As shells report it: 128 + signal number.
  int shell_status() const { return signalled ? 128 + value : value; }
};

struct SpawnOptions {
  // Set (or replaced) and taken out, compared with this process's environment.
  std::vector<std::pair<std::string, std::string>> environment;
  std::vector<std::string> environment_removed;
  // Empty: the parent's. Output files are created (mode 0600) and appended to.
  std::string stdin_path;
  std::string stdout_path;
  std::string stderr_path;
  // The child gets `death_signal` when the *thread* that spawned it ends: spawn from one that lives on.
  bool die_with_parent = false;
  int death_signal = SIGTERM;
  // Away from the terminal's process group: Ctrl-C reaches only the parent.
  bool own_process_group = false;
};

// As many descriptors as this process may have at most. Processes that it starts get the limit that it was started
// with: some of them cannot bear numbers above a thousand. May be called from any thread.
void take_all_descriptors();

// A child process. Destroyed while it runs, it is killed and reaped.
//
// Thread-safety: belongs to one thread at a time.
class Child {
 public:
  // argv[0] is looked for in PATH when it has no slash. kNotFound, kPermissionDenied, ... when it
  // cannot be started. The child starts with no signal blocked.
  static Result<Child> spawn(const std::vector<std::string>& argv, const SpawnOptions& options = {});

  Child() = default;
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;

  // 0 for a Child that was moved from. Stays after the end, when the number may be somebody else's.
  pid_t pid() const { return pid_; }

  // Once the child has ended, all three give its status again and again.
  ExitStatus wait();
  std::optional<ExitStatus> try_wait();
  std::optional<ExitStatus> wait_for(uint64_t timeout_ns);

  // kFailedPrecondition when its end has been seen already.
  Status signal(int signal_number);

  // SIGTERM, up to `patience_ns` of waiting, then SIGKILL.
  ExitStatus terminate(uint64_t patience_ns);

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  std::optional<ExitStatus> reap(int options);

  pid_t pid_ = 0;
  std::optional<ExitStatus> ended_;
};

// Turns SIGINT, SIGTERM and SIGCHLD into values: they are blocked while this object lives and
// handed out one at a time.
//
// Thread-safety: make it in the main thread before any other thread starts (threads inherit the
// mask); afterwards it belongs to one thread at a time. At most one in a process.
class SignalWait {
 public:
  static Result<SignalWait> create();

  SignalWait(SignalWait&& other) noexcept;
  SignalWait& operator=(SignalWait&&) = delete;
  ~SignalWait();

  // The number of the next signal; nothing when `timeout_ns` passed without one.
  std::optional<int> next(uint64_t timeout_ns);
  // Whether the last one came from the terminal, as Ctrl-C does, and so went to the whole process group.
  bool from_terminal() const { return from_terminal_; }

 private:
  SignalWait(int descriptor, const sigset_t& before) : descriptor_(descriptor), before_(before) {}

  int descriptor_;
  sigset_t before_;
  bool from_terminal_ = false;
};

}  // namespace rhizome
