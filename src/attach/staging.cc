#include "attach/staging.h"

#include <iterator>

#include "contract/check.h"

namespace rhizome {
namespace {

uint64_t aligned_up(uint64_t bytes) {
  return (bytes + StagingArea::kAlignment - 1) / StagingArea::kAlignment * StagingArea::kAlignment;
}

}  // namespace

StagingPiece::StagingPiece(StagingPiece&& other) noexcept
    : area_(std::exchange(other.area_, nullptr)),
      offset_(std::exchange(other.offset_, 0)),
      bytes_(std::exchange(other.bytes_, {})) {}

StagingPiece& StagingPiece::operator=(StagingPiece&& other) noexcept {
  if (this != &other) {
    give_back();
    area_ = std::exchange(other.area_, nullptr);
    offset_ = std::exchange(other.offset_, 0);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

void StagingPiece::give_back() {
  if (StagingArea* const area = std::exchange(area_, nullptr)) area->give_back(offset_, bytes_.size());
  offset_ = 0;
  bytes_ = {};
}

StagingArea::StagingArea(std::span<std::byte> memory) : memory_(memory) {
  RHIZOME_CHECK(reinterpret_cast<uintptr_t>(memory.data()) % kAlignment == 0);
  const uint64_t whole = memory.size() / kAlignment * kAlignment;
  MutexLock lock(mutex_);
  if (whole > 0) free_.emplace(0, whole);
}

StagingArea::~StagingArea() {
  MutexLock lock(mutex_);
  RHIZOME_CHECK(pieces_ == 0);
}

std::optional<StagingPiece> StagingArea::take(uint64_t bytes) {
  if (bytes == 0 || bytes > memory_.size()) return std::nullopt;
  const uint64_t wanted = aligned_up(bytes);
  MutexLock lock(mutex_);
  if (pieces_ == kPiecesMax) return std::nullopt;
  for (auto at = free_.begin(); at != free_.end(); ++at) {
    const auto [offset, length] = *at;
    if (length < wanted) continue;
    free_.erase(at);
    if (length > wanted) free_.emplace(offset + wanted, length - wanted);
    ++pieces_;
    return StagingPiece(this, offset, memory_.subspan(offset, bytes));
  }
  return std::nullopt;
}

void StagingArea::give_back(uint64_t offset, uint64_t bytes) {
  uint64_t length = aligned_up(bytes);
  MutexLock lock(mutex_);
  RHIZOME_CHECK(pieces_ > 0);
  --pieces_;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + length == next->first) {
    length += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += length;
      return;
    }
  }
  free_.emplace_hint(next, offset, length);
}

uint64_t StagingArea::free_bytes() const {
  MutexLock lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [offset, length] : free_)
    sum += length;
  return sum;
}

}  // namespace rhizome
