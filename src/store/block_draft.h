// Blocks that are being written: reserved slots, and the pin on what they will continue.
//
// Thread-safety: belongs to one thread at a time and must not outlive its Store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "block/block_key.h"
#include "block/token.h"
#include "index/index.h"
#include "slab/slot.h"

namespace rhizome {

class Store;

class BlockDraft {
 public:
  BlockDraft() = default;
  // Without commit: gives the slots and the pin back.
  ~BlockDraft() { abort(); }
  BlockDraft(BlockDraft&& other) noexcept;
  BlockDraft& operator=(BlockDraft&& other) noexcept;

  uint32_t first_block() const { return first_block_; }
  size_t blocks_count() const { return slots_.size(); }
  // Exactly the keyspace's payload bytes, with whatever was there before: all to be written.
  std::span<std::byte> payload(size_t i) const { return slots_[i].bytes().subspan(identity_bytes_); }
  void abort();

 private:
  friend class Store;

  Store* store_ = nullptr;
  Root root_;
  Handle prefix_;                   // pins all blocks before first_block_
  BlockKey parent_;                 // key of the block before first_block_
  std::optional<Location> before_;  // that block, if there is one
  uint32_t first_block_ = 0;
  size_t identity_bytes_ = 0;
  std::vector<Token> tokens_;  // from position 0 to the end of the last block
  std::vector<Reserved> slots_;
};

}  // namespace rhizome
