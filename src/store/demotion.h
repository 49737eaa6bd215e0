// Demotion: how blocks that a tier has leave memory.
//
// Where only this process reads, the table decides in one step. Readers in other processes take no pin there: a block
// is first marked as leaving in the directory that they read (slab/block_directory.h), then whoever uses it already is
// looked for (Index::collect_in_use()), and only then it goes, or stays.
//
// Thread-safety: everything here may be called from any thread.
#pragma once

#include <cstddef>

#include "index/index.h"
#include "slab/slab.h"
#include "store/block_table.h"
#include "telemetry/counters.h"

namespace rhizome {

class Demotion {
 public:
  // `shared`: readers in other processes know where blocks are. All must outlive this.
  Demotion(Slab& slab, BlockTable& table, const Index& index, bool shared, Counters& counters)
      : slab_(slab), table_(table), index_(index), shared_(shared), counters_(counters) {}

  // Up to `count` blocks that nobody uses and a tier has, used longest ago first; their slots are freed. Looks at so
  // many at most. Returns how many.
  size_t demote(size_t count, size_t looks_max);
  // One, if nothing happened to it since `ref`.
  bool demote(BlockRef ref);

 private:
  void free_slot(SlotRef slot);
  size_t end(std::span<const BlockRef> leaving);

  Slab& slab_;
  BlockTable& table_;
  const Index& index_;
  const bool shared_;
  Counters& counters_;
};

}  // namespace rhizome
