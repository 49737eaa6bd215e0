#include "store/staging.h"

#include <algorithm>
#include <utility>

namespace rhizome {
namespace {

constexpr uint64_t kGrain = 64 << 10;
// A buffer that is used again is at most this much larger than what was asked for.
constexpr uint64_t kTimesLarger = 2;

uint64_t rounded(uint64_t bytes) {
  return (std::max<uint64_t>(bytes, 1) + kGrain - 1) / kGrain * kGrain;
}

}  // namespace

Staging::Buffer Staging::take(uint64_t bytes) {
  const uint64_t size = rounded(bytes);
  std::vector<Buffer> leaving;  // unmapped outside the lock
  Buffer found;
  {
    const MutexLock lock(mutex_);
    if (!claim(size, kTimesLarger * size, lent_, found, leaving)) return {};
  }
  return found ? std::move(found) : make(size);
}

Staging::Buffer Staging::lend(uint64_t bytes, uint64_t left_bytes) {
  const uint64_t size = rounded(bytes);
  std::vector<Buffer> leaving;
  Buffer lent;
  {
    const MutexLock lock(mutex_);
    if (lent_ + size > bytes_max_ / 2 || lent_ + size + rounded(left_bytes) > bytes_max_) return {};
    if (!claim(size, size, 0, lent, leaving)) return {};
    lent_ += size;
  }
  if (!lent) {
    lent = make(size);
    if (!lent) {
      const MutexLock lock(mutex_);
      lent_ -= size;
      return {};
    }
  }
  lent.is_lent_ = true;
  return lent;
}

bool Staging::claim(uint64_t size, uint64_t most, uint64_t others, Buffer& found, std::vector<Buffer>& leaving) {
  const auto fits = std::ranges::find_if(idle_, [size, most](const Buffer& buffer) {
    return buffer.bytes().size() >= size && buffer.bytes().size() <= most;
  });
  if (fits != idle_.end()) {
    found = std::move(*fits);
    idle_.erase(fits);
    return true;
  }
  while (bytes_ + size > bytes_max_ && !idle_.empty()) {
    bytes_ -= idle_.back().bytes().size();
    leaving.push_back(std::move(idle_.back()));
    idle_.pop_back();
  }
  if (bytes_ > others && bytes_ + size > bytes_max_) return false;
  bytes_ += size;
  return true;
}

Staging::Buffer Staging::make(uint64_t size) {
  Result<Mapping> memory = Mapping::anonymous(size, Mapping::Pages::kPrefault);
  if (!memory) {
    const MutexLock lock(mutex_);
    bytes_ -= size;
    return {};
  }
  Buffer made;
  made.memory_ = std::move(*memory);
  return made;
}

void Staging::give_back(Buffer buffer) {
  if (!buffer) return;
  const MutexLock lock(mutex_);
  if (std::exchange(buffer.is_lent_, false)) lent_ -= buffer.bytes().size();
  idle_.push_back(std::move(buffer));
}

uint64_t Staging::lent_bytes() const {
  const MutexLock lock(mutex_);
  return lent_;
}

}  // namespace rhizome
