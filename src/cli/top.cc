#include <cstdio>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/command_text.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/host_commands.h"
#include "cli/node_call.h"
#include "cli/node_text.h"
#include "machine/clock.h"
#include "machine/process.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kIntervalNs = 1'000'000'000;
constexpr size_t kWidthUnknown = 80;

int refuse(int status, const std::string& line) {
  log_error("{}", line);
  return status;
}

size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kWidthUnknown;
}

void show(const NodeCall& call, const NodeSpan& span, bool is_terminal) {
  std::string text;
  if (call.json) {
    text = span.stats.dump() + "\n";
  } else if (is_terminal && !call.once) {
    text = "\033[H\033[J" + top_screen(span, terminal_width());  // from the upper left corner, on an empty screen
  } else {
    text = call.once ? top_screen(span, is_terminal ? terminal_width() : kWidthUnknown) : top_line(span);
  }
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

int watch(const NodeCall& call) {
  auto signals = SignalWait::create();
  if (!signals) return refuse(kFailed, signals.error().reason);
  auto node = find_node(call);
  if (!node) return refuse(kFailed, node.error());
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  NodeSpan span;
  span.before = count_engines(call.directory);
  for (uint64_t before_ns = monotonic_now_ns();;) {
    const auto signal = signals->next(kIntervalNs);
    if (signal == SIGINT || signal == SIGTERM) return kDone;
    auto stats = ask_stats(call, *node);
    if (!stats) return refuse(kFailed, stats.error());
    span.stats = std::move(*stats);
    span.now = count_engines(call.directory);
    const uint64_t now_ns = monotonic_now_ns();
    span.seconds = static_cast<double>(now_ns - before_ns) * 1e-9;
    show(call, span, is_terminal);
    if (call.once || std::ferror(stdout) != 0) return kDone;
    span.before = std::move(span.now);
    before_ns = now_ns;
  }
}

}  // namespace

int top_main(const std::vector<std::string>& arguments) {
  const CommandText& command = *find_command("top");
  const auto call = parse_node_call(command, arguments, {"--once"}, process_environment);
  if (!call) return refuse(kWrongCall, call.error());
  if (call->help) {
    std::fputs(command_help(command).c_str(), stdout);
    return kDone;
  }
  return watch(*call);
}

}  // namespace rhizome
