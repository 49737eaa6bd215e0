// Blocks that are removed by name: what a router keeps which mirrors other caches. A worker says "I have stored these
// blocks", then "I have removed the block named so": the name is a 64-bit hash of its own, and says nothing of the
// path.
//
// Over a PrehashedIndex: a table leads from a name to the block's location, and a bit for each location says that the
// block was removed. A removed block stays in the tree as a tombstone, where look-ups stop; stored again, it is there
// again, with all that is still stored behind it. When half of the stored blocks have been removed since the last
// sweep, those that nothing live continues are swept out.
//
// Costs, beside the index's own: 8 bytes a block for its name, 13 to 26 for the table, a bit; and in time one line of
// memory for each name that comes or goes, which is far more than the tree takes: events in large batches are cheaper.
//
// Thread-safety: lookup() and release() from any thread at any time; store(), remove_by_hash() and usage() from one
// thread at a time, beside them. A look-up beside a removal sees it or does not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contract/result.h"
#include "index/index.h"
#include "index/name_table.h"
#include "machine/mapping.h"

namespace rhizome {

struct NamedBlocksOptions {
  uint32_t blocks_max = 1u << 26;  // tombstones included
  // Of the index; its blocks have one element each, whatever block_tokens says.
  IndexOptions index;
};

struct NamedBlocksUsage {
  uint64_t blocks = 0;      // stored and not removed
  uint64_t tombstones = 0;  // removed and still in the tree
  uint64_t bytes = 0;       // all memory, the index's included
};

class NamedBlocks {
 public:
  // Aborts when there is no address space for blocks_max.
  explicit NamedBlocks(const NamedBlocksOptions& options);

  // The longest prefix of which no block is removed. `out` has room for all `hashes`. The handle pins it, and may pin
  // tombstones behind it: it is to be released even when match.blocks is 0.
  Match lookup(std::span<const uint64_t> hashes, std::span<Location> out);

  // Stores the blocks [first_block, hashes.size()) of the sequence `hashes`, given from its beginning, each under its
  // name. `handle` is from lookup() of the same sequence, or empty; it is taken, and the one returned pins all.
  // A name that another block has is taken from it, and that block is removed. A block that is there under another name
  // gets the new one; the old one is forgotten. On an error nothing changed: as PrehashedIndex::insert(), and
  // kResourceExhausted for blocks_max.
  Result<Handle> store(Handle& handle, std::span<const uint64_t> hashes, uint32_t first_block,
                       std::span<const uint64_t> names);

  // Returns how many of the names were known; each of those blocks is removed now. Names of no block are no error: a
  // worker may tell of what it never announced.
  size_t remove_by_hash(std::span<const uint64_t> names);

  // As PrehashedIndex::release().
  Status release(Handle handle);

  NamedBlocksUsage usage() const;
  // Makes room for so many blocks, and spends the memory for them and for so many bytes of the index's runs now instead
  // of at first use. Before anything else is called.
  void prefault(uint64_t blocks, uint64_t run_bytes);

 private:
  bool is_removed(Location location) const {
    return (removed_bits_[location / 64].load(std::memory_order_relaxed) >> (location % 64) & 1) != 0;
  }
  void set_removed(Location location, bool removed);
  // Fills taken_ with locations that no block has.
  Status take_locations(size_t count);
  void give_back(std::span<const Location> locations);
  void name_block(uint64_t name, Location location, bool is_new);
  void sweep();

  const uint32_t blocks_max_;
  PrehashedIndex index_;
  Root root_;
  NameTable names_;
  Mapping removed_mapping_;
  std::span<std::atomic<uint64_t>> removed_bits_;  // of all locations; written by one thread
  std::vector<Location> free_;
  Location never_used_ = 0;  // this and all above
  std::vector<Location> taken_;
  std::vector<Location> canonical_;
  uint64_t in_tree_ = 0;
  uint64_t tombstones_ = 0;
  uint64_t tombstones_kept_ = 0;  // that the last sweep could not take
};

}  // namespace rhizome
