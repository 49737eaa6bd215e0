// What a tier has taken and not handed back yet: requests that wait, how many are at work, completions that wait to be
// collected. All three together are bounded, so a caller who does not collect cannot fill memory.
//
//   waiting -> working -> done -> collected
//   waiting -> done (cancelled)
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

class RequestQueue {
 public:
  explicit RequestQueue(size_t requests_max) : requests_max_(requests_max) {}

  // How many were taken, from the front.
  size_t submit(std::span<const TierRequest> requests);
  // One that waits; from now on it is at work, and finish() must follow.
  std::optional<TierRequest> begin();
  void finish(const TierCompletion& completion);
  // True: it waited and is done as kCancelled.
  bool cancel(uint64_t tag);
  // Completions that are there, up to out.size().
  size_t collect(std::span<TierCompletion> out);
  size_t under_way() const;
  size_t requests_max() const { return requests_max_; }

 private:
  size_t taken() const REQUIRES(mutex_) { return waiting_.size() + working_ + done_.size(); }

  const size_t requests_max_;
  mutable Mutex mutex_;
  std::deque<TierRequest> waiting_ GUARDED_BY(mutex_);
  size_t working_ GUARDED_BY(mutex_) = 0;
  std::deque<TierCompletion> done_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
