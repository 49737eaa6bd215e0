// Work of several threads, measured while all of them are at it.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "contract/result.h"
#include "machine/thread.h"

namespace rhizome::bench {

// Calls worker(true) for each worker, each in a thread of its own (the first in the caller's), all beginning together,
// until `count` calls of each were made beside the others, `calls_max` at most; who is done goes on with worker(false)
// until all are. After a call that was made while the other threads stood still, because something else ran on their
// processors, it calls worker.measured_alone(). kResourceExhausted: no thread.
template <class Worker>
Status run_together(std::vector<Worker>& workers, uint32_t count, uint32_t calls_max) {
  constexpr uint32_t kCallsWithoutOthers = 3;  // so long may the others' own calls take
  struct alignas(64) Steps {
    std::atomic<uint64_t> done = 0;
  };
  std::vector<Steps> steps(workers.size());
  std::atomic<size_t> missing = workers.size();
  std::atomic<size_t> working = workers.size();
  std::atomic<bool> is_called_off = false;
  const auto steps_of_others = [&steps](size_t own) {
    uint64_t sum = 0;
    for (size_t i = 0; i < steps.size(); ++i)
      sum += i == own ? 0 : steps[i].done.load(std::memory_order_relaxed);
    return sum;
  };
  const auto run = [&](size_t own) {
    missing.fetch_sub(1);
    while (missing.load() > 0) {
      if (is_called_off.load()) return;
    }
    uint32_t beside_others = 0;
    uint32_t still = 0;  // calls since the others made one
    uint64_t seen = 0;
    for (uint32_t call = 0; call < calls_max && beside_others < count; ++call) {
      workers[own](true);
      steps[own].done.fetch_add(1, std::memory_order_relaxed);
      const uint64_t others = steps_of_others(own);
      still = std::exchange(seen, others) == others ? still + 1 : 0;
      if (workers.size() == 1 || still < kCallsWithoutOthers) {
        ++beside_others;
      } else {
        workers[own].measured_alone();
      }
    }
    working.fetch_sub(1);
    while (working.load() > 0) {
      workers[own](false);
      steps[own].done.fetch_add(1, std::memory_order_relaxed);
    }
  };
  std::vector<Thread> threads;
  for (size_t i = 1; i < workers.size(); ++i) {
    Result<Thread> thread = start_thread("bench-index", [&run, i] { run(i); });
    if (!thread) {
      is_called_off = true;
      return fail(thread.error());
    }
    threads.push_back(std::move(*thread));
  }
  run(0);
  return {};
}

}  // namespace rhizome::bench
