// Blocks that are being written: where their bytes are, and the pin on what they will continue.
//
// A block's bytes are in a reserved slot, or, from the first block on that none could be had for, in a buffer that was
// lent for it: commit() makes the former visible, and sends the latter to the tier.
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
#include "store/staging.h"

namespace rhizome {

class Store;

class BlockDraft {
 public:
  BlockDraft() = default;
  // Without commit: gives the slots, the buffers and the pin back.
  ~BlockDraft() { abort(); }
  BlockDraft(BlockDraft&& other) noexcept;
  BlockDraft& operator=(BlockDraft&& other) noexcept;

  uint32_t first_block() const { return first_block_; }
  size_t blocks_count() const { return slots_.size() + buffers_.size(); }
  // How many of them memory has a place for; the others are found once the tier has taken them.
  size_t slots_count() const { return slots_.size(); }
  // Exactly the keyspace's payload bytes, with whatever was there before: all to be written.
  std::span<std::byte> payload(size_t i) const { return bytes(i).subspan(identity_bytes_); }
  // In place of payload(), for all blocks in order: copies the payload of the next one and takes its checksum while the
  // copy is in the processor's cache. `from` is of the same size and may change meanwhile, for what is checksummed is
  // the copy, which is not written any more.
  void fill_next(std::span<const std::byte> from);
  void abort();

 private:
  friend class Store;

  // Identity and payload.
  std::span<std::byte> bytes(size_t i) const {
    return i < slots_.size() ? slots_[i].bytes() : buffers_[i - slots_.size()].bytes().first(slot_bytes_);
  }

  Store* store_ = nullptr;
  Root root_;
  Handle prefix_;                   // pins all blocks before first_block_
  BlockKey parent_;                 // key of the block before first_block_
  std::optional<Location> before_;  // that block, if there is one
  uint32_t first_block_ = 0;
  size_t identity_bytes_ = 0;
  size_t slot_bytes_ = 0;
  std::vector<Token> tokens_;  // from position 0 to the end of the last block
  std::vector<Reserved> slots_;
  std::vector<Staging::Buffer> buffers_;  // of the blocks behind those in slots
  // The blocks that fill_next() has written, from the first on.
  struct Filled {
    BlockKey key;
    uint64_t checksum = 0;
  };
  std::vector<Filled> filled_;
};

}  // namespace rhizome
