// The part that is a node.
#include <memory>
#include <utility>

#include "bench/host_control.h"
#include "machine/files.h"
#include "machine/host.h"
#include "node/node.h"
#include "telemetry/counters.h"
#include "tier/memory_tier.h"

namespace rhizome::bench {
namespace {

HostUsage usage_of(Node& node) {
  const SlabUsage slab = node.store().slab_usage();
  const IndexUsage index = node.store().index_usage();
  const BlockCounts blocks = node.store().block_counts();
  HostUsage usage{.blocks = index.blocks, .bytes = slab.stored_bytes, .clients = node.clients_count()};
  usage.held = slab.pinned_bytes + slab.reserved_slots + slab.doomed_slots + index.withheld_blocks + blocks.pinned +
               (slab.committed_slots > blocks.resident ? slab.committed_slots - blocks.resident
                                                       : blocks.resident - slab.committed_slots);
  if (const auto open = list_directory("/proc/self/fd")) usage.descriptors = open->size();
  return usage;
}

}  // namespace

std::string keeper_socket(const std::string& node_socket) {
  return node_socket + ".keeper";
}

int run_node_part(HostControl& control, const HostBeginning& beginning) {
  const auto counters = Counters::local();
  NodeOptions options{.socket_path = beginning.node_socket.data(),
                      .memory_bytes = beginning.memory_bytes,
                      .block_tokens = kHostBlockTokens};
  if (beginning.tier_bytes > 0) {
    options.tier = std::make_unique<MemoryTier>(MemoryTierOptions{.bytes_max = beginning.tier_bytes});
    options.tiering.admission.unused_wait_ns = 0;
  }
  const Result<std::string> program = own_executable_path();
  if (beginning.has_keeper && program) {
    const std::string keeper = keeper_socket(beginning.node_socket.data());
    options.keeper = {.socket_path = keeper, .command = {*program, "keeper", keeper}};
  }
  Result<std::unique_ptr<Node>> node = Node::start(std::move(options), *counters);
  if (!node) return 1;
  if (const Status sent = control.send_plain(HostTally()); !sent) return 1;
  for (;;) {
    const auto order = control.receive_plain<HostOrder>(UINT64_MAX / 4);
    if (!order) return order.error().code == Code::kUnavailable ? 0 : 1;
    if (order->verb == HostVerb::kClear) static_cast<void>((*node)->store().clear());
    if (const Status sent = control.send_plain(usage_of(**node)); !sent) return 1;
  }
}

}  // namespace rhizome::bench
