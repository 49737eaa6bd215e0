#include "cli/node_call.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "cli/own_node.h"
#include "cli/runtime_dir.h"
#include "machine/files.h"

namespace rhizome {
namespace {

bool take_switch(const std::string& word, const std::vector<std::string>& own, NodeCall& call) {
  if (word == "--help" || word == "-h") {
    call.help = true;
  } else if (word == "--json") {
    call.json = true;
  } else if (std::ranges::find(own, word) == own.end()) {
    return false;
  } else if (word == "--yes") {
    call.yes = true;
  } else if (word == "--once") {
    call.once = true;
  }
  return true;
}

}  // namespace

OrComplaint<NodeCall> parse_node_call(const CommandText& command, const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& own, const Environment& environment) {
  NodeCall call;
  call.directory = runtime_directory(environment, ::getuid());
  call.tenant = environment("RHIZOME_TENANT").value_or("");
  call.socket_path = environment("RHIZOME_ATTACH").value_or("");
  const std::map<std::string, std::string*> values = {{"--attach", &call.socket_path}, {"--tenant", &call.tenant}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (take_switch(word, own, call)) continue;
    const size_t equals = word.find('=');
    const auto value = values.find(word.substr(0, equals));
    if (value == values.end()) {
      return complain(std::string(command.name) + ": there is no flag or argument '" + word + "' (rhizome " +
                      std::string(command.name) + " --help)");
    }
    if (equals != std::string::npos) {
      *value->second = word.substr(equals + 1);
    } else if (++i < arguments.size()) {
      *value->second = arguments[i];
    } else {
      return complain(word + " needs a value");
    }
  }
  if (call.socket_path.empty() || call.socket_path == "none") call.socket_path = host_socket(call.directory);
  return call;
}

OrComplaint<NodeInquiry> find_node(const NodeCall& call) {
  auto node = NodeInquiry::open(call.socket_path, call.tenant, 0);
  if (node) return std::move(*node);
  const NoTalk& why = node.error();
  if (why.pid == 0) return complain("no node answers at " + call.socket_path + ": " + why.line);
  return complain("the node of process " + std::to_string(why.pid) + ": " + why.line);
}

OrComplaint<NodeStats> ask_stats(const NodeCall& call, NodeInquiry& node) {
  const auto reply = node.ask<StatsFrame>(AskStatsFrame{});
  if (!reply) return complain("the node of process " + std::to_string(node.pid()) + ": " + reply.error().line);
  NodeStats said = NodeStats::parse(reply->text, nullptr, false);
  if (!said.is_object() || !said["memory"].is_object() || !said["disk"].is_object()) {
    return complain("the node of process " + std::to_string(node.pid()) + " answers something else");
  }
  NodeStats stats = {{"process", node.pid()}};
  stats.update(said);
  const auto page = Counters::attach(counters_path(call.directory, node.pid()));
  if (page) {
    stats["disk"]["capacity_bytes"] = (*page)->get(Counter::kTierCapacity);
    stats["disk"]["used_bytes"] = (*page)->get(Counter::kTierUsed);
  }
  const EngineCounts engines = count_engines(call.directory);
  stats["engines"] = {
      {"contexts", engines.get(Counter::kContexts)},
      {"prompts", engines.get(Counter::kLookups)},
      {"tokens_looked_up", engines.get(Counter::kTokensLookedUp)},
      {"tokens_restored", engines.get(Counter::kTokensRestoredSlab) + engines.get(Counter::kTokensRestoredDisk) +
                              engines.get(Counter::kTokensRestoredLive)},
      {"tokens_computed", engines.get(Counter::kTokensComputedPrompt)}};
  return stats;
}

EngineCounts count_engines(const std::string& directory) {
  EngineCounts counts;
  counts.values.resize(kCountersCount);
  for (const std::string& name : list_directory(directory).value_or(std::vector<std::string>())) {
    const auto page = is_counters_page(name) ? Counters::attach(directory + "/" + name)
                                             : Result<std::unique_ptr<Counters>>(fail(Code::kNotFound, ""));
    if (!page) continue;
    ++counts.pages;
    for (uint32_t i = 0; i < kCountersCount; ++i)
      counts.values[i] += (*page)->get(static_cast<Counter>(i));
  }
  return counts;
}

}  // namespace rhizome
