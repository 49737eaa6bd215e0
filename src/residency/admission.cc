#include "residency/admission.h"

#include <algorithm>

namespace rhizome {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
constexpr double kThresholdStep = 1.25;
// Nobody has used it again: it may only have what is left over.
constexpr double kUnusedShare = 0.5;

}  // namespace

Admission::Admission(const AdmissionOptions& options)
    : options_(options),
      bucket_bytes_(static_cast<double>(options.bytes_per_second) * static_cast<double>(options.bucket_seconds)),
      available_(bucket_bytes_) {}

// The chance of another use goes by the uses so far: f of f + 1. A block that others continue is used whenever they
// are.
double Admission::density(const WriteCandidate& candidate) {
  const double uses = candidate.uses + candidate.asked_for + (candidate.has_children ? 1 : 0);
  const double saved = std::max(0.0, candidate.compute_seconds - candidate.load_seconds);
  return (uses + 0.5) / (uses + 1) * saved / static_cast<double>(std::max<uint64_t>(candidate.bytes, 1));
}

WriteDecision Admission::decide(const WriteCandidate& candidate, uint64_t now_ns) {
  const bool again = candidate.uses > 0 || candidate.asked_for > 1;
  if (!again && candidate.age_ns < options_.unused_wait_ns) return WriteDecision::kLater;
  // Before anything is known about costs, a write is the only way to learn.
  const bool costs_known = candidate.compute_seconds > 0;
  if (costs_known && candidate.compute_seconds <= candidate.load_seconds) return WriteDecision::kNever;
  if (options_.bytes_per_second == 0) return WriteDecision::kNow;
  refill(now_ns);
  move_threshold(now_ns);
  const double value = density(candidate);
  wanted_density_ += (value - wanted_density_) / static_cast<double>(++wanted_count_);
  if (value >= threshold_) wanted_bytes_ += candidate.bytes;
  if (static_cast<double>(candidate.bytes) > available_) return WriteDecision::kLater;
  if (!again && !candidate.has_children && available_ < kUnusedShare * bucket_bytes_) return WriteDecision::kLater;
  if (costs_known && value < threshold_) return WriteDecision::kNever;
  return WriteDecision::kNow;
}

void Admission::wrote(uint64_t bytes, uint64_t now_ns) {
  if (options_.bytes_per_second == 0) return;
  refill(now_ns);
  available_ -= static_cast<double>(bytes);
}

void Admission::refill(uint64_t now_ns) {
  if (!began_) {
    began_ = true;
    refilled_ns_ = now_ns;
    step_began_ns_ = now_ns;
  }
  if (now_ns <= refilled_ns_) return;
  const double seconds = static_cast<double>(now_ns - refilled_ns_) / kNanosecondsPerSecond;
  available_ = std::min(bucket_bytes_, available_ + seconds * static_cast<double>(options_.bytes_per_second));
  refilled_ns_ = now_ns;
}

void Admission::move_threshold(uint64_t now_ns) {
  if (now_ns < step_began_ns_ + options_.threshold_step_ns) return;
  const double seconds = static_cast<double>(now_ns - step_began_ns_) / kNanosecondsPerSecond;
  const double wanted = static_cast<double>(wanted_bytes_);
  const double budget = seconds * static_cast<double>(options_.bytes_per_second);
  if (wanted > budget && available_ < kUnusedShare * bucket_bytes_) {
    threshold_ = threshold_ == 0 ? wanted_density_ / 2 : threshold_ * kThresholdStep;
  } else if (wanted < budget) {
    threshold_ = available_ >= bucket_bytes_ ? 0 : threshold_ / kThresholdStep;
  }
  wanted_density_ = 0;
  wanted_count_ = 0;
  wanted_bytes_ = 0;
  step_began_ns_ = now_ns;
}

}  // namespace rhizome
