// What a tier with a thread of its own has taken and not handed back yet. As RequestQueue, but reads are begun before
// writes, and collect() waits.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "concurrency/mutex.h"
#include "tier/tier.h"

namespace rhizome {

class DiskQueue {
 public:
  explicit DiskQueue(size_t requests_max) : requests_max_(requests_max) {}

  size_t submit(std::span<const TierRequest> requests);
  // One that waits; from now on it is at work, and finish() must follow.
  std::optional<TierRequest> begin_write();
  std::optional<TierRequest> begin_other();
  bool has_writes() const;
  bool has_others() const;
  void finish(const TierCompletion& completion);
  bool cancel(uint64_t tag);
  size_t collect(std::span<TierCompletion> out, uint64_t wait_ns);
  size_t under_way() const;
  size_t requests_max() const { return requests_max_; }

 private:
  std::optional<TierRequest> begin(std::deque<TierRequest>& waiting) REQUIRES(mutex_);
  size_t taken() const REQUIRES(mutex_) { return writes_.size() + others_.size() + working_ + done_.size(); }

  const size_t requests_max_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<TierRequest> writes_ GUARDED_BY(mutex_);
  std::deque<TierRequest> others_ GUARDED_BY(mutex_);
  size_t working_ GUARDED_BY(mutex_) = 0;
  std::deque<TierCompletion> done_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
