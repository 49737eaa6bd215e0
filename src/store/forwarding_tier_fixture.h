// A tier that does what the one behind it does, for tests that change one thing of it.
//
// Thread-safety: as Tier.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "tier/memory_tier.h"
#include "tier/tier.h"

namespace rhizome {

class ForwardingTier : public Tier {
 public:
  explicit ForwardingTier(std::unique_ptr<Tier> behind) : behind_(std::move(behind)) {}

  std::string_view name() const override { return "forwarding"; }
  size_t submit(std::span<const TierRequest> requests) override { return behind_->submit(requests); }
  size_t collect(std::span<TierCompletion> out, uint64_t wait_ns) override { return behind_->collect(out, wait_ns); }
  bool cancel(uint64_t tag) override { return behind_->cancel(tag); }
  TierUsage usage() const override { return behind_->usage(); }
  size_t collect_forgotten(std::span<BlockKey> out, bool& is_complete) override {
    return behind_->collect_forgotten(out, is_complete);
  }

 private:
  const std::unique_ptr<Tier> behind_;
};

}  // namespace rhizome
