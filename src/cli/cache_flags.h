// The cache flags with their meaning checked, and what they are to the library in the engine's process.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/complaint.h"
#include "cli/parse.h"
#include "cli/tenant_shares.h"
#include "residency/watermarks.h"

namespace rhizome {

struct CacheFlags {
  uint64_t memory_bytes = 0;
  std::string memory_source;        // who asked for that much; empty for the default
  std::string disk_source;          // the same of --disk
  uint64_t disk_bytes = 0;          // 0: none
  uint64_t disk_bytes_per_day = 0;  // 0: no limit
  bool exclusive = false;
  std::optional<Watermarks> watermarks;
  uint32_t block_tokens = 16;
  bool off = false;
  bool no_restore = false;
  bool exact = false;
  std::string verify = "tier";
  std::string tenant;  // the first, or empty
  // One at least. With a single one that has no size of its own, all there is.
  std::vector<TenantShare> tenants;
  std::string tenant_source;  // who named them
  std::string attach;         // a socket's path, or none; empty: the host's node
  std::string cache_dir;
  std::optional<uint16_t> metrics_port;
  bool json = false;
};

// `machine_bytes` is the memory there is.
OrComplaint<CacheFlags> check_flags(const Given& given, uint64_t machine_bytes, const Environment& environment);

// What is wrong with the tenants for a call that belongs to one of them and shares nothing out; nothing is, if none.
std::optional<std::string> more_than_a_tenant(const CacheFlags& flags);

// The default of --memory.
uint64_t default_memory_bytes(uint64_t machine_bytes);

struct ChildEnvironment {
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> removed;
};
// The library reads nothing else: what the person's environment says about a flag that was given, or
// switched off, must not reach it. An empty `counters_path` shares no page, an empty `node_socket` attaches to no node.
ChildEnvironment child_environment(const CacheFlags& flags, const std::string& counters_path,
                                   const std::string& node_socket);

}  // namespace rhizome
