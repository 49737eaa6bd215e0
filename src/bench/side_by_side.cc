#include "bench/side_by_side.h"

#include "machine/thread.h"

namespace rhizome::bench {

void run_two(bool together, const std::function<void()>& first, const std::function<void()>& second) {
  if (together) {
    Result<Thread> thread = start_thread("bench-side", first);
    if (thread) {
      second();
      thread->join();
      return;
    }
  }
  first();
  second();
}

}  // namespace rhizome::bench
