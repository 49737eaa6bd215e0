// The order in which the index itself evicts.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "bench/residency.h"
#include "contract/result.h"

namespace rhizome::bench {

// Plays the trace through an Index whose blocks are one token long, a token for each block of the trace: look up, evict
// down to what leaves room, store what is missing and has room, release. kInternal when the index refuses what is
// right, names a block wrongly or evicts what is pinned.
Result<Hits> replay_index(const Trace& trace, uint32_t capacity);

}  // namespace rhizome::bench
