// What the calls that ask a node have in common: their flags, the node, what it holds, what engines have counted.
//
// Thread-safety: belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command_text.h"
#include "cli/complaint.h"
#include "cli/node_inquiry.h"
#include "cli/parse.h"
#include "telemetry/counters.h"

namespace rhizome {

struct NodeCall {
  std::string directory;    // the runtime directory
  std::string socket_path;  // --attach, else the host's
  std::string tenant;       // --tenant
  bool json = false;        // --json
  bool yes = false;         // --yes
  bool once = false;        // --once
  bool help = false;
};

// Flags before RHIZOME_ATTACH and RHIZOME_TENANT. `own` are the switches that this command takes beside --json.
OrComplaint<NodeCall> parse_node_call(const CommandText& command, const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& own, const Environment& environment);

OrComplaint<NodeInquiry> find_node(const NodeCall& call);

using NodeStats = nlohmann::ordered_json;
// As the node says them, with "process", and with the bytes of its disk and the engines of the runtime directory where
// their pages of counters are to be read.
OrComplaint<NodeStats> ask_stats(const NodeCall& call, NodeInquiry& node);

// All pages of counters of the directory, added up; of the gauges, the node's.
struct EngineCounts {
  uint32_t pages = 0;
  std::vector<uint64_t> values;  // by Counter

  uint64_t get(Counter counter) const { return values[static_cast<uint32_t>(counter)]; }
};
EngineCounts count_engines(const std::string& directory);

}  // namespace rhizome
