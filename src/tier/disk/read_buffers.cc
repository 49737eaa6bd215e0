#include "tier/disk/read_buffers.h"

#include <algorithm>

#include "contract/check.h"

namespace rhizome {

Status ReadBuffers::allocate() {
  Result<Mapping> memory = Mapping::anonymous(kCount * kBytes);
  if (!memory) return fail(memory.error());
  region_ = std::move(*memory);
  region_.prefer_huge_pages();
  for (size_t i = 0; i < kCount; ++i)
    free_.push_back(region_.bytes().subspan(i * kBytes, kBytes));
  return {};
}

std::span<std::byte> ReadBuffers::take(uint64_t bytes) {
  if (bytes <= kBytes && !free_.empty()) {
    const std::span<std::byte> buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  const auto kept = std::find_if(long_free_.begin(), long_free_.end(),
                                 [bytes](const Mapping& one) { return one.bytes().size() >= bytes; });
  if (kept != long_free_.end()) {
    long_.push_back(std::move(*kept));
    long_free_.erase(kept);
    return long_.back().bytes();
  }
  Result<Mapping> memory = Mapping::anonymous(bytes);
  if (!memory) return {};
  return long_.emplace_back(std::move(*memory)).bytes();
}

void ReadBuffers::release(std::span<std::byte> buffer) {
  const std::byte* const first = region_.bytes().data();
  if (buffer.data() >= first && buffer.data() < first + region_.bytes().size()) {
    const size_t place = static_cast<size_t>(buffer.data() - first) / kBytes;
    free_.push_back(region_.bytes().subspan(place * kBytes, kBytes));
    return;
  }
  const auto used =
      std::find_if(long_.begin(), long_.end(), [&](const Mapping& one) { return one.bytes().data() == buffer.data(); });
  RHIZOME_CHECK(used != long_.end());
  if (long_free_.size() < kLongKept) long_free_.push_back(std::move(*used));
  long_.erase(used);
}

}  // namespace rhizome
