// A queue of blocks by number, each in it at most once: any of them is put in, found and taken out in constant time.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "contract/check.h"

namespace rhizome::bench {

class BlockList {
 public:
  // For blocks [0, blocks).
  explicit BlockList(uint32_t blocks) : links_(blocks + 1, Link{kAbsent, kAbsent}), end_(blocks) {
    links_[end_] = {end_, end_};
  }

  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool holds(uint32_t block) const { return links_[block].next != kAbsent; }

  // Front to back: for (b = front(); b != end(); b = after(b)).
  uint32_t front() const { return links_[end_].next; }
  uint32_t end() const { return end_; }
  uint32_t after(uint32_t block) const { return links_[block].next; }

  void push_back(uint32_t block) {
    RHIZOME_DCHECK(!holds(block));
    const uint32_t last = links_[end_].previous;
    links_[block] = {last, end_};
    links_[last].next = block;
    links_[end_].previous = block;
    ++size_;
  }

  void remove(uint32_t block) {
    RHIZOME_DCHECK(holds(block));
    const Link link = links_[block];
    links_[link.previous].next = link.next;
    links_[link.next].previous = link.previous;
    links_[block] = {kAbsent, kAbsent};
    --size_;
  }

  uint32_t pop_front() {
    const uint32_t block = front();
    remove(block);
    return block;
  }

  void move_to_back(uint32_t block) {
    remove(block);
    push_back(block);
  }

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  struct Link {
    uint32_t previous;
    uint32_t next;
  };

  std::vector<Link> links_;  // and one more, which closes the ring
  uint32_t end_;
  uint32_t size_ = 0;
};

}  // namespace rhizome::bench
