#include "tier/disk/disk_health.h"

#include <algorithm>

namespace rhizome {

void DiskHealth::count_read_error(uint64_t now_ns) {
  errors_ns_.push_back(now_ns);
  while (now_ns - errors_ns_.front() > kWindowNs)
    errors_ns_.pop_front();
  if (errors_ns_.size() < kErrorsMax) return;
  errors_ns_.clear();
  mode_.store(mode() == DiskMode::kGood ? DiskMode::kReadOnly : DiskMode::kOffline, std::memory_order_relaxed);
}

void DiskHealth::count_write_error() {
  if (mode() == DiskMode::kGood) mode_.store(DiskMode::kReadOnly, std::memory_order_relaxed);
}

WriteBudget::WriteBudget(uint64_t bytes_per_second, uint64_t now_ns)
    : bytes_per_second_(static_cast<double>(bytes_per_second)),
      left_(bytes_per_second_ * kDepthSeconds),
      filled_ns_(now_ns) {}

bool WriteBudget::allows(uint64_t bytes, uint64_t now_ns) {
  if (bytes_per_second_ == 0) return true;
  left_ = std::min(left_ + static_cast<double>(now_ns - filled_ns_) * bytes_per_second_ / 1e9,
                   bytes_per_second_ * kDepthSeconds);
  filled_ns_ = now_ns;
  return left_ >= static_cast<double>(bytes);
}

}  // namespace rhizome
