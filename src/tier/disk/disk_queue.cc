#include "tier/disk/disk_queue.h"

#include <algorithm>

#include "contract/check.h"
#include "machine/clock.h"

namespace rhizome {

size_t DiskQueue::submit(std::span<const TierRequest> requests) {
  const MutexLock lock(mutex_);
  const size_t count = std::min(requests.size(), requests_max_ - taken());
  for (const TierRequest& request : requests.first(count))
    (request.operation == TierOperation::kWrite ? writes_ : others_).push_back(request);
  return count;
}

std::optional<TierRequest> DiskQueue::begin(std::deque<TierRequest>& waiting) {
  if (waiting.empty()) return std::nullopt;
  const TierRequest request = waiting.front();
  waiting.pop_front();
  ++working_;
  return request;
}

std::optional<TierRequest> DiskQueue::begin_write() {
  const MutexLock lock(mutex_);
  return begin(writes_);
}

std::optional<TierRequest> DiskQueue::begin_other() {
  const MutexLock lock(mutex_);
  return begin(others_);
}

bool DiskQueue::has_writes() const {
  const MutexLock lock(mutex_);
  return !writes_.empty();
}

bool DiskQueue::has_others() const {
  const MutexLock lock(mutex_);
  return !others_.empty();
}

void DiskQueue::finish(const TierCompletion& completion) {
  const MutexLock lock(mutex_);
  RHIZOME_CHECK(working_ > 0);
  --working_;
  done_.push_back(completion);
  changed_.notify_all();
}

bool DiskQueue::cancel(uint64_t tag) {
  const MutexLock lock(mutex_);
  for (std::deque<TierRequest>* const waiting : {&writes_, &others_}) {
    const auto found = std::find_if(waiting->begin(), waiting->end(), [&](const auto& one) { return one.tag == tag; });
    if (found == waiting->end()) continue;
    waiting->erase(found);
    done_.push_back({.tag = tag, .outcome = TierOutcome::kCancelled, .bytes = 0, .error = {}});
    changed_.notify_all();
    return true;
  }
  return false;
}

size_t DiskQueue::collect(std::span<TierCompletion> out, uint64_t wait_ns) {
  if (out.empty()) return 0;
  const uint64_t start = monotonic_now_ns();
  const MutexLock lock(mutex_);
  for (;;) {
    const size_t count = std::min(out.size(), done_.size());
    const auto end = done_.begin() + static_cast<std::ptrdiff_t>(count);
    std::copy(done_.begin(), end, out.begin());
    done_.erase(done_.begin(), end);
    if (count > 0) {
      // Nothing is under way any more: others who wait wait for nothing.
      if (taken() == 0) changed_.notify_all();
      return count;
    }
    const uint64_t waited = monotonic_now_ns() - start;
    if (taken() == 0 || waited >= wait_ns) return 0;
    changed_.wait_for(mutex_, wait_ns - waited);
  }
}

size_t DiskQueue::under_way() const {
  const MutexLock lock(mutex_);
  return taken();
}

}  // namespace rhizome
