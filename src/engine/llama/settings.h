// How the library in an engine's process was told to behave: the RHIZOME_ variables, which `rhizome serve` and
// `rhizome run` set, and people may.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "contract/result.h"
#include "residency/watermarks.h"

namespace rhizome {

struct Settings {
  bool off = false;                      // RHIZOME_OFF
  bool exact = false;                    // RHIZOME_EXACT
  bool restore = true;                   // RHIZOME_NO_RESTORE negates it
  uint64_t memory_bytes = 0;             // RHIZOME_MEMORY; a quarter of the machine's, at most 8 GiB
  uint32_t block_tokens = 16;            // RHIZOME_BLOCK_TOKENS
  std::string cache_directory;           // RHIZOME_CACHE_DIR; $XDG_CACHE_HOME/rhizome, ~/.cache/rhizome, or none
  uint64_t disk_bytes = 0;               // RHIZOME_DISK; none
  uint64_t disk_bytes_per_day = 0;       // RHIZOME_DISK_WRITES; no limit
  bool exclusive = false;                // RHIZOME_EXCLUSIVE
  std::optional<Watermarks> watermarks;  // RHIZOME_WATERMARKS, as 90:70
  std::string tenant;                    // RHIZOME_TENANT
  std::string counters_path;             // RHIZOME_COUNTERS: a page that the parent process made
  std::string node_socket;               // RHIZOME_ATTACH: of the node to attach to; none or empty: a cache of its own
  std::string log;                       // RHIZOME_LOG: quiet, info, debug
};

// `problem` names the variable that is wrong and its value, when the result is an error.
Result<Settings> settings_from_environment(std::string& problem);

}  // namespace rhizome
