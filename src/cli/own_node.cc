#include "cli/own_node.h"

#include <string_view>
#include <utility>

#include "client/open_disk.h"
#include "machine/clock.h"
#include "machine/files.h"
#include "machine/host.h"
#include "node/keeper.h"
#include "node/node.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr std::string_view kHostSocket = "/node.sock";
constexpr std::string_view kPidFile = "/node.pid";
constexpr uint64_t kPidFileMax = 64;

NodeOptions node_options(const CacheFlags& flags, const std::string& socket_path) {
  NodeOptions options;
  options.socket_path = socket_path;
  options.memory_bytes = flags.memory_bytes;
  options.block_tokens = flags.block_tokens;
  options.tenant = flags.tenant;
  options.tiering.is_inclusive = !flags.exclusive;
  if (flags.watermarks) options.tiering.watermarks = *flags.watermarks;
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

Result<std::unique_ptr<OwnNode>> OwnNode::start(const CacheFlags& flags, const std::string& socket_path,
                                                bool has_keeper, Counters& counters) {
  NodeOptions options = node_options(flags, socket_path);
  const DiskOptions disk{.directory = flags.cache_dir + "/blocks",
                         .bytes = flags.disk_bytes,
                         .write_bytes_per_day = flags.disk_bytes_per_day};
  options.tier = open_disk(disk, options.tiering);
  if (has_keeper) options.keeper = keeper_at(socket_path);
  Result<std::unique_ptr<Node>> node = Node::start(std::move(options), counters);
  if (!node) return fail(node.error());
  std::string pid_path;
  if (socket_path.ends_with(kHostSocket)) {
    pid_path = socket_path.substr(0, socket_path.size() - kHostSocket.size()) + std::string(kPidFile);
    const Status written = write_file_atomically(pid_path, own_pid_line());
    if (!written) log_warning("{} cannot be written: {}", pid_path, written.error().reason);
  }
  return std::unique_ptr<OwnNode>(new OwnNode(std::move(*node), std::move(pid_path)));
}

OwnNode::OwnNode(std::unique_ptr<Node> node, std::string pid_path)
    : node_(std::move(node)), pid_path_(std::move(pid_path)) {}

OwnNode::~OwnNode() {
  // While the socket is this node's, so is the file.
  if (!pid_path_.empty() && read_text_file(pid_path_, kPidFileMax).value_or(std::string()) == own_pid_line()) {
    (void)remove_file(pid_path_);
  }
}

uint64_t OwnNode::blocks_taken_over() const {
  return node_->adoption().warm_blocks;
}

void OwnNode::flush(uint64_t wait_ns) {
  node_->store().flush(monotonic_now_ns() + wait_ns);
}

}  // namespace rhizome
