// What a look-up found: the blocks at the head of a prompt, held until release().
//
// The blocks stay known, but the bytes of those that were not read yet may move between memory and a tier meanwhile; a
// block that was read stays where it is.
//
// Thread-safety: belongs to one thread at a time and must not outlive its Store.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "block/block_key.h"
#include "block/reason.h"
#include "index/index_types.h"
#include "slab/slot.h"
#include "store/block_table.h"

namespace rhizome {

class Store;

class StoredPrefix {
 public:
  StoredPrefix() = default;
  ~StoredPrefix() { release(); }
  StoredPrefix(StoredPrefix&& other) noexcept;
  StoredPrefix& operator=(StoredPrefix&& other) noexcept;

  uint32_t blocks() const { return static_cast<uint32_t>(locations_.size()); }
  std::span<const Location> locations() const { return locations_; }
  // Why the look-up stopped where it did.
  Reason reason() const { return reason_; }
  // Blocks that had to be loaded from a tier so far.
  uint32_t loaded_blocks() const { return loaded_; }
  // When read() gives up what promote() has begun to load, on the store's clock; 0: nothing was begun.
  uint64_t load_deadline_ns() const { return load_deadline_ns_; }
  void release();

 private:
  friend class Store;

  struct Held {
    BlockRef ref;
    Pinned pinned;
    bool has_pin = false;        // in the table: `ref`
    bool is_held = false;        // in memory: `pinned`
    bool was_asked_for = false;  // of the tier
  };

  Store* store_ = nullptr;
  Root root_;
  Handle handle_;
  std::vector<Location> locations_;  // these two keep their memory when the object is used again
  std::vector<Held> held_;           // by block, as far as was read or promoted
  // The key of the block before `key_block_`: reading in order, each key is one step from the last.
  BlockKey key_;
  uint32_t key_block_ = 0;
  uint32_t loaded_ = 0;
  uint64_t load_began_ns_ = 0;
  uint64_t load_deadline_ns_ = 0;
  Reason reason_ = Reason::kNeverStored;
};

}  // namespace rhizome
