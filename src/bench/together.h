// Work of several threads, measured while all of them are at it.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "contract/result.h"
#include "machine/thread.h"

namespace rhizome::bench {

// Calls worker(true) `count` times for each worker, each in a thread of its own (the first in the caller's), all
// beginning together; who is done goes on with worker(false) until all are. kResourceExhausted: no thread.
template <class Worker>
Status run_together(std::vector<Worker>& workers, uint32_t count) {
  std::atomic<size_t> missing = workers.size();
  std::atomic<size_t> working = workers.size();
  std::atomic<bool> is_called_off = false;
  const auto run = [&](Worker& worker) {
    missing.fetch_sub(1);
    while (missing.load() > 0) {
      if (is_called_off.load()) return;
    }
    for (uint32_t i = 0; i < count; ++i)
      worker(true);
    working.fetch_sub(1);
    while (working.load() > 0)
      worker(false);
  };
  std::vector<Thread> threads;
  for (size_t i = 1; i < workers.size(); ++i) {
    Result<Thread> thread = start_thread("bench-index", [&run, &worker = workers[i]] { run(worker); });
    if (!thread) {
      is_called_off = true;
      return fail(thread.error());
    }
    threads.push_back(std::move(*thread));
  }
  run(workers.front());
  return {};
}

}  // namespace rhizome::bench
