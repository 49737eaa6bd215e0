#include "store/staging.h"

#include <algorithm>
#include <utility>

namespace rhizome {
namespace {

constexpr uint64_t kGrain = 64 << 10;

}  // namespace

Staging::Buffer Staging::take(uint64_t bytes) {
  const uint64_t size = (std::max<uint64_t>(bytes, 1) + kGrain - 1) / kGrain * kGrain;
  std::vector<Buffer> leaving;  // unmapped outside the lock
  {
    const MutexLock lock(mutex_);
    const auto fits = std::ranges::find_if(idle_, [size](const Buffer& buffer) {
      return buffer.bytes().size() >= size && buffer.bytes().size() <= 2 * size;
    });
    if (fits != idle_.end()) {
      Buffer found = std::move(*fits);
      idle_.erase(fits);
      return found;
    }
    while (bytes_ + size > bytes_max_ && !idle_.empty()) {
      bytes_ -= idle_.back().bytes().size();
      leaving.push_back(std::move(idle_.back()));
      idle_.pop_back();
    }
    if (bytes_ > 0 && bytes_ + size > bytes_max_) return {};
    bytes_ += size;
  }
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
  idle_.push_back(std::move(buffer));
}

}  // namespace rhizome
