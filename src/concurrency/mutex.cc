#include "concurrency/mutex.h"

#include <algorithm>
#include <chrono>

namespace rhizome {
namespace {

// Longer waits are cut: deadlines near the end of the clock's range overflow in the standard library.
constexpr uint64_t kTimeoutNsMax = 365ull * 86'400 * 1'000'000'000;

}  // namespace

void CondVar::wait(Mutex& mutex) {
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  condition_.wait(lock);
  lock.release();
}

bool CondVar::wait_for(Mutex& mutex, uint64_t timeout_ns) {
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  const std::chrono::nanoseconds timeout(static_cast<int64_t>(std::min(timeout_ns, kTimeoutNsMax)));
  const std::cv_status status = condition_.wait_for(lock, timeout);
  lock.release();
  return status == std::cv_status::no_timeout;
}

}  // namespace rhizome
