#include "bench/server_process.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <iostream>

#include "machine/clock.h"
#include "machine/files.h"
#include "machine/host.h"
#include "machine/random.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kStartPatience = 180 * kSecond;
constexpr uint64_t kStopPatience = 4 * kSecond;
constexpr uint64_t kHealthPause = 50'000'000;
constexpr int kWarmUpsMax = 200;  // with the pause between them, ten seconds of hashing and more

constexpr uint64_t kStatFileMax = 4096;
constexpr uint64_t kLogMax = 16 << 20;  // of a server that has only started
constexpr size_t kLogShown = 1500;

std::string end_of(const std::string& log) {
  return log.size() <= kLogShown ? log : "..." + log.substr(log.size() - kLogShown);
}

// The number that follows `words` and that the line goes on behind; 0 while it was not said, or not to its end.
uint16_t port_behind(std::string_view words, std::string_view said) {
  const size_t at = said.find(words);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = said.substr(at + words.size());
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
  return error == std::errc() && end != rest.data() + rest.size() ? port : 0;
}

// The parent of a process: the fourth field of its stat line; the second is its name in parentheses, with anything in
// it.
pid_t parent_of(const std::string& stat_line) {
  const size_t name_end = stat_line.rfind(") ");
  if (name_end == std::string::npos || name_end + 4 >= stat_line.size()) return 0;
  pid_t parent = 0;
  std::from_chars(stat_line.data() + name_end + 4, stat_line.data() + stat_line.size(), parent);
  return parent;
}

// A process and all that descend from it.
std::vector<pid_t> process_tree(pid_t root) {
  std::multimap<pid_t, pid_t> children;
  for (const std::string& name : list_directory("/proc").value_or(std::vector<std::string>())) {
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    const Result<std::string> stat = read_text_file("/proc/" + name + "/stat", kStatFileMax);
    if (stat) children.emplace(parent_of(*stat), pid);
  }
  std::vector<pid_t> tree = {root};
  for (size_t at = 0; at < tree.size(); ++at) {
    const auto [begin, end] = children.equal_range(tree[at]);
    for (auto child = begin; child != end; ++child)
      tree.push_back(child->second);
  }
  return tree;
}

// What would change how Rhizome or llama.cpp behave: a measurement depends on what the bench says alone.
std::vector<std::string> steering_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool steers = name.starts_with("RHIZOME_") || name.starts_with("LLAMA_") || name.starts_with("LD_PRELOAD");
    if (steers) names.emplace_back(name);
  }
  return names;
}

}  // namespace

Server::~Server() {
  if (pid_ != 0) fleet_.stop(pid_);
}

void Server::kill() {
  if (pid_ != 0) fleet_.kill(pid_);
  pid_ = 0;
}

double Server::cpu_seconds() const {
  double seconds = 0;
  for (const pid_t pid : process_tree(pid_))
    seconds += process_cpu_seconds(pid).value_or(0);
  return seconds;
}

uint64_t Server::resident_bytes() const {
  uint64_t bytes = 0;
  for (const pid_t pid : process_tree(pid_))
    bytes += process_rss_bytes(pid).value_or(0);
  return bytes;
}

Metrics Server::metrics() const {
  if (side_ == Side::kStock) return {};
  return Metrics::parse(http_get(metrics_port_, "/metrics").value_or(std::string()));
}

Result<std::unique_ptr<Fleet>> Fleet::create(const Locations& locations) {
  std::error_code error;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(error);
  const std::string name = "rhizome-bench-" + std::to_string(random_u64());
  const std::string folder = error ? "/tmp/" + name : (temporary / name).string();
  if (const Status made = make_private_directory(folder); !made) return fail(made.error());
  return std::unique_ptr<Fleet>(new Fleet(locations, folder));
}

Fleet::~Fleet() {
  if (keep_logs_) {
    std::cerr << "rhizome bench: the servers' logs are in " << folder_ << "\n";
    return;
  }
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

// The servers choose their own ports and say so in their logs: a port that was free a moment ago may be taken.
std::vector<std::string> Fleet::command(const ServerPlan& plan) const {
  std::vector<std::string> line;
  if (plan.side == Side::kStock) {
    line = {locations_.stock_server};
  } else {
    line = {locations_.program, "serve", "--metrics-port", "0", "--cache-dir", folder_ + "/cache"};
    // Whatever else runs on this host.
    if (!plan.shares_host) line.insert(line.end(), {"--attach", "none"});
    line.insert(line.end(), plan.cache_arguments.begin(), plan.cache_arguments.end());
  }
  for (const std::string& argument : {std::string("-m"), plan.model, std::string("--host"), std::string("127.0.0.1"),
                                      std::string("--port"), std::string("0")}) {
    line.push_back(argument);
  }
  line.insert(line.end(), plan.arguments.begin(), plan.arguments.end());
  return line;
}

Status Fleet::spawn(const ServerPlan& plan, Server& server, const std::string& log) {
  SpawnOptions options;
  options.stdout_path = log;
  options.stderr_path = log;
  options.environment_removed = steering_variables();
  if (plan.shares_host) options.environment.emplace_back("XDG_RUNTIME_DIR", folder_);
  options.die_with_parent = true;
  options.own_process_group = true;  // Ctrl-C reaches the bench alone, which then stops its servers in order
  const std::vector<std::string> line = command(plan);
  MutexLock lock(mutex_);
  if (interrupted_) return fail(Code::kCancelled, "interrupted");
  Result<Child> child = Child::spawn(line, options);
  if (!child) return fail(child.error());
  server.pid_ = child->pid();
  children_.emplace(server.pid_, std::move(*child));
  return {};
}

Result<std::unique_ptr<Server>> Fleet::start(const ServerPlan& plan) {
  std::unique_ptr<Server> server(new Server(*this, plan.side));
  const char* side = plan.side == Side::kStock ? "stock" : "rhizome";
  const std::string log = folder_ + "/" + std::to_string(started_++) + "-" + side + ".log";
  Status ready = spawn(plan, *server, log);
  if (ready) ready = wait_until_listening(*server, log);
  if (ready) ready = wait_until_healthy(*server);
  if (ready) ready = warm_up(*server);
  if (!ready) {
    if (!interrupted_) {
      std::cerr << "rhizome bench: the " << side << " server: " << ready.error().reason << " (" << log
                << "); the end of its log:\n"
                << end_of(read_text_file(log, kLogMax).value_or(std::string()));
    }
    return fail(ready.error());
  }
  return server;
}

Status Fleet::wait_until_listening(Server& server, const std::string& log) {
  const uint64_t give_up_ns = monotonic_now_ns() + kStartPatience;
  while (server.port_ == 0 || (server.side_ == Side::kRhizome && server.metrics_port_ == 0)) {
    if (interrupted_) return fail(Code::kCancelled, "interrupted");
    if (!is_running(server.pid_)) return fail(Code::kUnavailable, "it ended while it started");
    if (monotonic_now_ns() > give_up_ns) return fail(Code::kDeadlineExceeded, "it did not get ready in time");
    const std::string said = read_text_file(log, kLogMax).value_or(std::string());
    server.port_ = port_behind("listening on http://127.0.0.1:", said);
    server.metrics_port_ = port_behind("metrics at http://127.0.0.1:", said);
  }
  return {};
}

Status Fleet::wait_until_healthy(const Server& server) {
  const uint64_t give_up_ns = monotonic_now_ns() + kStartPatience;
  while (!http_get(server.port_, "/health")) {
    if (interrupted_) return fail(Code::kCancelled, "interrupted");
    if (!is_running(server.pid_)) return fail(Code::kUnavailable, "it ended while it started");
    if (monotonic_now_ns() > give_up_ns) return fail(Code::kDeadlineExceeded, "it did not get ready in time");
  }
  return {};
}

// The first request pays for page faults and graph building. Our side caches nothing until the weights are hashed,
// so small requests go on until one of them was not turned away for that.
Status Fleet::warm_up(const Server& server) {
  ChatRequest hello;
  hello.conversation = opening("hello", "hi");
  hello.max_tokens = 2;
  for (int attempt = 0; attempt < kWarmUpsMax; ++attempt) {
    const Metrics before = server.metrics();
    const ChatAnswer answer = server.chat(hello);
    if (interrupted_) return fail(Code::kCancelled, "interrupted");
    if (!is_running(server.pid_)) return fail(Code::kUnavailable, "it ended while it warmed up");
    if (!answer.ok()) return fail(Code::kUnavailable, "it does not answer a chat request");
    if (server.side() == Side::kStock) return {};
    const MetricsDelta metrics{before, server.metrics()};
    if (!metrics.after.has(Counter::kTokensComputedPrompt))
      return fail(Code::kUnavailable, "its /metrics do not answer");
    if (metrics.of(Counter::kStoppedNotCacheable) == 0) return {};
  }
  return fail(Code::kDeadlineExceeded, "it never began to cache: every look-up is `not_cacheable`");
}

void Fleet::interrupt(bool by_force) {
  MutexLock lock(mutex_);
  interrupted_ = true;
  for (auto& [pid, child] : children_)
    static_cast<void>(child.signal(by_force ? SIGKILL : SIGTERM));
}

// Waits a little, so that callers may ask in a loop.
bool Fleet::is_running(pid_t pid) {
  MutexLock lock(mutex_);
  const auto found = children_.find(pid);
  return found != children_.end() && !found->second.wait_for(kHealthPause);
}

void Fleet::stop(pid_t pid) {
  Child child;
  {
    MutexLock lock(mutex_);
    const auto found = children_.find(pid);
    if (found == children_.end()) return;
    child = std::move(found->second);
    children_.erase(found);
  }
  child.terminate(kStopPatience);
}

void Fleet::kill(pid_t pid) {
  MutexLock lock(mutex_);
  const auto found = children_.find(pid);
  if (found == children_.end()) return;
  static_cast<void>(found->second.signal(SIGKILL));
  static_cast<void>(found->second.wait());
  children_.erase(found);
}

}  // namespace rhizome::bench
