// A chunk: slots of one stride in one piece of memory. What describes a slot (its word, checksum, owner) lies beside
// the bytes, not among them: no writer of a payload can reach it.
//
// Thread-safety: the slab's lock guards it. Without it, find() may be called at any time, and bytes() by whoever holds
// a pin: a chunk stays what it is while one of its slots is not free.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "contract/result.h"
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

  // Once, before the first attach(), by whoever owns the chunk's number: address space for what describes its slots. It
  // stays for good, its pages only while the chunk is attached. kResourceExhausted.
  Status describe();
  bool described() const { return slots_.load(std::memory_order_relaxed) != nullptr; }
  // What describes so many slots, in whole pages.
  static uint64_t description_bytes(uint64_t slots);

  // Gives the chunk its memory. Generations go on from where its earlier life ended. `cost` is what it takes of the
  // budget.
  void attach(Mapping memory, const ChunkCut& cut, uint64_t cost, const Writers& writers);
  // The same for memory that came with slots in it, and can only be read: none of them is free to be taken, now or
  // later, and adopt() says which are committed.
  void attach_adopted(Mapping memory, const ChunkCut& cut, uint64_t cost);
  void adopt(uint16_t place, uint8_t slack, uint64_t checksum);
  // Only when empty.
  Detached detach();

  // Null when no slot was ever there.
  Slot* find(uint32_t place) const {
    Slot* const slots = slots_.load(std::memory_order_acquire);  // pairs with the release in describe()
    return slots == nullptr || place >= kChunkSlotsMax ? nullptr : slots + place;
  }

  bool attached() const { return cut_.slots > 0; }
  bool adopted() const { return is_adopted_; }
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
  void give_back(uint16_t place);

  Slot& slot(uint16_t place) const { return slots_.load(std::memory_order_relaxed)[place]; }
  std::span<std::byte> room(uint16_t place) const { return memory_.bytes().subspan(place * cut_.stride, cut_.stride); }
  std::span<std::byte> bytes(uint16_t place) const { return room(place).first(cut_.stride - slot(place).slack); }

 private:
  Mapping memory_;
  Mapping description_;
  std::atomic<Slot*> slots_{nullptr};
  ChunkCut cut_;
  uint64_t cost_ = 0;
  Writers tail_writers_;  // of what lies idle behind the last slot: an earlier cut may have used it
  bool is_adopted_ = false;
  uint32_t free_count_ = 0;
  uint16_t free_head_ = 0;
  uint32_t generation_next_ = 0;  // above every generation that this chunk ever gave out
};

}  // namespace rhizome
