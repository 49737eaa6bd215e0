// A process that does what a test tells it, with all that the test has but for memory that children do not get.
//
// Thread-safety: belongs to one thread; make it while no other thread runs.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/check.h"

namespace rhizome {

class ForkedChild {
 public:
  // Ends with what `action` returns.
  template <class Action>
  explicit ForkedChild(Action action) : pid_(::fork()) {
    RHIZOME_CHECK(pid_ >= 0);
    if (pid_ == 0) ::_exit(action());
  }
  ~ForkedChild() {
    if (pid_ != 0) kill_and_wait();
  }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;

  pid_t pid() const { return pid_; }

  // What it returned; 128 and more: the signal that ended it.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0) {
    }
    pid_ = 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  int kill_and_wait() {
    ::kill(pid_, SIGKILL);
    return wait();
  }

 private:
  pid_t pid_;
};

}  // namespace rhizome
