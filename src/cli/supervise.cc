#include "cli/supervise.h"

#include <algorithm>
#include <cstdint>

#include "machine/clock.h"

namespace rhizome {
namespace {

// SIGCHLD wakes the wait; this only bounds it.
constexpr uint64_t kLong = uint64_t{3600} * 1'000'000'000;
constexpr uint64_t kNever = UINT64_MAX;

}  // namespace

Ended supervise_server(Child& child, SignalWait& signals, uint64_t patience_ns, const std::function<void()>& stopping) {
  Ended ended;
  uint64_t ask_again = kNever;
  uint64_t deadline = kNever;
  for (;;) {
    if (const auto status = child.try_wait()) {
      ended.status = *status;
      return ended;
    }
    const uint64_t now = monotonic_now_ns();
    if (now >= deadline) {
      (void)child.signal(SIGKILL);
      ended.killed = true;
      ended.status = child.wait();
      return ended;
    }
    if (now >= ask_again) {
      // llama-server loses a SIGTERM that comes between its handlers and its loop; at the second it ends at once.
      (void)child.signal(SIGTERM);
      ended.asked_again = true;
      ask_again = kNever;
    }
    const auto signal = signals.next(std::min({kLong, ask_again - now, deadline - now}));
    if (!signal || (*signal != SIGINT && *signal != SIGTERM)) continue;
    if (!ended.asked) {
      ended.asked = true;
      stopping();
      (void)child.signal(SIGTERM);
      deadline = monotonic_now_ns() + patience_ns;
      ask_again = deadline - patience_ns / 3;
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
