// The disk tier as processes open it: with patience for one that was killed, and a word in the log when there is none.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "store/tiering_options.h"
#include "tier/tier.h"

namespace rhizome {

// Blocks on a disk, that outlive the process.
struct DiskOptions {
  std::string directory;
  uint64_t bytes = 0;                // 0: none
  uint64_t write_bytes_per_day = 0;  // 0: no limit
};

// Null: the disk cannot be used (another process has the directory, no room), which the log says, or none was asked
// for. Waits up to three seconds for a process that is ending. Sets what `tiering` must know of it.
std::unique_ptr<Tier> open_disk(const DiskOptions& disk, TieringOptions& tiering);

}  // namespace rhizome
