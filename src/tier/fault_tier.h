// A tier that goes wrong on purpose: it stands before another one and injects faults by seeded chance, the same each
// time for the same requests.
//
// What it does by default stays inside the contract of tier.h. Flipped bits and torn writes do not: those are what
// whoever reads from a tier has to notice by himself (the digest of an image, the identity in it).
//
// Thread-safety: as Tier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <unordered_map>

#include "concurrency/mutex.h"
#include "tier/tier.h"

namespace rhizome {

// Chances from 0 to 1, each for itself.
struct TierFaults {
  double busy = 0;        // a submit() takes nothing
  double fail = 0;        // a request is kFailed, and the tier behind never hears of it
  double fail_after = 0;  // a request is kFailed although it was done
  double forget = 0;      // a find or read is kMissing
  double refuse = 0;      // a write is kRefused
  double delay = 0;       // a completion is held back until a few more calls of collect()
  double flip = 0;        // a read that is done has one wrong bit
  double tear = 0;        // only the first part of a write arrives
};

struct TierFaultCounts {
  uint64_t busy = 0;
  uint64_t failed = 0;
  uint64_t forgotten = 0;
  uint64_t refused = 0;
  uint64_t delayed = 0;
  uint64_t flipped = 0;
  uint64_t torn = 0;
};

class FaultTier final : public Tier {
 public:
  FaultTier(std::unique_ptr<Tier> behind, const TierFaults& faults, uint64_t seed);

  std::string_view name() const override { return "fault"; }
  uint64_t read_room_bytes(uint64_t image_bytes) const override { return behind_->read_room_bytes(image_bytes); }
  size_t submit(std::span<const TierRequest> requests) override;
  size_t collect(std::span<TierCompletion> out, uint64_t wait_ns) override;
  bool cancel(uint64_t tag) override;
  TierUsage usage() const override;
  size_t collect_forgotten(std::span<BlockKey> out, bool& is_complete) override {
    return behind_->collect_forgotten(out, is_complete);
  }

  // From now on.
  void set_faults(const TierFaults& faults);
  TierFaultCounts counts() const;

 private:
  struct Held {
    TierCompletion completion;
    uint32_t calls_left = 0;
  };

  bool happens(double chance) REQUIRES(mutex_);
  // Whether the request ends here; else it may have been changed.
  bool ends_here(TierRequest& request, TierCompletion& completion) REQUIRES(mutex_);
  void spoil(TierCompletion& completion) REQUIRES(mutex_);
  void receive(uint64_t wait_ns) EXCLUDES(mutex_);

  const std::unique_ptr<Tier> behind_;
  mutable Mutex mutex_;
  TierFaults faults_ GUARDED_BY(mutex_);
  TierFaultCounts counts_ GUARDED_BY(mutex_);
  std::mt19937_64 random_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, TierRequest> under_way_ GUARDED_BY(mutex_);  // by tag, as the caller made them
  std::deque<Held> held_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
