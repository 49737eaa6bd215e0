// A node in this process, from the cache flags: its memory, its disk, its place in the runtime directory.
//
// Thread-safety: everything here may be called from any thread; destroyed by one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/cache_flags.h"
#include "contract/result.h"
#include "machine/supervisor.h"
#include "telemetry/counters.h"

namespace rhizome {

class Node;

// Where this host's node of a user listens; the number of its process is in node.pid beside it.
std::string host_socket(const std::string& runtime_directory);
// Where the node listens that this process keeps for its own engine alone.
std::string private_socket(const std::string& runtime_directory);

enum class NodeRole : uint8_t {
  kPrivate,  // of one engine: nobody looks for it once it has ended
  kHost,     // of a call that serves or runs something: when it ends, one of those that use it takes its place
  kDaemon,   // the host's, too, and will be started again when it ends
};

class OwnNode {
 public:
  // Errors as Node::start(). kAlreadyExists: another node is there, or about to be. At the host's socket, also node.pid
  // is written. Unless it is private its memory outlives it by a while, for the next node at that socket
  // (node/keeper.h), or is held by the supervisor of the service, where that holds descriptors.
  // `counters` must outlive the node. Several tenants count for themselves, and there is their sum, as of the last
  // publish_counters().
  static Result<std::unique_ptr<OwnNode>> start(const CacheFlags& flags, const std::string& socket_path, NodeRole role,
                                                Counters& counters, Supervision supervision = {});
  // Ends the sessions of its clients; takes the socket and node.pid away.
  ~OwnNode();
  OwnNode(const OwnNode&) = delete;
  OwnNode& operator=(const OwnNode&) = delete;

  // Blocks that were in the memory of a node before it.
  uint64_t blocks_taken_over() const;

  // Writes to the tiers what is worth it, and waits for it at most that long.
  void flush(uint64_t wait_ns);
  void publish_counters();

 private:
  OwnNode(Counters& counters, std::vector<std::unique_ptr<Counters>> of_tenants, std::vector<std::string> tenants);

  Counters& counters_;
  const std::vector<std::unique_ptr<Counters>> of_tenants_;  // none where there is one tenant
  const std::vector<std::string> tenants_;
  std::unique_ptr<Node> node_;
  std::string pid_path_;  // empty: there is none
};

}  // namespace rhizome
