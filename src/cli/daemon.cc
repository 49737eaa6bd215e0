#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "cli/command_text.h"
#include "cli/exit_status.h"
#include "cli/flag_table.h"
#include "cli/help.h"
#include "cli/own_node.h"
#include "cli/parse.h"
#include "cli/runtime_dir.h"
#include "cli/serve.h"
#include "machine/clock.h"
#include "machine/files.h"
#include "machine/host.h"
#include "machine/local_socket.h"
#include "machine/process.h"
#include "machine/supervisor.h"
#include "machine/units.h"
#include "serve/http/metrics_server.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kLong = uint64_t{3600} * 1'000'000'000;
// SIGTERM to exit takes at most 5 s; the rest is for giving memory back.
constexpr uint64_t kLastWritesNs = 3'500'000'000;
constexpr uint64_t kConnectNs = 1'000'000'000;
// How old the sum of what several tenants count may be.
constexpr uint64_t kPublishNs = 250'000'000;

int refuse(int status, const std::string& line) {
  log_error("{}", line);
  return status;
}

// What is said to who computes, on this line: in the environment or in a file it may be meant for others.
std::optional<std::string> not_for_a_node(const Given& given) {
  for (const char* const name : {"off", "no-restore", "exact", "attach", "json"}) {
    const auto found = given.find(name);
    if (found != given.end() && found->second.source.starts_with("--")) {
      return "daemon: " + found->second.source + " is for serve and run, which attach to this node";
    }
  }
  return std::nullopt;
}

// 0: nobody listens there.
pid_t listener_at(const std::string& socket_path) {
  const auto socket = LocalSocket::connect(socket_path, monotonic_now_ns() + kConnectNs);
  const auto peer = socket ? socket->peer_credentials() : Result<PeerCredentials>(fail(socket.error()));
  return peer ? peer->pid : 0;
}

std::string why_no_node(const Error& error, const std::string& directory, const CacheFlags& flags) {
  const std::string socket_path = host_socket(directory);
  switch (error.code) {
    case Code::kAlreadyExists: {
      const pid_t pid = listener_at(socket_path);
      const std::string who = pid == 0 ? "another process" : "process " + std::to_string(pid);
      return who + " is this host's node already, at " + socket_path;
    }
    case Code::kInvalidArgument:
    case Code::kResourceExhausted:
      return std::string(error.reason) + " (" + socket_path + ", --memory " + format_bytes(flags.memory_bytes) + ")";
    default:
      return std::string(error.reason) + " (" + socket_path + ")";
  }
}

std::string disk_words(uint64_t bytes, const std::string& directory) {
  return bytes == 0 ? "no disk" : format_bytes(bytes) + " of disk in " + directory;
}

void say_what_it_is(const CacheFlags& flags, const std::string& directory, const Counters& counters,
                    uint64_t taken_over) {
  const bool is_shared = flags.tenants.size() > 1;
  const std::string place = is_shared ? flags.cache_dir : flags.tenants.front().directory;
  const std::string tenants = is_shared              ? ", " + std::to_string(flags.tenants.size()) + " tenants"
                              : flags.tenant.empty() ? ""
                                                     : ", tenant " + flags.tenant;
  uint64_t memory_bytes = 0;
  for (const TenantShare& share : flags.tenants)
    memory_bytes += share.memory_bytes;
  log_info("the node of this host, process {}: {} of memory, {}, blocks of {} tokens{}", own_pid(),
           format_bytes(memory_bytes), disk_words(counters.get(Counter::kTierCapacity), place), flags.block_tokens,
           tenants);
  for (const TenantShare& share : flags.tenants) {
    if (!is_shared) break;
    log_info("tenant {}: {} of memory, {}", share.name, format_bytes(share.memory_bytes),
             disk_words(share.disk_bytes, share.directory));
  }
  if (std::ranges::all_of(flags.tenants, &TenantShare::has_own_size) && memory_bytes < flags.memory_bytes) {
    log_info("{} of the memory is no tenant's", format_bytes(flags.memory_bytes - memory_bytes));
  }
  log_info("listening on {}", host_socket(directory));
  if (taken_over > 0) log_info("{} blocks are warm from the node before, which was killed", taken_over);
}

// A service of Type=notify counts as started once it says so. Nothing depends on it being heard.
void tell_supervisor(const std::string& path, std::string_view text) {
  if (path.empty()) return;
  Result<LocalSocket> socket = connect_to_supervisor(path);
  if (socket) static_cast<void>(socket->send(std::as_bytes(std::span(text)), monotonic_now_ns() + kConnectNs));
}

int keep_node(const CacheFlags& flags, const Environment& environment) {
  // Before any thread runs: threads inherit the mask that this sets.
  auto signals = SignalWait::create();
  if (!signals) return refuse(kFailed, signals.error().reason);
  Supervision supervision = take_supervision(environment);
  const std::string supervisor = supervision.socket_path;
  const std::string directory = runtime_directory(environment, ::getuid());
  if (const pid_t pid = listener_at(host_socket(directory)); pid != 0) {
    return refuse(kFailed, why_no_node({Code::kAlreadyExists, ""}, directory, flags));
  }
  auto page = CountersPage::create(directory);
  if (!page) return refuse(kFailed, page.error());
  Counters& counters = page->counters();
  auto node = OwnNode::start(flags, host_socket(directory), NodeRole::kDaemon, counters, std::move(supervision));
  if (!node) return refuse(kFailed, why_no_node(node.error(), directory, flags));
  std::unique_ptr<MetricsServer> metrics;
  if (flags.metrics_port) {
    auto started = MetricsServer::start(*flags.metrics_port, counters);
    if (!started) {
      return refuse(kFailed, "--metrics-port " + std::to_string(*flags.metrics_port) + ": " + started.error().reason +
                                 "; give another, or 0 for a free one");
    }
    metrics = std::move(*started);
    log_info("metrics at http://127.0.0.1:{}/metrics", metrics->port());
  }
  say_what_it_is(flags, directory, counters, (*node)->blocks_taken_over());
  tell_supervisor(supervisor, "READY=1");
  const uint64_t step_ns = flags.tenants.size() > 1 ? kPublishNs : kLong;
  for (auto signal = signals->next(step_ns); signal != SIGINT && signal != SIGTERM; signal = signals->next(step_ns))
    (*node)->publish_counters();
  tell_supervisor(supervisor, "STOPPING=1");
  if (metrics) metrics->set_trouble("stopping");
  (*node)->flush(kLastWritesNs);
  return kDone;
}

}  // namespace

int daemon_main(const std::vector<std::string>& arguments) {
  const Environment environment = process_environment;
  const CommandText& command = *find_command("daemon");
  if (std::ranges::any_of(arguments, [](const std::string& word) { return word == "--help" || word == "-h"; })) {
    std::fputs(command_help(command).c_str(), stdout);
    return kDone;
  }
  for (const std::string& argument : arguments) {
    if (const auto refused = refused_flag(argument)) return refuse(kWrongCall, *refused);
  }
  const auto given = parse_flags(command, arguments, environment);
  if (!given) return refuse(kWrongCall, given.error());
  if (const auto wrong = not_for_a_node(*given)) return refuse(kWrongCall, *wrong);
  const auto flags = check_flags(*given, total_memory_bytes(), environment);
  if (!flags) return refuse(kWrongCall, flags.error());
  return keep_node(*flags, environment);
}

}  // namespace rhizome
