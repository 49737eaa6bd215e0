#include "cli/own_node.h"

#include <span>
#include <stop_token>
#include <string_view>
#include <utility>

#include "client/open_disk.h"
#include "machine/clock.h"
#include "machine/files.h"
#include "machine/host.h"
#include "machine/process.h"
#include "machine/thread.h"
#include "node/keeper.h"
#include "node/node.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr std::string_view kHostSocket = "/node.sock";
constexpr std::string_view kPidFile = "/node.pid";
constexpr uint64_t kPidFileMax = 64;

// `counters` null: the node's own.
DomainOptions domain_options(const CacheFlags& flags, const TenantShare& share, Counters* counters) {
  DomainOptions options{.tenant = share.name, .memory_bytes = share.memory_bytes, .counters = counters};
  options.tiering.is_inclusive = !flags.exclusive;
  if (flags.watermarks) options.tiering.watermarks = *flags.watermarks;
  options.tier = open_disk(
      {.directory = share.directory, .bytes = share.disk_bytes, .write_bytes_per_day = share.disk_bytes_per_day},
      options.tiering);
  return options;
}

NodeOptions node_options(const CacheFlags& flags, const std::string& socket_path,
                         std::span<const std::unique_ptr<Counters>> of_tenants) {
  NodeOptions options;
  options.socket_path = socket_path;
  options.block_tokens = flags.block_tokens;
  DomainOptions first = domain_options(flags, flags.tenants.front(), nullptr);
  options.memory_bytes = first.memory_bytes;
  options.tenant = first.tenant;
  options.tier = std::move(first.tier);
  options.tiering = first.tiering;
  for (size_t i = 1; i < flags.tenants.size(); ++i)
    options.domains.push_back(domain_options(flags, flags.tenants[i], of_tenants[i].get()));
  return options;
}

constexpr const char* kKeeperCommand = "keeper";

KeeperOptions keeper_at(const std::string& node_socket) {
  const Result<std::string> program = own_executable_path();
  if (!program) return {};
  const std::string path = node_socket + ".keeper";
  return {.socket_path = path, .command = {*program, kKeeperCommand, path}};
}

std::string own_pid_line() {
  return std::to_string(own_pid()) + "\n";
}

}  // namespace

std::string host_socket(const std::string& runtime_directory) {
  return runtime_directory + std::string(kHostSocket);
}

std::string private_socket(const std::string& runtime_directory) {
  return runtime_directory + "/node-" + std::to_string(own_pid()) + ".sock";
}

Result<std::unique_ptr<OwnNode>> OwnNode::start(const CacheFlags& flags, const std::string& socket_path, NodeRole role,
                                                Counters& counters, Supervision supervision) {
  // One for each chunk of each tenant, and some for each client.
  take_all_descriptors();
  std::vector<std::unique_ptr<Counters>> of_tenants;
  std::vector<std::string> tenants;
  for (const TenantShare& share : flags.tenants) {
    tenants.push_back(share.name);
    if (flags.tenants.size() > 1) of_tenants.push_back(Counters::local());
  }
  NodeOptions options = node_options(flags, socket_path, of_tenants);
  options.comes_back = role == NodeRole::kDaemon;
  if (role != NodeRole::kPrivate) options.keeper = keeper_at(socket_path);
  options.keeper.supervision = std::move(supervision);
  Counters& first = of_tenants.empty() ? counters : *of_tenants.front();
  std::unique_ptr<OwnNode> own(new OwnNode(counters, std::move(of_tenants), std::move(tenants)));
  Result<std::unique_ptr<Node>> node = Node::start(std::move(options), first);
  if (!node) return fail(node.error());
  own->node_ = std::move(*node);
  own->publish_counters();
  if (socket_path.ends_with(kHostSocket)) {
    own->pid_path_ = socket_path.substr(0, socket_path.size() - kHostSocket.size()) + std::string(kPidFile);
    const Status written = write_file_atomically(own->pid_path_, own_pid_line());
    if (!written) log_warning("{} cannot be written: {}", own->pid_path_, written.error().reason);
  }
  return own;
}

OwnNode::OwnNode(Counters& counters, std::vector<std::unique_ptr<Counters>> of_tenants,
                 std::vector<std::string> tenants)
    : counters_(counters), of_tenants_(std::move(of_tenants)), tenants_(std::move(tenants)) {}

OwnNode::~OwnNode() {
  // While the socket is this node's, so is the file.
  if (!pid_path_.empty() && read_text_file(pid_path_, kPidFileMax).value_or(std::string()) == own_pid_line()) {
    (void)remove_file(pid_path_);
  }
}

uint64_t OwnNode::blocks_taken_over() const {
  return node_->adoption().warm_blocks;
}

// All at once: what one tenant has to write does not take the time of the others.
void OwnNode::flush(uint64_t wait_ns) {
  const uint64_t deadline_ns = monotonic_now_ns() + wait_ns;
  std::vector<Thread> threads;
  for (size_t i = 1; i < tenants_.size(); ++i) {
    Store* const store = node_->store_of(tenants_[i]);
    auto thread =
        start_thread("rhizome-flush", [store, deadline_ns](const std::stop_token&) { store->flush(deadline_ns); });
    if (thread) threads.push_back(std::move(*thread));
  }
  node_->store().flush(deadline_ns);
  for (Thread& thread : threads)
    thread.join();
}

void OwnNode::publish_counters() {
  if (of_tenants_.empty()) return;
  for (uint32_t i = 0; i < kCountersCount; ++i) {
    uint64_t sum = 0;
    for (const auto& counters : of_tenants_)
      sum += counters->get(static_cast<Counter>(i));
    counters_.set(static_cast<Counter>(i), sum);
  }
}

}  // namespace rhizome
