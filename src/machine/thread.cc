#include "machine/thread.h"

#include <chrono>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include <pthread.h>
#include <signal.h>

namespace rhizome {
namespace {

constexpr size_t kNameBytesMax = 15;

// Everything but what a fault of the thread itself raises: blocked, that would kill without a trace.
sigset_t signals_of_others() {
  sigset_t set;
  ::sigfillset(&set);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
    ::sigdelset(&set, own);
  return set;
}

}  // namespace

Result<Thread> start_thread(std::string_view name, std::function<void(std::stop_token)> run) {
  // A new thread inherits the mask; set before it starts, there is no moment in which it could be
  // chosen for a signal that the program waits for elsewhere.
  const sigset_t blocked = signals_of_others();
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  Result<Thread> started = Thread();
  try {
    std::string short_name(name.substr(0, kNameBytesMax));
    started = Thread(std::jthread([short_name = std::move(short_name), run = std::move(run)](std::stop_token stop) {
      ::pthread_setname_np(::pthread_self(), short_name.c_str());
      run(std::move(stop));
    }));
  } catch (const std::exception&) {
    // std::system_error or std::bad_alloc.
    started = fail(Code::kResourceExhausted, "the system has no thread to give");
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

Result<Thread> start_thread(std::string_view name, std::function<void()> run) {
  return start_thread(name, [run = std::move(run)](const std::stop_token&) { run(); });
}

void pause_thread(uint64_t nanoseconds) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds));
}

void yield_thread() {
  std::this_thread::yield();
}

}  // namespace rhizome
