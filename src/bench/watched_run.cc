#include "bench/watched_run.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "machine/clock.h"
#include "machine/thread.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kSignalPause = 100'000'000;
constexpr uint64_t kInterruptPatience = 3'000'000'000;

void watch_signals(SignalWait& signals, Fleet& fleet, const std::atomic<bool>& done) {
  uint64_t patience_ends_ns = UINT64_MAX;
  while (!done) {
    const std::optional<int> signal_number = signals.next(kSignalPause);
    const bool wanted = signal_number && (*signal_number == SIGINT || *signal_number == SIGTERM);
    if (wanted) patience_ends_ns = std::min(patience_ends_ns, monotonic_now_ns() + kInterruptPatience);
    if (wanted || monotonic_now_ns() > patience_ends_ns) fleet.interrupt(monotonic_now_ns() > patience_ends_ns);
  }
}

}  // namespace

Status run_watched(Fleet& fleet, SignalWait& signals, const std::function<void()>& work) {
  std::atomic<bool> done = false;
  Result<Thread> worker = start_thread("bench", [&] {
    work();
    done = true;
  });
  if (!worker) return fail(worker.error());
  watch_signals(signals, fleet, done);
  worker->join();
  return {};
}

}  // namespace rhizome::bench
