#include <array>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "cli/command_text.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/host_commands.h"
#include "cli/node_call.h"
#include "machine/units.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

int refuse(int status, const std::string& line) {
  log_error("{}", line);
  return status;
}

// On the terminal; whatever is not a yes is a no.
bool is_agreed(const std::string& what) {
  std::fprintf(stderr, "Forget %s? [y/N] ", what.c_str());
  std::fflush(stderr);
  std::array<char, 16> answer{};
  return std::fgets(answer.data(), answer.size(), stdin) != nullptr && (answer[0] == 'y' || answer[0] == 'Y');
}

// What is to be forgotten, and how it is called.
struct Choice {
  ClearFrame frame;
  std::string words;
};

OrComplaint<Choice> choose(const NodeCall& call, const NodeInquiry& node, const NodeStats& stats) {
  const std::string where = " of the node of process " + std::to_string(node.pid());
  if (call.keyspace.empty()) {
    const uint64_t blocks = number_of(stats, "memory", "blocks") + number_of(stats, "disk", "alone");
    return Choice{{}, format_count(blocks, "block") + where};
  }
  const auto keyspace = choose_keyspace(stats, call.keyspace);
  if (!keyspace) return complain(keyspace.error());
  return Choice{{.keyspace = keyspace->number},
                format_count(keyspace->blocks, "block") + " of keyspace " + keyspace->name + " (" + keyspace->words +
                    ")" + where};
}

}  // namespace

int clear_main(const std::vector<std::string>& arguments) {
  const CommandText& command = *find_command("clear");
  const auto call = parse_node_call(command, arguments, {"--yes", "--keyspace"}, process_environment);
  if (!call) return refuse(kWrongCall, call.error());
  if (call->help) {
    std::fputs(command_help(command).c_str(), stdout);
    return kDone;
  }
  if (!call->yes && ::isatty(STDIN_FILENO) != 1) {
    return refuse(kWrongCall, "clear asks before it forgets, and there is no terminal to ask on: give --yes");
  }
  auto node = find_node(*call);
  if (!node) return refuse(kFailed, node.error());
  const auto stats = ask_stats(*call, *node);
  if (!stats) return refuse(kFailed, stats.error());
  const auto choice = choose(*call, *node, *stats);
  if (!choice) return refuse(kFailed, choice.error());
  if (!call->yes && !is_agreed(choice->words)) return refuse(kFailed, "nothing was forgotten");
  const auto cleared = node->ask<ClearedFrame>(choice->frame);
  if (!cleared)
    return refuse(kFailed, "the node of process " + std::to_string(node->pid()) + ": " + cleared.error().line);
  if (call->json) {
    std::printf("{\"freed_blocks\":%llu}\n", static_cast<unsigned long long>(cleared->blocks_count));
  } else {
    std::printf("forgot %s\n", format_count(cleared->blocks_count, "block").c_str());
  }
  return kDone;
}

}  // namespace rhizome
