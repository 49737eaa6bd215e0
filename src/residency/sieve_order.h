// The order in which blocks leave memory: SIEVE (Zhang et al., NSDI 2024). New blocks come in at the young end; a hand
// walks from the old end, lets those stay that were used since it passed last, and takes the first that was not.
// Nothing moves when a block is used, and what is never used again leaves before what is, whatever comes in meanwhile.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace rhizome {

class SieveOrder {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Blocks are small numbers; memory grows to the largest one. A block is in the order once.
  void add(uint32_t block);
  void remove(uint32_t block);
  bool contains(uint32_t block) const { return block < entries_.size() && entries_[block].is_in; }
  void use(uint32_t block);

  // The next block to leave among those that may; it stays in the order until it is removed. Looks at no more than
  // `looks_max` blocks. kNone: none of them may.
  uint32_t next(const std::function<bool(uint32_t)>& may_leave, size_t looks_max);

  size_t size() const { return size_; }
  // Of memory, for so many different numbers.
  static uint64_t bytes_for(uint64_t blocks) { return blocks * sizeof(Entry); }

 private:
  struct Entry {
    uint32_t older = kNone;
    uint32_t younger = kNone;
    bool is_in = false;
    bool is_used = false;
  };

  std::vector<Entry> entries_;
  uint32_t oldest_ = kNone;
  uint32_t youngest_ = kNone;
  uint32_t hand_ = kNone;  // kNone: begins at the oldest
  size_t size_ = 0;
};

}  // namespace rhizome
