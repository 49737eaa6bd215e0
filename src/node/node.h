// A node: who owns the memory that the processes of a machine share. Clients (client/client.h) come on its socket, are
// let in if they belong to the same user and tenant, and get the index, the directory and the chunks of its store to
// map read-only (docs/host.md). They look up and read by themselves; what they write into their staging memory, the
// node copies, checksums and commits.
//
// A node may serve several tenants. Each has a domain: a store of its own with its own budget, index, chunks and
// counters. A client belongs to the domain of the tenant that it names in its hello, gets that one's memory and no
// other's, and cannot even name what is in another one: all numbers that it sends are looked up in its own domain.
//
// Nothing that a client does can change a committed block or stop the others: its requests are answered one at a time
// and in turn, without waiting for anything, its commits by a thread of their own (commit_ring.h), and what makes no
// sense ends its session.
//
// Thread-safety: everything here may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contract/result.h"
#include "node/keeper.h"
#include "store/store.h"
#include "store/tiering_options.h"
#include "telemetry/counters.h"
#include "tier/tier.h"

namespace rhizome {

// What one tenant has of a node.
struct DomainOptions {
  std::string tenant = {};
  uint64_t memory_bytes = 0;             // hard budget of the store
  std::unique_ptr<Tier> tier = nullptr;  // below memory; null: there is none
  TieringOptions tiering = {};
  Counters* counters = nullptr;  // outlive the node; null: nobody reads them
};

struct NodeOptions {
  std::string socket_path;
  // The first domain: as DomainOptions, with the counters that start() is given.
  uint64_t memory_bytes = 0;
  uint32_t block_tokens = 16;
  std::unique_ptr<Tier> tier = nullptr;
  TieringOptions tiering = {};
  std::string tenant = {};
  std::vector<DomainOptions> domains = {};  // further ones
  // Where the next node gets this one's memory when it was killed; without a path there is none.
  KeeperOptions keeper = {};
  // How fast blocks are copied out of what a former node has left, while nobody needs the room.
  uint64_t moved_bytes_per_second = 200 << 20;
  // Its clients are told that it will be there again, so that none of them takes its place.
  bool comes_back = false;
  uint32_t clients_max = 256;
  uint64_t staging_bytes_max = 1ull << 30;  // of one client
  bool takes_commits_by_ring = true;        // false: over the socket alone, by the node's thread
  // What one client may keep from others, in blocks that it uses and in memory that it should have unmapped; who does
  // so for longer than the grace time is told, and its session ends. 0: as much as its domain has.
  uint64_t pinned_bytes_max = 0;
  uint64_t pinned_grace_ns = 10'000'000'000;
  // Who connects and does not say hello keeps a client's place no longer than that.
  uint64_t hello_wait_ns = 10'000'000'000;
};

class Node {
 public:
  // Errors of the stores and of LocalListener::listen(); kInvalidArgument: a tenant that comes twice, or whose name is
  // too long. `counters` must outlive the node.
  static Result<std::unique_ptr<Node>> start(NodeOptions options, Counters& counters);
  // Ends all sessions; the clients go on reading what they have mapped, and compute the rest. The keeper ends, too:
  // what is stopped in good order leaves nothing.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Of the first domain.
  Store& store();
  // Null: no such tenant.
  Store* store_of(std::string_view tenant);
  uint32_t clients_count() const;
  // Sessions that ended because of NodeOptions::pinned_bytes_max.
  uint64_t over_quota_count() const;
  // Of a former node's memory, gone but for what clients have mapped of it, once for each client; as of the last look.
  uint64_t retired_bytes() const;
  // Of all domains, when the node started.
  Adoption adoption() const;

 private:
  class Loop;
  explicit Node(std::unique_ptr<Loop> loop);

  const std::unique_ptr<Loop> loop_;
};

}  // namespace rhizome
