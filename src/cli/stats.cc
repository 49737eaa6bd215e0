#include <cstdio>

#include "cli/command_text.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/host_commands.h"
#include "cli/node_call.h"
#include "cli/node_text.h"
#include "telemetry/log.h"

namespace rhizome {

int stats_main(const std::vector<std::string>& arguments) {
  const CommandText& command = *find_command("stats");
  const auto call = parse_node_call(command, arguments, {}, process_environment);
  if (!call) {
    log_error("{}", call.error());
    return kWrongCall;
  }
  if (call->help) {
    std::fputs(command_help(command).c_str(), stdout);
    return kDone;
  }
  auto node = find_node(*call);
  const auto stats = node ? ask_stats(*call, *node) : OrComplaint<NodeStats>(complain(node.error()));
  if (!stats) {
    log_error("{}", stats.error());
    return kFailed;
  }
  std::fputs(call->json ? (stats->dump() + "\n").c_str() : stats_lines(*stats).c_str(), stdout);
  return kDone;
}

}  // namespace rhizome
