#include <array>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "cli/command_text.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/host_commands.h"
#include "cli/node_call.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

int refuse(int status, const std::string& line) {
  log_error("{}", line);
  return status;
}

// On the terminal; whatever is not a yes is a no.
bool is_agreed(const NodeInquiry& node, uint64_t blocks) {
  std::fprintf(stderr, "Forget %llu blocks of the node of process %d? [y/N] ", static_cast<unsigned long long>(blocks),
               static_cast<int>(node.pid()));
  std::fflush(stderr);
  std::array<char, 16> answer{};
  return std::fgets(answer.data(), answer.size(), stdin) != nullptr && (answer[0] == 'y' || answer[0] == 'Y');
}

}  // namespace

int clear_main(const std::vector<std::string>& arguments) {
  const CommandText& command = *find_command("clear");
  const auto call = parse_node_call(command, arguments, {"--yes"}, process_environment);
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
  auto stats = ask_stats(*call, *node);
  if (!stats) return refuse(kFailed, stats.error());
  if (!call->yes && !is_agreed(*node, (*stats)["memory"].value("blocks", uint64_t{0}))) {
    return refuse(kFailed, "nothing was forgotten");
  }
  const auto cleared = node->ask<ClearedFrame>(ClearFrame{});
  if (!cleared)
    return refuse(kFailed, "the node of process " + std::to_string(node->pid()) + ": " + cleared.error().line);
  if (call->json) {
    std::printf("{\"freed_blocks\":%llu}\n", static_cast<unsigned long long>(cleared->blocks_count));
  } else {
    std::printf("forgot %llu blocks\n", static_cast<unsigned long long>(cleared->blocks_count));
  }
  return kDone;
}

}  // namespace rhizome
