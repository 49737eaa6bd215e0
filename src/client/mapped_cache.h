// The memory of a node as another process sees it: its index, the directory of its blocks and its chunks, all mapped
// read-only. What a look-up finds is read in place, without a system call or a copy.
//
// A block that was found (IndexReader::lookup()) stays where it is while its hazard slot is set, if it is in memory at
// all; blocks that are only in a tier below have no place here. Chunks and segments that were not needed before are
// asked for, which takes a message to the node.
//
// Thread-safety: everything here may be called from any thread; a HazardSlot belongs to one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "attach/lease_page.h"
#include "concurrency/mutex.h"
#include "contract/result.h"
#include "index/index_reader.h"
#include "machine/descriptor.h"
#include "machine/mapping.h"
#include "slab/block_directory.h"

namespace rhizome {

// Memory that a node hands over.
struct SharedMemory {
  Descriptor descriptor;
  uint64_t bytes = 0;
};

class MappedCache {
 public:
  // Where pieces come from that were not needed before.
  class Source {
   public:
    virtual ~Source() = default;
    virtual Result<SharedMemory> directory_segment(uint32_t number) = 0;
    virtual Result<SharedMemory> chunk(uint32_t number) = 0;
  };

  // `source` outlives the cache. Errors: of Mapping::attach_shared() and IndexReader::open().
  static Result<std::unique_ptr<MappedCache>> open(const SharedMemory& index, Source& source);
  ~MappedCache();
  MappedCache(const MappedCache&) = delete;
  MappedCache& operator=(const MappedCache&) = delete;

  const IndexReader& index() const { return index_; }

  // A block's slot: its identity and payload (block/identity.h), as they were committed; none when it is not in memory.
  struct Block {
    std::span<const std::byte> bytes = {};
    uint64_t checksum = 0;
    uint32_t loads_failed = 0;  // of one that is not here: it has changed when a load has brought nothing

    bool is_here() const { return !bytes.empty(); }
  };
  // `location` is from a look-up whose hazard slot is still set, `bytes` the size of the keyspace's slots. kDataLoss:
  // the node says something that cannot be. Other errors: of the source.
  Result<Block> find(Location location, uint64_t bytes);

  // Unmaps the chunks that the node does not have any more, once nobody can be reading in them: from begin_unmap() on
  // no look-up finds them, and each hazard slot has to be seen empty once after that. True: they are unmapped; false:
  // call end_unmap() again. Both by one thread at a time, and begin_unmap() only when the last end_unmap() returned
  // true. Errors: of the source; nothing has changed.
  Status begin_unmap();
  bool end_unmap(LeaseWriter& lease);
  size_t mapped_chunks() const;

 private:
  static constexpr uint32_t kChunksMax = 1 << 16;
  static constexpr uint32_t kChunksOfAPage = 1 << 8;
  using ChunkPage = std::array<std::atomic<const Mapping*>, kChunksOfAPage>;

  MappedCache(Mapping memory, IndexReader index, Source& source);
  Status add_segment(uint32_t number) EXCLUDES(mutex_);
  Result<const Mapping*> chunk(uint32_t number) EXCLUDES(mutex_);
  Result<std::span<const std::byte>> bytes_at(const BlockPlace& place, uint64_t bytes);
  const Mapping* known_chunk(uint32_t number) const;

  const Mapping memory_;
  const IndexReader index_;
  Source& source_;
  DirectoryReader directory_;
  std::array<std::atomic<ChunkPage*>, kChunksMax / kChunksOfAPage> pages_{};

  mutable Mutex mutex_;
  std::deque<Mapping> mappings_ GUARDED_BY(mutex_);  // their addresses stay
  std::map<uint32_t, Mapping*> chunks_ GUARDED_BY(mutex_);
  std::vector<Mapping*> leaving_ GUARDED_BY(mutex_);
  uint64_t slots_to_see_ = 0;  // hazard slots that were not seen empty since begin_unmap()
  std::deque<ChunkPage> owned_pages_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
