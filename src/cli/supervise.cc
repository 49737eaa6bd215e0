#include "cli/supervise.h"

#include <optional>

#include "machine/clock.h"

namespace rhizome {
namespace {

// SIGCHLD wakes the wait; this only bounds it.
constexpr uint64_t kLong = uint64_t{3600} * 1'000'000'000;

}  // namespace

Ended supervise_server(Child& child, SignalWait& signals, uint64_t patience_ns, const std::function<void()>& stopping) {
  Ended ended;
  std::optional<uint64_t> deadline;
  for (;;) {
    if (const auto status = child.try_wait()) {
      ended.status = *status;
      return ended;
    }
    const uint64_t now = monotonic_now_ns();
    if (deadline && now >= *deadline) {
      (void)child.signal(SIGKILL);
      ended.killed = true;
      ended.status = child.wait();
      return ended;
    }
    const auto signal = signals.next(deadline ? *deadline - now : kLong);
    if (!signal || (*signal != SIGINT && *signal != SIGTERM)) continue;
    if (!ended.asked) {
      ended.asked = true;
      stopping();
      (void)child.signal(SIGTERM);
      deadline = monotonic_now_ns() + patience_ns;
    } else if (*signal == SIGINT) {
      deadline = now;
    }
  }
}

ExitStatus supervise_program(Child& child, SignalWait& signals) {
  for (;;) {
    if (const auto status = child.try_wait()) return *status;
    const auto signal = signals.next(kLong);
    if (!signal || *signal == SIGCHLD) continue;
    if (!signals.from_terminal()) (void)child.signal(*signal);
  }
}

}  // namespace rhizome
