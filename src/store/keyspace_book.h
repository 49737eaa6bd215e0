// The keyspace book: which keyspaces a store has open, in memory that outlives its process (slab/memory_keeper.h). The
// identity of a block has only the digest of its keyspace; the next process needs all of it to open it again.
//
// A page: u64 end, then records up to there, one behind the other, each at a multiple of 8: u32 bytes of the encoding,
// u32 0, the geometry (codec/geometry_record.h), the encoding (block/keyspace.h). `end` is stored last, so what lies
// before it is whole.
//
// Thread-safety: a KeyspaceBook belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "block/keyspace.h"
#include "codec/block_geometry.h"
#include "contract/result.h"
#include "machine/mapping.h"
#include "slab/memory_keeper.h"

namespace rhizome {

struct RecordedKeyspace {
  Keyspace keyspace;
  BlockGeometry geometry;
};

class KeyspaceBook {
 public:
  static constexpr uint64_t kPageBytes = 64 << 10;

  // `keeper` outlives the book.
  explicit KeyspaceBook(MemoryKeeper& keeper) : keeper_(keeper) {}

  // Of a new page, if the next add() needs one for that keyspace; else 0.
  uint64_t bytes_needed(const Keyspace& keyspace) const;
  // kResourceExhausted: the system has no memory for another page.
  Status add(const Keyspace& keyspace, const BlockGeometry& geometry);

 private:
  MemoryKeeper& keeper_;
  std::vector<Mapping> pages_;
  uint64_t end_ = 0;  // in the last page
};

// What a page says, as far as it makes sense; it may be anything.
std::vector<RecordedKeyspace> read_keyspace_page(std::span<const std::byte> page);

}  // namespace rhizome
