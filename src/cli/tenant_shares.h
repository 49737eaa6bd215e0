// What each tenant of a daemon has: its part of the memory, of the disk, and a directory of its own.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/complaint.h"
#include "cli/parse.h"

namespace rhizome {

struct TenantShare {
  std::string name;
  uint64_t memory_bytes = 0;
  uint64_t disk_bytes = 0;          // 0: none
  uint64_t disk_bytes_per_day = 0;  // 0: no limit
  std::string directory;            // of its blocks on disk
  bool has_own_size = false;        // it was given one
};

// What there is to share.
struct SharedSizes {
  uint64_t memory_bytes = 0;
  uint64_t disk_bytes = 0;
  uint64_t disk_bytes_per_day = 0;
  std::string cache_dir = {};
};

// In a list each has so much at least.
inline constexpr uint64_t kTenantMemoryLeast = uint64_t{4} << 20;
inline constexpr uint64_t kTenantDiskLeast = uint64_t{64} << 20;

// From names with commas between, each with or without =SIZE. Who has no size of its own gets an equal part of what is
// left of the memory; the disk is divided as the memory is. The first one's blocks on disk lie where those of an only
// tenant do.
OrComplaint<std::vector<TenantShare>> share_out(const GivenValue& tenants, const SharedSizes& sizes);
// Of everything there is, under a name that may be empty.
TenantShare whole_share(std::string name, const SharedSizes& sizes);

}  // namespace rhizome
