// A chunk: slots of one stride in one piece of memory. What describes a slot (its word, checksum, owner) lies beside
// the bytes, not among them: no writer of a payload can reach it.
//
// Thread-safety: the slab's lock guards it. Whoever holds a pin may call bytes() without: a chunk stays what it is
// while one of its slots is not free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "machine/mapping.h"
#include "slab/chunk_cut.h"
#include "slab/slot_word.h"

namespace rhizome {

// Who wrote into some memory since it came, zeroed, from the kernel.
struct Writers {
  enum class Count : uint8_t { kNobody, kOne, kSeveral };
  Count count = Count::kNobody;
  uint32_t tenant = 0;  // with kOne

  bool all_are(uint32_t wanted) const { return count == Count::kNobody || (count == Count::kOne && tenant == wanted); }
  void add(const Writers& others);
};

// 32 bytes, so that none lies across a line of the cache.
struct alignas(32) Slot {
  SlotWord word;
  uint64_t checksum = 0;
  uint32_t tenant = 0;
  uint16_t next_free = 0;
  uint8_t slack = 0;  // stride less bytes asked for
  Writers::Count writers = Writers::Count::kNobody;
};
static_assert(sizeof(Slot) == 32);

class Chunk {
 public:
  struct Detached {
    Mapping memory;
    uint64_t cost = 0;
    Writers writers;
  };

  // Gives the chunk its memory, and `slots` to describe it: zeroed, or its own from before. Generations go on from
  // where its earlier life ended. `cost` is what it takes of the budget.
  void attach(Mapping memory, Slot* slots, const ChunkCut& cut, uint64_t cost, const Writers& writers);
  // Only when empty.
  Detached detach();

  bool attached() const { return slots_ != nullptr; }
  bool empty() const { return free_count_ == cut_.slots; }
  bool full() const { return free_count_ == 0; }
  uint64_t stride() const { return cut_.stride; }
  uint64_t memory_bytes() const { return cut_.memory_bytes; }
  uint64_t cost() const { return cost_; }
  uint32_t slots_count() const { return cut_.slots; }
  uint32_t used_count() const { return cut_.slots - free_count_; }
  int descriptor() const { return memory_.descriptor(); }

  // Not when full. The slot is reserved and has a generation of its own from now on.
  uint16_t take();
  // A slot that is the caller's: reserved, or doomed without pins.
  void give_back(uint16_t slot);

  Slot& slot(uint16_t slot) { return slots_[slot]; }
  const Slot& slot(uint16_t slot) const { return slots_[slot]; }
  std::span<std::byte> room(uint16_t slot) const { return memory_.bytes().subspan(slot * cut_.stride, cut_.stride); }
  std::span<std::byte> bytes(uint16_t slot) const { return room(slot).first(cut_.stride - slots_[slot].slack); }

 private:
  Mapping memory_;
  Slot* slots_ = nullptr;
  ChunkCut cut_;
  uint64_t cost_ = 0;
  uint32_t free_count_ = 0;
  uint16_t free_head_ = 0;
  uint32_t generation_next_ = 0;  // above every generation that this chunk ever gave out
};

}  // namespace rhizome
