// The word of a slot: generation, state and pins in one atomic, so that pinning and releasing take no lock.
//
// States, and what leads from one to the next (L: under the slab's lock, the others at any time):
//
//   free       -> reserved   L  reserve(): the slot leaves its chunk's list of free ones; its generation is one higher
//   reserved   -> committed  L  commit()
//   reserved   -> free       L  a reservation that is given up
//   committed  -> committed     add_pin(), drop_pin(): one pin more or less
//   committed  -> doomed     L  free(), with the pins that there are
//   doomed     -> doomed        drop_pin()
//   doomed     -> free       L  without pins: by the release that took the last one, or by the free() that found none
//
// Why a race is safe: every change of a committed word is one compare-and-swap or subtraction of the whole word.
// - A pin that races with free() either comes first, and free() finds it and leaves the slot doomed, or finds the slot
//   doomed and is refused. A slot that meanwhile went round and is committed again has another generation.
// - Of all releases exactly one sees (doomed, one pin) before it; nobody pins a doomed slot, so the slot is its own.
// - Words lie in memory that is never unmapped while the slab lives. Where a chunk is gone they read as zero: free, in
//   generation 0, which no slot is ever committed in. So a stale name may be looked up at any time.
//
// What orders the bytes: publish() of a commit (release) comes before every add_pin() (acquire) that sees it, and every
// drop_pin() (release) before the exchange() or drop_pin() (acquire) after which the slot is used again.
#pragma once

#include <atomic>
#include <cstdint>

#include "concurrency/race_point.h"

namespace rhizome {

enum class SlotState : uint8_t { kFree, kReserved, kCommitted, kDoomed };

struct SlotView {
  uint32_t generation = 0;
  SlotState state = SlotState::kFree;
  uint32_t pins = 0;  // below 2^30

  bool is(uint32_t generation_wanted, SlotState state_wanted) const {
    return generation == generation_wanted && state == state_wanted;
  }
  friend bool operator==(const SlotView&, const SlotView&) = default;
};

enum class PinOutcome : uint8_t { kPinned, kFirstPin, kStale, kTooMany };

// Thread-safety: as the table above says.
class SlotWord {
 public:
  static constexpr uint32_t kPinsMax = (1u << 30) - 1;

  SlotView view() const { return unpack(bits_.load(std::memory_order_acquire)); }  // pairs with publish(), drop_pin()

  PinOutcome add_pin(uint32_t generation) {
    uint64_t bits = bits_.load(std::memory_order_relaxed);
    for (;;) {
      const SlotView now = unpack(bits);
      if (!now.is(generation, SlotState::kCommitted)) return PinOutcome::kStale;
      if (now.pins == kPinsMax) return PinOutcome::kTooMany;
      RHIZOME_RACE_POINT("slab.pin.before_swap");
      // Acquire pairs with the release in publish(): the bytes and the checksum are there.
      if (bits_.compare_exchange_weak(bits, bits + kPin, std::memory_order_acquire, std::memory_order_relaxed)) {
        return now.pins == 0 ? PinOutcome::kFirstPin : PinOutcome::kPinned;
      }
    }
  }

  // What the word was before. Release pairs with the acquire in exchange() and in the last drop_pin().
  SlotView drop_pin() { return unpack(bits_.fetch_sub(kPin, std::memory_order_acq_rel)); }

  // False when the word is not `from` any more, which then is what it is. Acquire pairs with drop_pin().
  bool exchange(SlotView& from, const SlotView& to) {
    uint64_t bits = pack(from);
    if (bits_.compare_exchange_strong(bits, pack(to), std::memory_order_acq_rel, std::memory_order_acquire))
      return true;
    from = unpack(bits);
    return false;
  }

  // For whoever owns the slot: free, reserved, or doomed without pins. Release pairs with add_pin() and view().
  void publish(const SlotView& view) { bits_.store(pack(view), std::memory_order_release); }

 private:
  static constexpr uint64_t kPin = 1;
  static constexpr int kStateShift = 30;
  static constexpr int kGenerationShift = 32;

  static uint64_t pack(const SlotView& view) {
    return uint64_t{view.generation} << kGenerationShift | uint64_t{static_cast<uint8_t>(view.state)} << kStateShift |
           view.pins;
  }
  static SlotView unpack(uint64_t bits) {
    return {.generation = static_cast<uint32_t>(bits >> kGenerationShift),
            .state = static_cast<SlotState>(bits >> kStateShift & 3),
            .pins = static_cast<uint32_t>(bits) & kPinsMax};
  }

  std::atomic<uint64_t> bits_{0};
};

}  // namespace rhizome
