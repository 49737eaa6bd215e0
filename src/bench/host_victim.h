// What the processes do that the kill matrix kills: each verb of a client, cut into what comes before it, the verb, and
// what comes after it.
#pragma once

#include <cstdint>
#include <string_view>

namespace rhizome::bench {

enum class KilledVerb : uint32_t {
  kAttach,
  kOpen,
  kLookup,
  kPeek,
  kPromote,
  kLoad,
  kRead,
  kRelease,
  kReserve,
  kCommit,
  kCommitLater,
  kAbort,
  kDetach,
  kPublish,
  kAdopt,
};
inline constexpr uint32_t kKilledVerbsCount = 15;

std::string_view name_of(KilledVerb verb);

}  // namespace rhizome::bench
