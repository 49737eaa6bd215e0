// A small number for the calling thread, so that shared structures can give each thread a line of its own.
//
// Living threads have different slots, but for those that come when all are taken: they share kThreadSlotShared.
// A slot passes to another thread when its thread ends; everything the old one did with it happened before.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstdint>

namespace rhizome {

inline constexpr uint32_t kThreadSlots = 256;
inline constexpr uint32_t kThreadSlotShared = 0;

namespace internal {
inline constexpr uint32_t kThreadSlotUnknown = UINT32_MAX;
extern constinit thread_local uint32_t own_thread_slot;
uint32_t assign_thread_slot();
}  // namespace internal

inline uint32_t thread_slot() {
  const uint32_t slot = internal::own_thread_slot;
  return slot != internal::kThreadSlotUnknown ? slot : internal::assign_thread_slot();
}

// No thread has ever had this slot or a higher one.
uint32_t thread_slots_end();

}  // namespace rhizome
