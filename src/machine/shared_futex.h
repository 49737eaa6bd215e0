// Waiting for a 32-bit word in memory that processes share, and waking who waits (futex, in its form between
// processes).
//
// Whoever changes the word changes it first and then wakes. A waiter reads the word, decides, and waits for it to be
// something else: a change in between is not missed, for the kernel compares again before it sleeps. Waits end early
// without a reason, and as often as a hostile process likes that can reach the word, so callers check in a loop that
// ends at a deadline of their own.
//
// Thread-safety: may be called from any thread. The word may lie in a read-only mapping of shared memory.
#pragma once

#include <atomic>
#include <cstdint>

namespace rhizome {

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

// Returns when the word is not `expected`, at a wake-up, at a signal, or without a reason. False: `deadline_ns`, on
// monotonic_now_ns(), has passed.
bool shared_futex_wait(const std::atomic<uint32_t>& word, uint32_t expected, uint64_t deadline_ns);

// Ends the waits of at most `waiters` who wait for the word; returns how many.
uint32_t shared_futex_wake(const std::atomic<uint32_t>& word, uint32_t waiters = INT32_MAX);

}  // namespace rhizome
