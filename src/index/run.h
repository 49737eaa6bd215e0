// A run: consecutive blocks with one continuation, their tokens and their locations.
//
// Thread-safety: none; the index's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "block/token.h"
#include "index/index.h"

namespace rhizome {

// Runs name each other by number; 0 is none.
using RunId = uint32_t;

class Run {
 public:
  RunId parent = 0;
  uint32_t root = 0;   // ordinal of its tree
  uint32_t start = 0;  // blocks before it
  uint32_t handles = 0;
  uint32_t children = 0;       // each of them pins this run, dead ones until they are gone
  uint32_t held_children = 0;  // those that have a handle at or below them
  // The parent's list of the children that look-ups can find, newest first.
  RunId first_child = 0;
  RunId next_sibling = 0;
  RunId previous_sibling = 0;
  RunId next_in_bucket = 0;
  bool dead = false;   // removed: no look-up finds it, only handles keep it
  uint64_t hash = 0;   // of the edge that leads here
  uint64_t touch = 0;  // when a look-up or an insert last ended here, or in a child that is gone

  uint32_t length() const { return length_; }
  uint32_t end() const { return start + length_; }
  bool held() const { return handles > 0 || held_children > 0; }
  bool idle() const { return handles == 0 && children == 0; }

  std::span<const Token> tokens(uint32_t block_tokens) const { return {words_.get(), size_t{length_} * block_tokens}; }
  std::span<const Location> locations(uint32_t block_tokens) const {
    return {words_.get() + size_t{capacity_} * block_tokens, length_};
  }

  void append(std::span<const Token> tokens, std::span<const Location> locations, uint32_t block_tokens);
  // Keeps [first, first + length). Memory follows: never more than twice what the blocks need.
  void keep(uint32_t first, uint32_t length, uint32_t block_tokens);

 private:
  void move_to(uint32_t capacity, uint32_t first, uint32_t length, uint32_t block_tokens);

  uint32_t length_ = 0;
  uint32_t capacity_ = 0;
  std::unique_ptr<uint32_t[]> words_;  // tokens of all blocks, then their locations
};

}  // namespace rhizome
