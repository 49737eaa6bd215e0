#include <algorithm>
#include <cerrno>
#include <limits>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "contract/check.h"
#include "machine/clock.h"
#include "machine/files.h"
#include "machine/process.h"

namespace rhizome {

Result<SignalWait> SignalWait::create() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int number : {SIGINT, SIGTERM, SIGCHLD})
    ::sigaddset(&wanted, number);
  sigset_t before;
  if (::pthread_sigmask(SIG_BLOCK, &wanted, &before) != 0) return fail(Code::kInternal, "cannot block the signals");
  const int descriptor = ::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0) {
    const Error error = error_from_errno(errno, "cannot wait for signals");
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return fail(error);
  }
  return SignalWait(descriptor, before);
}

SignalWait::SignalWait(SignalWait&& other) noexcept : descriptor_(other.descriptor_), before_(other.before_) {
  other.descriptor_ = -1;
}

SignalWait::~SignalWait() {
  if (descriptor_ < 0) return;
  // What came and was not asked for any more must not strike when the mask opens.
  while (next(0)) {
  }
  ::close(descriptor_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalWait::next(uint64_t timeout_ns) {
  const uint64_t start = monotonic_now_ns();
  for (;;) {
    signalfd_siginfo info{};
    const ssize_t got = ::read(descriptor_, &info, sizeof info);
    if (got == static_cast<ssize_t>(sizeof info)) {
      from_terminal_ = info.ssi_code == SI_KERNEL;
      return static_cast<int>(info.ssi_signo);
    }
    RHIZOME_CHECK(got < 0 && (errno == EAGAIN || errno == EINTR));
    const uint64_t passed = monotonic_now_ns() - start;
    if (passed >= timeout_ns) return std::nullopt;
    const uint64_t left_ms = (timeout_ns - passed + 999'999) / 1'000'000;
    pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0};
    ::poll(&wait, 1, static_cast<int>(std::min<uint64_t>(left_ms, std::numeric_limits<int>::max())));
  }
}

}  // namespace rhizome
