// Keys that the tier forgot by itself, until its owner has been told.
//
// Thread-safety: any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "block/block_key.h"
#include "concurrency/mutex.h"

namespace rhizome {

class ForgottenKeys {
 public:
  static constexpr size_t kKeysMax = 1 << 16;

  void add(const BlockKey& key) {
    const MutexLock lock(mutex_);
    if (keys_.size() < kKeysMax) {
      keys_.push_back(key);
    } else {
      has_overflowed_ = true;
    }
  }
  void set_overflowed() {
    const MutexLock lock(mutex_);
    has_overflowed_ = true;
  }
  size_t collect(std::span<BlockKey> out) {
    const MutexLock lock(mutex_);
    const size_t count = std::min(out.size(), keys_.size());
    std::copy(keys_.end() - static_cast<ptrdiff_t>(count), keys_.end(), out.begin());
    keys_.resize(keys_.size() - count);
    return count;
  }
  // And clears it.
  bool take_overflowed() {
    const MutexLock lock(mutex_);
    const bool is_so = has_overflowed_;
    has_overflowed_ = false;
    return is_so;
  }

 private:
  Mutex mutex_;
  std::vector<BlockKey> keys_ GUARDED_BY(mutex_);
  bool has_overflowed_ GUARDED_BY(mutex_) = false;
};

}  // namespace rhizome
