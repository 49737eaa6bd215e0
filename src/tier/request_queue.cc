#include "tier/request_queue.h"

#include <algorithm>

#include "contract/check.h"

namespace rhizome {

size_t RequestQueue::submit(std::span<const TierRequest> requests) {
  const MutexLock lock(mutex_);
  const size_t count = std::min(requests.size(), requests_max_ - taken());
  waiting_.insert(waiting_.end(), requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

std::optional<TierRequest> RequestQueue::begin() {
  const MutexLock lock(mutex_);
  if (waiting_.empty()) return std::nullopt;
  const TierRequest request = waiting_.front();
  waiting_.pop_front();
  ++working_;
  return request;
}

void RequestQueue::finish(const TierCompletion& completion) {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(working_ > 0);
  --working_;
  done_.push_back(completion);
}

bool RequestQueue::cancel(uint64_t tag) {
  const MutexLock lock(mutex_);
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& one) { return one.tag == tag; });
  if (found == waiting_.end()) return false;
  waiting_.erase(found);
  done_.push_back({.tag = tag, .outcome = TierOutcome::kCancelled, .bytes = 0, .error = {}});
  return true;
}

size_t RequestQueue::collect(std::span<TierCompletion> out) {
  const MutexLock lock(mutex_);
  const size_t count = std::min(out.size(), done_.size());
  const auto end = done_.begin() + static_cast<std::ptrdiff_t>(count);
  std::copy(done_.begin(), end, out.begin());
  done_.erase(done_.begin(), end);
  return count;
}

size_t RequestQueue::under_way() const {
  const MutexLock lock(mutex_);
  return taken();
}

}  // namespace rhizome
