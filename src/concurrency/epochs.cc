#include "concurrency/epochs.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "contract/check.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// The thread sanitizer knows no membarrier: what it orders would look like a race.
#define RHIZOME_NO_MEMBARRIER 1
#endif
#endif

bool register_membarrier() {
#ifdef RHIZOME_NO_MEMBARRIER
  return false;
#else
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

}  // namespace

Epochs::Epochs(Fence fence) : asymmetric_(fence == Fence::kBestOffered && register_membarrier()) {}

void Epochs::full_fence() {
  fence_word_.exchange(1, std::memory_order_seq_cst);
  store_load_fence();
  if (!asymmetric_) return;
  long failed = ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  // A process that was forked off another one may have to say again that it wants it.
  if (failed != 0 && register_membarrier()) failed = ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  // Without the fence, memory that is being read would be used again.
  RHIZOME_CHECK(failed == 0);
}

bool Epochs::try_advance() {
  const uint64_t now = epoch_.load(std::memory_order_acquire);  // pairs with the exchange below
  full_fence();
  const uint32_t end = thread_slots_end();
  for (uint32_t slot = 0; slot < end; ++slot) {
    const uint64_t began = slots_[slot].began.load(std::memory_order_acquire);  // pairs with ~Section()
    if (began != 0 && began != now) return false;
  }
  uint64_t expected = now;
  // Release: whoever sees the new epoch also sees the sections closed that were seen closed here. Somebody else may
  // have been faster; then the epoch has moved all the same.
  epoch_.compare_exchange_strong(expected, now + 1, std::memory_order_acq_rel);
  return true;
}

void Epochs::wait_for_sections() {
  const uint64_t now = current();
  while (!is_past(now)) {
    if (!try_advance()) yield_thread();
  }
}

}  // namespace rhizome
