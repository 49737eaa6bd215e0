// Eviction orders that are compared in the literature, over the leaves of a tree of prefixes.
//
// Thread-safety: an order belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "bench/residency.h"

namespace rhizome::bench {

// All are made for blocks [0, blocks) and a cache of `capacity` of them.
std::unique_ptr<EvictionOrder> make_fifo(uint32_t blocks, uint32_t capacity);
std::unique_ptr<EvictionOrder> make_lru(uint32_t blocks, uint32_t capacity);

// Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023: a small queue of a tenth, a main one, and
// a queue of the ghosts of what left the small one. A block that was used twice while in the small one is promoted.
std::unique_ptr<EvictionOrder> make_s3fifo(uint32_t blocks, uint32_t capacity);

// Zhang et al., "SIEVE is simpler than LRU", NSDI 2024: one queue, one bit a block, a hand that goes from old to new.
std::unique_ptr<EvictionOrder> make_sieve(uint32_t blocks, uint32_t capacity);

// Megiddo and Modha, "ARC: a self-tuning, low overhead replacement cache", FAST 2003.
std::unique_ptr<EvictionOrder> make_arc(uint32_t blocks, uint32_t capacity);

}  // namespace rhizome::bench
