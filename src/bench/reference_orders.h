// The two orders that every other is read beside: what costs nothing to say, and what nobody can do better.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>

#include "bench/residency.h"

namespace rhizome::bench {

// Plain LRU over blocks: the blocks of a request are used in order, from the beginning of the prompt, and any block may
// leave, also one of the middle; what is behind it cannot be hit then.
Hits replay_plain_lru(const Trace& trace, uint32_t capacity);

// MIN: Belady's rule with bypass, which knows the future. A parent is used whenever its child is, so its next use is
// never later: the cache stays a tree of prefixes by itself, and blocks are of one size, so this is the exact optimum.
Hits replay_clairvoyant(const Trace& trace, uint32_t capacity);

}  // namespace rhizome::bench
