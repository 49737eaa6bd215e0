#include "tier/tier.h"

namespace rhizome {

std::string_view tier_outcome_name(TierOutcome outcome) {
  switch (outcome) {
    case TierOutcome::kDone:
      return "done";
    case TierOutcome::kMissing:
      return "missing";
    case TierOutcome::kTooSmall:
      return "too_small";
    case TierOutcome::kRefused:
      return "refused";
    case TierOutcome::kLate:
      return "late";
    case TierOutcome::kCancelled:
      return "cancelled";
    case TierOutcome::kFailed:
      return "failed";
  }
  return "unknown";
}

}  // namespace rhizome
