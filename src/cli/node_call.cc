#include "cli/node_call.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "cli/own_node.h"
#include "cli/runtime_dir.h"
#include "machine/files.h"

namespace rhizome {
namespace {

// Fewer would be a slip; more are never shown.
constexpr size_t kKeyspaceDigitsMin = 4;
constexpr size_t kKeyspaceDigitsMax = 12;

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

// Small letters from now on.
bool is_keyspace_name(std::string& text) {
  std::ranges::transform(text, text.begin(),
                         [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c | 32) : c; });
  return text.size() >= kKeyspaceDigitsMin && text.size() <= kKeyspaceDigitsMax &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

OrComplaint<NodeCall> parse_node_call(const CommandText& command, const std::vector<std::string>& arguments,
                                      const std::vector<std::string>& own, const Environment& environment) {
  NodeCall call;
  call.directory = runtime_directory(environment, ::getuid());
  const std::string tenants = environment("RHIZOME_TENANT").value_or("");
  call.tenant = tenants;
  call.socket_path = environment("RHIZOME_ATTACH").value_or("");
  std::map<std::string, std::string*> values = {{"--attach", &call.socket_path}, {"--tenant", &call.tenant}};
  if (std::ranges::find(own, "--keyspace") != own.end()) values.emplace("--keyspace", &call.keyspace);
  bool has_keyspace = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word != "--keyspace" && take_switch(word, own, call)) continue;
    const size_t equals = word.find('=');
    const auto value = values.find(word.substr(0, equals));
    if (value == values.end()) {
      return complain(std::string(command.name) + ": there is no flag or argument '" + word + "' (rhizome " +
                      std::string(command.name) + " --help)");
    }
    has_keyspace = has_keyspace || value->first == "--keyspace";
    if (equals != std::string::npos) {
      *value->second = word.substr(equals + 1);
    } else if (++i < arguments.size()) {
      *value->second = arguments[i];
    } else {
      return complain(word + " needs a value");
    }
  }
  // As daemon takes it: what it shares out is not one tenant's name.
  if (call.tenant == tenants && tenants.find_first_of(",=") != std::string::npos) {
    return complain("RHIZOME_TENANT is '" + tenants + "'; give one tenant with --tenant");
  }
  if (has_keyspace && !is_keyspace_name(call.keyspace)) {
    return complain("--keyspace is '" + call.keyspace + "'; it must be 4 to 12 hexadecimal digits, as rhizome stats " +
                    "shows them");
  }
  if (call.socket_path.empty() || call.socket_path == "none") call.socket_path = host_socket(call.directory);
  return call;
}

OrComplaint<NodeInquiry> find_node(const NodeCall& call) {
  auto node = NodeInquiry::open(call.socket_path, call.tenant, 0);
  if (node) return std::move(*node);
  const NoTalk& why = node.error();
  if (why.pid == 0) {
    return complain("no node answers at " + call.socket_path + ": " + why.line +
                    " (rhizome daemon, serve and run start one)");
  }
  const bool is_hinted = why.code == Code::kPermissionDenied && call.tenant.empty();
  return complain("the node of process " + std::to_string(why.pid) + ": " + why.line +
                  (is_hinted ? "; give --tenant" : ""));
}

// What is there is of the kind that the readers of it expect. Who answers may be no node of ours.
bool is_sound(const NodeStats& said) {
  const auto is = [](const NodeStats& object, const char* name, bool (NodeStats::*kind)() const noexcept) {
    const auto found = object.find(name);
    return found == object.end() || ((*found).*kind)();
  };
  if (!said.is_object() || !said.contains("memory") || !said.contains("disk")) return false;
  const NodeStats list = said.contains("keyspace_list") ? said["keyspace_list"] : NodeStats::array();
  return is(said, "memory", &NodeStats::is_object) && is(said, "disk", &NodeStats::is_object) &&
         is(said, "tenant", &NodeStats::is_string) && is(said, "block_tokens", &NodeStats::is_number) &&
         is(said, "keyspaces", &NodeStats::is_number) && list.is_array() &&
         std::ranges::all_of(list, [&](const NodeStats& one) {
           return one.is_object() && is(one, "name", &NodeStats::is_string) &&
                  is(one, "words", &NodeStats::is_string) && is(one, "number", &NodeStats::is_number_unsigned) &&
                  is(one, "generation", &NodeStats::is_number_unsigned);
         });
}

OrComplaint<NodeStats> ask_stats(const NodeCall& call, NodeInquiry& node) {
  const auto reply = node.ask<StatsFrame>(AskStatsFrame{});
  if (!reply) return complain("the node of process " + std::to_string(node.pid()) + ": " + reply.error().line);
  NodeStats said = NodeStats::parse(reply->text, nullptr, false);
  if (!is_sound(said)) {
    return complain("the node of process " + std::to_string(node.pid()) + " answers something else");
  }
  NodeStats stats = {{"process", node.pid()}};
  stats.update(said);
  const EngineCounts engines = count_engines(call.directory);
  stats["engines"] = {
      {"contexts", engines.get(Counter::kContexts)},
      {"prompts", engines.get(Counter::kLookups)},
      {"tokens_looked_up", engines.get(Counter::kTokensLookedUp)},
      {"tokens_kept", engines.get(Counter::kTokensKept)},
      {"tokens_restored", engines.get(Counter::kTokensRestoredSlab) + engines.get(Counter::kTokensRestoredDisk) +
                              engines.get(Counter::kTokensRestoredLive)},
      {"tokens_computed", engines.get(Counter::kTokensComputedPrompt)}};
  return stats;
}

uint64_t number_of(const NodeStats& stats, const char* group, const char* name) {
  const auto found = stats.find(group);
  if (found == stats.end() || !found->is_object()) return 0;
  const auto value = found->find(name);
  return value == found->end() || !value->is_number() ? 0 : value->get<uint64_t>();
}

OrComplaint<ChosenKeyspace> choose_keyspace(const NodeStats& stats, const std::string& beginning) {
  ChosenKeyspace chosen;
  size_t found = 0;
  for (const NodeStats& one : stats.value("keyspace_list", NodeStats::array())) {
    const std::string name = one.is_object() ? one.value("name", "") : "";
    if (name.empty() || !name.starts_with(beginning)) continue;
    ++found;
    chosen = {.number = {one.value("number", 0U), one.value("generation", 0U)},
              .name = name,
              .words = one.value("words", ""),
              .blocks = number_of(one, "memory", "blocks") + number_of(one, "disk", "alone")};
  }
  const bool all_told = number_of(stats, "keyspaces_untold", "keyspaces") == 0;
  if (found > 1) {
    return complain("--keyspace " + beginning + ": " + std::to_string(found) +
                    " keyspaces begin like that; give more digits (rhizome stats)");
  }
  if (found == 0 || chosen.number == KeyspaceNumber{}) {
    return complain("--keyspace " + beginning + ": the node " +
                    (all_told ? "has no such keyspace (rhizome stats)"
                              : "does not tell of such a keyspace among those that hold most (rhizome stats)"));
  }
  // One that is not told of may begin the same way.
  if (!all_told && beginning != chosen.name) {
    return complain("--keyspace " + beginning + ": the node has more keyspaces than it tells of; give all digits, " +
                    chosen.name + " if you mean " + chosen.words);
  }
  return chosen;
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
