// Epochs: when may memory be used again that a reader without a lock may still be looking at?
//
// A reader encloses what it does in a Section. A writer first makes something unreachable, then notes current(); once
// is_past(that) holds, no section that could have reached it is open any more. (Epoch-based reclamation, Fraser 2004.)
//
// States of a slot: 0 (no section open) or the epoch that its section began in. Only the slot's thread writes it.
// The epoch moves on only when every open section began in the current one. What was unreachable in epoch e can have
// been reached by sections of e and of e - 1 (those that read the epoch just before it moved), and both are closed
// once the epoch is e + 2.
//
// The fence between opening a section and the first read is the reader's only cost, so it is moved to the writer:
// membarrier(2) makes every running thread execute one. Where the kernel refuses, readers execute their own.
//
// Thread-safety: everything here may be called from any thread. A thread has at most one section of an Epochs open,
// and does not wait for others inside. Sections that other threads have open at a fork() stay open in the child.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "concurrency/mutex.h"
#include "concurrency/thread_slot.h"

namespace rhizome {

class Epochs {
 public:
  enum class Fence : uint8_t { kBestOffered, kReadersOwn };

  explicit Epochs(Fence fence = Fence::kBestOffered);

  class Section {
   public:
    explicit Section(Epochs& epochs) NO_THREAD_SAFETY_ANALYSIS : epochs_(epochs), slot_(thread_slot()) {
      if (slot_ == kThreadSlotShared) epochs_.shared_slot_.lock();
      epochs_.open(slot_);
    }
    ~Section() NO_THREAD_SAFETY_ANALYSIS {
      // Pairs with the acquire in try_advance(): what the section did is over for whoever sees it closed.
      epochs_.slots_[slot_].began.store(0, std::memory_order_release);
      if (slot_ == kThreadSlotShared) epochs_.shared_slot_.unlock();
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

    // Nobody else is in a section with this slot: what belongs to the slot belongs to this thread meanwhile.
    uint32_t slot() const { return slot_; }

   private:
    Epochs& epochs_;
    const uint32_t slot_;
  };

  uint64_t current() const { return epoch_.load(std::memory_order_acquire); }  // pairs with try_advance()
  bool is_past(uint64_t epoch) const { return epoch + 2 <= current(); }

  // False when an open section began in an earlier epoch. Costs microseconds while other threads run.
  bool try_advance();

  // Two halves of one fence between threads: of two threads that each store, fence, and load what the other stores, one
  // with a light fence and one with a heavy one, at least one sees the other's store. The heavy one costs microseconds.
  void light_fence() {
    if (asymmetric_) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      fence_word_.exchange(1, std::memory_order_seq_cst);
      store_load_fence();
    }
  }
  void heavy_fence() { full_fence(); }

  // Returns when every section that was open at the call has ended; not to be called in one.
  void wait_for_sections();

 private:
  struct alignas(64) Slot {
    std::atomic<uint64_t> began{0};
  };

  void open(uint32_t slot) {
    const uint64_t now = epoch_.load(std::memory_order_relaxed);
    if (asymmetric_) {
      slots_[slot].began.store(now, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the processor's half is the writer's membarrier
    } else {
      // Sequentially consistent, with the exchange in full_fence(): either the writer sees this section, or the
      // section sees what the writer did before.
      slots_[slot].began.exchange(now, std::memory_order_seq_cst);
      store_load_fence();
    }
  }
  // An exchange is one on x86; elsewhere later loads may pass its store.
  static void store_load_fence() {
#if !defined(__x86_64__)
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }
  void full_fence();

  const bool asymmetric_;
  std::atomic<uint64_t> epoch_{2};
  std::atomic<uint64_t> fence_word_{0};
  Mutex shared_slot_;
  std::array<Slot, kThreadSlots> slots_;
};

}  // namespace rhizome
