#include "concurrency/thread_slot.h"

#include <atomic>
#include <vector>

#include "concurrency/mutex.h"

namespace rhizome {
namespace internal {

constinit thread_local uint32_t own_thread_slot = kThreadSlotUnknown;

namespace {

struct Registry {
  Mutex mutex;
  std::vector<uint32_t> returned GUARDED_BY(mutex);
  std::atomic<uint32_t> end{kThreadSlotShared + 1};
};

// Never destroyed: threads may end after static objects have gone.
Registry& registry() {
  static Registry* const kRegistry = new Registry;
  return *kRegistry;
}

// Gives the slot back when its thread ends. What runs after it in that thread gets the shared slot.
class Assignment {
 public:
  Assignment() = default;
  ~Assignment() {
    const uint32_t slot = own_thread_slot;
    own_thread_slot = kThreadSlotShared;
    if (slot == kThreadSlotShared) return;
    Registry& all = registry();
    const MutexLock lock(all.mutex);
    all.returned.push_back(slot);
  }
  Assignment(const Assignment&) = delete;
  Assignment& operator=(const Assignment&) = delete;

  static uint32_t take() {
    Registry& all = registry();
    const MutexLock lock(all.mutex);
    if (!all.returned.empty()) {
      const uint32_t slot = all.returned.back();
      all.returned.pop_back();
      return slot;
    }
    const uint32_t end = all.end.load(std::memory_order_relaxed);
    if (end == kThreadSlots) return kThreadSlotShared;
    all.end.store(end + 1, std::memory_order_release);  // pairs with the acquire in thread_slots_end()
    return end;
  }
};

}  // namespace

uint32_t assign_thread_slot() {
  thread_local const Assignment kAssignment;
  own_thread_slot = Assignment::take();
  return own_thread_slot;
}

}  // namespace internal

uint32_t thread_slots_end() {
  return internal::registry().end.load(std::memory_order_acquire);  // pairs with the release in take()
}

}  // namespace rhizome
