// A tier in the process's own memory: what a tier is without a device. It forgets the images used longest ago first.
//
// It has no thread: whoever collects does the work. A read copies; blocks that are hot belong into the slab.
//
// Thread-safety: as Tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "concurrency/mutex.h"
#include "machine/clock.h"
#include "tier/request_queue.h"
#include "tier/tier.h"

namespace rhizome {

struct MemoryTierOptions {
  uint64_t bytes_max = 64 << 20;  // of images
  size_t requests_max = 256;
  Clock* clock = nullptr;  // nullptr: the real one; outlives the tier
};

class MemoryTier final : public Tier {
 public:
  explicit MemoryTier(const MemoryTierOptions& options);

  std::string_view name() const override { return "memory"; }
  size_t submit(std::span<const TierRequest> requests) override { return queue_.submit(requests); }
  size_t collect(std::span<TierCompletion> out, uint64_t wait_ns) override;
  bool cancel(uint64_t tag) override { return queue_.cancel(tag); }
  TierUsage usage() const override;
  size_t collect_forgotten(std::span<BlockKey> out, bool& is_complete) override;

 private:
  struct Image {
    BlockKey key;
    std::vector<std::byte> bytes;
  };
  using Images = std::list<Image>;

  TierCompletion perform(const TierRequest& request) EXCLUDES(mutex_);
  TierCompletion read(const TierRequest& request, Images::iterator image) REQUIRES(mutex_);
  TierCompletion write(const TierRequest& request) REQUIRES(mutex_);
  void forget(Images::iterator image) REQUIRES(mutex_);

  const uint64_t bytes_max_;
  const Clock& clock_;
  RequestQueue queue_;
  mutable Mutex mutex_;
  Images images_ GUARDED_BY(mutex_);  // used longest ago first
  std::unordered_map<BlockKey, Images::iterator, BlockKeyHash> by_key_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::deque<BlockKey> forgotten_ GUARDED_BY(mutex_);
  bool is_complete_ GUARDED_BY(mutex_) = true;
};

}  // namespace rhizome
