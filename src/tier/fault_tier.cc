#include "tier/fault_tier.h"

#include <algorithm>
#include <array>
#include <utility>

#include "contract/check.h"

namespace rhizome {
namespace {

constexpr uint32_t kHeldCallsMax = 8;
constexpr size_t kReceivedTogether = 32;

}  // namespace

FaultTier::FaultTier(std::unique_ptr<Tier> behind, const TierFaults& faults, uint64_t seed)
    : behind_(std::move(behind)), faults_(faults), random_(seed) {}

bool FaultTier::happens(double chance) {
  return chance > 0 && std::generate_canonical<double, 32>(random_) < chance;
}

size_t FaultTier::submit(std::span<const TierRequest> requests) {
  const MutexLock lock(mutex_);
  if (happens(faults_.busy)) {
    ++counts_.busy;
    return 0;
  }
  // One by one: what is not passed on must not overtake what the tier behind did not take.
  for (size_t i = 0; i < requests.size(); ++i) {
    const TierUsage usage = behind_->usage();
    if (usage.requests + held_.size() >= usage.requests_max) return i;
    TierRequest request = requests[i];
    TierCompletion completion{.tag = request.tag, .outcome = TierOutcome::kFailed, .bytes = 0, .error = {}};
    if (ends_here(request, completion)) {
      held_.push_back({completion, 0});
      continue;
    }
    if (behind_->submit(std::span(&request, 1)) == 0) return i;
    RHIZOME_CHECK(under_way_.emplace(request.tag, requests[i]).second);
  }
  return requests.size();
}

bool FaultTier::ends_here(TierRequest& request, TierCompletion& completion) {
  const bool is_read = request.operation == TierOperation::kRead || request.operation == TierOperation::kFind;
  const bool is_write = request.operation == TierOperation::kWrite;
  if (happens(faults_.fail)) {
    ++counts_.failed;
    completion.error = {Code::kUnavailable, "an injected fault"};
    return true;
  }
  if (is_read && happens(faults_.forget)) {
    ++counts_.forgotten;
    completion.outcome = TierOutcome::kMissing;
    return true;
  }
  if (is_write && happens(faults_.refuse)) {
    ++counts_.refused;
    completion.outcome = TierOutcome::kRefused;
    return true;
  }
  if (is_write && request.from.size() > 1 && happens(faults_.tear)) {
    ++counts_.torn;
    request.from = request.from.first(1 + random_() % (request.from.size() - 1));
  }
  return false;
}

void FaultTier::spoil(TierCompletion& completion) {
  const auto found = under_way_.find(completion.tag);
  RHIZOME_CHECK(found != under_way_.end());
  const TierRequest request = found->second;
  under_way_.erase(found);
  if (completion.outcome != TierOutcome::kDone) return;
  // The writer of a torn image is not told.
  if (request.operation == TierOperation::kWrite) completion.bytes = request.from.size();
  if (request.operation == TierOperation::kRead && completion.bytes > 0 && happens(faults_.flip)) {
    ++counts_.flipped;
    request.into[completion.offset + random_() % completion.bytes] ^= static_cast<std::byte>(1u << random_() % 8);
  }
  if (happens(faults_.fail_after)) {
    ++counts_.failed;
    completion = {.tag = completion.tag,
                  .outcome = TierOutcome::kFailed,
                  .bytes = 0,
                  .error = {Code::kUnavailable, "an injected fault, after it was done"}};
  }
}

// What the tier behind has done, into held_.
void FaultTier::receive(uint64_t wait_ns) {
  std::array<TierCompletion, kReceivedTogether> received;
  const size_t count = behind_->collect(received, wait_ns);
  const MutexLock lock(mutex_);
  for (TierCompletion& completion : std::span(received).first(count)) {
    spoil(completion);
    uint32_t calls = 0;
    if (happens(faults_.delay)) {
      ++counts_.delayed;
      calls = 1 + static_cast<uint32_t>(random_() % kHeldCallsMax);
    }
    held_.push_back({completion, calls});
  }
}

size_t FaultTier::collect(std::span<TierCompletion> out, uint64_t wait_ns) {
  bool any_held = false;
  {
    const MutexLock lock(mutex_);
    any_held = !held_.empty();
  }
  receive(any_held ? 0 : wait_ns);
  const MutexLock lock(mutex_);
  size_t count = 0;
  for (auto held = held_.begin(); held != held_.end() && count < out.size();) {
    if (held->calls_left > 0) {
      --held->calls_left;
      ++held;
      continue;
    }
    out[count++] = held->completion;
    held = held_.erase(held);
  }
  return count;
}

bool FaultTier::cancel(uint64_t tag) {
  return behind_->cancel(tag);
}

TierUsage FaultTier::usage() const {
  TierUsage usage = behind_->usage();
  const MutexLock lock(mutex_);
  usage.requests += held_.size();
  return usage;
}

void FaultTier::set_faults(const TierFaults& faults) {
  const MutexLock lock(mutex_);
  faults_ = faults;
}

TierFaultCounts FaultTier::counts() const {
  const MutexLock lock(mutex_);
  return counts_;
}

}  // namespace rhizome
