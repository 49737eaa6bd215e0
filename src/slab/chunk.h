// A chunk: slots of one size in one piece of memory. What describes a slot (state, generation, pins,
// checksum) lies beside the bytes, not among them: no writer of a payload can reach it.
//
// Thread-safety: none; the slab's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "machine/mapping.h"

namespace rhizome {

enum class SlotState : uint8_t { kFree, kReserved, kCommitted, kDoomed };

struct Slot {
  uint64_t checksum = 0;
  uint32_t generation = 0;
  uint32_t pins = 0;
  uint16_t next_free = 0;
  SlotState state = SlotState::kFree;
};

class Chunk {
 public:
  static constexpr uint32_t kSlotsMax = 65535;

  // Gives the chunk its memory. Generations go on from where its earlier life ended.
  void attach(Mapping memory, uint64_t slot_bytes, uint64_t stride, uint32_t slots_count);
  // Only when empty.
  Mapping detach();

  bool attached() const { return slots_ != nullptr; }
  bool empty() const { return free_count_ == slots_count_; }
  bool full() const { return free_count_ == 0; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint32_t slots_count() const { return slots_count_; }

  // Not when full. The slot has a generation of its own from now on.
  uint16_t take();
  void give_back(uint16_t slot);

  Slot& slot(uint16_t slot) { return slots_[slot]; }
  const Slot& slot(uint16_t slot) const { return slots_[slot]; }
  std::span<std::byte> bytes(uint16_t slot) const { return memory_.bytes().subspan(slot * stride_, slot_bytes_); }

 private:
  Mapping memory_;
  std::unique_ptr<Slot[]> slots_;
  uint64_t slot_bytes_ = 0;
  uint64_t stride_ = 0;
  uint32_t slots_count_ = 0;
  uint32_t free_count_ = 0;
  uint16_t free_head_ = 0;
  uint32_t generation_next_ = 0;  // above every generation that this chunk ever gave out
};

}  // namespace rhizome
