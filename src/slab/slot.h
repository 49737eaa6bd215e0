// What names a slot, and the two move-only handles by which its bytes are reached.
//
// Thread-safety: a SlotRef is a plain value; a Reserved or a Pinned belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rhizome {

class Slab;

// Names one use of one slot. The generation tells it from the slot's earlier and later uses.
struct SlotRef {
  uint32_t index = UINT32_MAX;
  uint32_t generation = 0;

  uint32_t chunk() const { return index >> 16; }
  uint32_t place() const { return index & 0xFFFF; }

  friend bool operator==(const SlotRef&, const SlotRef&) = default;
};

// A slot that is being written. Destroyed without commit, it gives the slot back.
class Reserved {
 public:
  Reserved() = default;
  ~Reserved() { abort(); }
  Reserved(Reserved&& other) noexcept;
  Reserved& operator=(Reserved&& other) noexcept;

  std::span<std::byte> bytes() const { return bytes_; }
  void abort();

 private:
  friend class Slab;

  Slab* slab_ = nullptr;
  SlotRef ref_;
  std::span<std::byte> bytes_;
};

// A pin on a committed slot: while it lives, the bytes stay where they are.
class Pinned {
 public:
  Pinned() = default;
  ~Pinned() { release(); }
  Pinned(Pinned&& other) noexcept;
  Pinned& operator=(Pinned&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }
  uint64_t checksum() const { return checksum_; }
  void release();

 private:
  friend class Slab;

  Slab* slab_ = nullptr;
  SlotRef ref_;
  std::span<const std::byte> bytes_;
  uint64_t checksum_ = 0;
};

}  // namespace rhizome
