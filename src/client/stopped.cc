#include "client/stopped.h"

namespace rhizome {

Counter stopped_counter(Reason reason) {
  switch (reason) {
    case Reason::kFull:
      return Counter::kStoppedFull;
    case Reason::kLastToken:
      return Counter::kStoppedLastToken;
    case Reason::kPartialBlock:
      return Counter::kStoppedPartialBlock;
    case Reason::kNeverStored:
      return Counter::kStoppedNeverStored;
    case Reason::kDiverged:
      return Counter::kStoppedDiverged;
    case Reason::kEvicted:
      return Counter::kStoppedEvicted;
    case Reason::kInFlight:
      return Counter::kStoppedInFlight;
    case Reason::kLoadFailed:
      return Counter::kStoppedLoadFailed;
    case Reason::kCorrupt:
      return Counter::kStoppedCorrupt;
    case Reason::kKeyspace:
      return Counter::kStoppedKeyspace;
    case Reason::kStaleEpoch:
      return Counter::kStoppedStaleEpoch;
    case Reason::kNoSnapshot:
      return Counter::kStoppedNoSnapshot;
    case Reason::kNotCacheable:
      return Counter::kStoppedNotCacheable;
    case Reason::kQuota:
      return Counter::kStoppedQuota;
    case Reason::kBypass:
      return Counter::kStoppedBypass;
    case Reason::kOff:
      return Counter::kStoppedOff;
  }
  return Counter::kStoppedNeverStored;
}

}  // namespace rhizome
