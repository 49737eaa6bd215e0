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
  std::string keyspace;     // --keyspace, in small letters
  bool json = false;        // --json
  bool yes = false;         // --yes
  bool once = false;        // --once
  bool help = false;
};

// Flags before RHIZOME_ATTACH and RHIZOME_TENANT. `own` are the flags that this command takes beside --json, --attach
// and --tenant.
OrComplaint<NodeCall> parse_node_call(const CommandText& command, const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& own, const Environment& environment);

OrComplaint<NodeInquiry> find_node(const NodeCall& call);

using NodeStats = nlohmann::ordered_json;
// As the node says them, with "process", and with the engines of the runtime directory whose pages of counters are to
// be read.
OrComplaint<NodeStats> ask_stats(const NodeCall& call, NodeInquiry& node);

// The one keyspace among those of the stats whose name begins like that.
struct ChosenKeyspace {
  KeyspaceNumber number;
  std::string name;
  std::string words;
  uint64_t blocks = 0;  // in memory or below
};
OrComplaint<ChosenKeyspace> choose_keyspace(const NodeStats& stats, const std::string& beginning);
// Of those, and of their members, that the node says; 0 where it does not.
uint64_t number_of(const NodeStats& stats, const char* group, const char* name);

// All pages of counters of the directory, added up; of the gauges, the node's.
struct EngineCounts {
  uint32_t pages = 0;
  std::vector<uint64_t> values;  // by Counter

  uint64_t get(Counter counter) const { return values[static_cast<uint32_t>(counter)]; }
};
EngineCounts count_engines(const std::string& directory);

}  // namespace rhizome
