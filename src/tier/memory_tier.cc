#include "tier/memory_tier.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr size_t kForgottenMax = 4096;

TierCompletion ended(const TierRequest& request, TierOutcome outcome, uint64_t bytes = 0) {
  return {.tag = request.tag, .outcome = outcome, .bytes = bytes, .error = {}};
}

}  // namespace

MemoryTier::MemoryTier(const MemoryTierOptions& options)
    : bytes_max_(options.bytes_max),
      clock_(options.clock != nullptr ? *options.clock : real_clock()),
      queue_(options.requests_max) {}

size_t MemoryTier::collect(std::span<TierCompletion> out, uint64_t wait_ns) {
  if (out.empty()) return 0;
  const uint64_t start = monotonic_now_ns();
  for (;;) {
    // No more than is handed out: the rest can still be cancelled.
    for (size_t begun = 0; begun < out.size(); ++begun) {
      const std::optional<TierRequest> request = queue_.begin();
      if (!request) break;
      queue_.finish(perform(*request));
    }
    const size_t count = queue_.collect(out);
    // What is still under way is at work in another collector, for no longer than a copy takes.
    if (count > 0 || queue_.under_way() == 0 || monotonic_now_ns() - start >= wait_ns) return count;
    yield_thread();
  }
}

TierCompletion MemoryTier::perform(const TierRequest& request) {
  if (clock_.monotonic_ns() >= request.deadline_ns) return ended(request, TierOutcome::kLate);
  const MutexLock lock(mutex_);
  if (request.operation == TierOperation::kWrite) return write(request);
  const auto found = by_key_.find(request.key);
  if (found == by_key_.end()) return ended(request, TierOutcome::kMissing);
  const Images::iterator image = found->second;
  if (request.operation == TierOperation::kRead) return read(request, image);
  const uint64_t bytes = image->bytes.size();
  if (request.operation == TierOperation::kRemove) forget(image);
  return ended(request, TierOutcome::kDone, bytes);
}

TierCompletion MemoryTier::read(const TierRequest& request, Images::iterator image) {
  const uint64_t bytes = image->bytes.size();
  if (request.into.size() < bytes) return ended(request, TierOutcome::kTooSmall, bytes);
  std::copy(image->bytes.begin(), image->bytes.end(), request.into.begin());
  images_.splice(images_.end(), images_, image);
  return ended(request, TierOutcome::kDone, bytes);
}

TierCompletion MemoryTier::write(const TierRequest& request) {
  const uint64_t bytes = request.from.size();
  if (bytes == 0 || bytes > bytes_max_) return ended(request, TierOutcome::kRefused);
  const auto before = by_key_.find(request.key);
  if (before != by_key_.end()) forget(before->second);
  while (bytes_ + bytes > bytes_max_) {
    if (forgotten_.size() < kForgottenMax) {
      forgotten_.push_back(images_.front().key);
    } else {
      is_complete_ = false;
    }
    forget(images_.begin());
  }
  images_.push_back({request.key, {request.from.begin(), request.from.end()}});
  by_key_.emplace(request.key, std::prev(images_.end()));
  bytes_ += bytes;
  return ended(request, TierOutcome::kDone, bytes);
}

void MemoryTier::forget(Images::iterator image) {
  bytes_ -= image->bytes.size();
  by_key_.erase(image->key);
  images_.erase(image);
}

size_t MemoryTier::collect_forgotten(std::span<BlockKey> out, bool& is_complete) {
  const MutexLock lock(mutex_);
  is_complete = std::exchange(is_complete_, true);
  const size_t count = std::min(out.size(), forgotten_.size());
  std::copy_n(forgotten_.begin(), count, out.begin());
  forgotten_.erase(forgotten_.begin(), forgotten_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

TierUsage MemoryTier::usage() const {
  const MutexLock lock(mutex_);
  return {bytes_, bytes_max_, by_key_.size(), queue_.under_way(), queue_.requests_max()};
}

}  // namespace rhizome
