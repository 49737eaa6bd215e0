#include "block/reason.h"

namespace rhizome {

std::string_view reason_name(Reason reason) {
  switch (reason) {
    case Reason::kFull:
      return "full";
    case Reason::kLastToken:
      return "last_token";
    case Reason::kPartialBlock:
      return "partial_block";
    case Reason::kNeverStored:
      return "never_stored";
    case Reason::kDiverged:
      return "diverged";
    case Reason::kEvicted:
      return "evicted";
    case Reason::kInFlight:
      return "in_flight";
    case Reason::kLoadFailed:
      return "load_failed";
    case Reason::kCorrupt:
      return "corrupt";
    case Reason::kKeyspace:
      return "keyspace";
    case Reason::kStaleEpoch:
      return "stale_epoch";
    case Reason::kNoSnapshot:
      return "no_snapshot";
    case Reason::kNotCacheable:
      return "not_cacheable";
    case Reason::kQuota:
      return "quota";
    case Reason::kBypass:
      return "bypass";
    case Reason::kOff:
      return "off";
  }
  return "unknown";
}

}  // namespace rhizome
