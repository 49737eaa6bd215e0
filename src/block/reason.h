// Why a look-up stopped: the closed list of docs and metrics. The words are fixed.
#pragma once

#include <cstdint>
#include <string_view>

namespace rhizome {

enum class Reason : uint8_t {
  kFull,          // nothing is missing
  kLastToken,     // the engine must compute one token
  kPartialBlock,  // what is left is shorter than a block
  kNeverStored,
  kDiverged,  // another continuation is stored
  kEvicted,
  kInFlight,  // somebody computes it now
  kLoadFailed,
  kCorrupt,   // did not verify, quarantined
  kKeyspace,  // the same tokens are known under another keyspace
  kStaleEpoch,
  kNoSnapshot,    // recurrent or hybrid model
  kNotCacheable,  // identity unknown
  kQuota,
  kBypass,  // the request asked for it
  kOff,
};
inline constexpr int kReasonsCount = 16;

// "full", "last_token", ...
std::string_view reason_name(Reason reason);

}  // namespace rhizome
