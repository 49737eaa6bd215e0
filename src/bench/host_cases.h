// What `rhizome bench host` can measure: a node and other processes that share its memory.
//
// Thread-safety: one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "bench/host_part.h"
#include "bench/host_work.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "contract/result.h"
#include "node/node.h"
#include "telemetry/counters.h"

namespace rhizome::bench {

struct HostStage {
  const bool quick;
  Progress& progress;
  Report& report;
  const std::string program;  // of this process
  const std::string folder;   // of this run: whatever lies in it is removed at the end
};

struct HostCase {
  std::string_view name;
  std::string_view what;
  Status (*run)(HostStage&);
};

// A node in this process, and how to store in it without a client.
class HostNode {
 public:
  static Result<std::unique_ptr<HostNode>> start(const HostStage& stage, const HostShape& shape, uint64_t memory_bytes);

  Store& store() { return node_->store(); }
  Root root() const { return root_; }
  uint64_t evictions() const { return counters_->get(Counter::kEvictions); }
  uint64_t blocks() const { return counters_->get(Counter::kBlocksStored); }
  const std::string& socket() const { return socket_; }
  Result<uint64_t> put(uint64_t first, uint32_t count) { return store_agents(store(), root_, prompts_, first, count); }
  Result<std::unique_ptr<HostPart>> start_part(const HostStage& stage, uint64_t staging_bytes = 0) const {
    return HostPart::start(stage.program, stage.folder, socket_,
                           {.shape = prompts_.shape(), .staging_bytes = staging_bytes});
  }

 private:
  HostNode(const HostShape& shape, std::string socket)
      : socket_(std::move(socket)), counters_(Counters::local()), prompts_(shape) {}

  const std::string socket_;
  const std::unique_ptr<Counters> counters_;
  HostPrompts prompts_;
  std::unique_ptr<Node> node_;
  Root root_;
};

Status run_host_lookups(HostStage& stage);
Status run_host_recency(HostStage& stage);
Status run_host_hits(HostStage& stage);
Status run_host_pointers(HostStage& stage);
Status run_host_stores(HostStage& stage);
Status run_host_memory(HostStage& stage);
Status run_host_flood(HostStage& stage);
Status run_host_engines(HostStage& stage);
Status run_host_kills(HostStage& stage);
Status run_host_restart(HostStage& stage);

}  // namespace rhizome::bench
