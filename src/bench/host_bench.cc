#include <array>
#include <iostream>
#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/host_cases.h"
#include "bench/local_cases.h"
#include "bench/run_folder.h"
#include "telemetry/log.h"

namespace rhizome::bench {
namespace {

constexpr const char* kBenchName = "host";

constexpr std::array kCases = {
    HostCase{"lookups", "look-ups in the memory of another process, beside those in one's own and over a socket",
             run_host_lookups},
    HostCase{"recency", "what is used from another process stays as long as what is used in one's own",
             run_host_recency},
    HostCase{"hits", "hits of a process that may make no system call", run_host_hits},
    HostCase{"pointers", "a pointer to a block of 1 MiB, beside a copy of it from another process", run_host_pointers},
    HostCase{"stores", "blocks of 1 MiB written by another process, beside memcpy", run_host_stores},
    HostCase{"memory", "what two processes take that read the same blocks, beside one", run_host_memory},
    HostCase{"restart", "what is warm when a node was killed and started again", run_host_restart},
    HostCase{"kills", "clients and nodes that are killed before, inside and after each verb", run_host_kills},
    HostCase{"flood", "hits of one process while another one floods the node", run_host_flood},
    HostCase{"engines", "llama-servers that share what they compute", run_host_engines},
};

}  // namespace

Result<std::unique_ptr<HostNode>> HostNode::start(const HostStage& stage, const HostShape& shape,
                                                  uint64_t memory_bytes) {
  auto made = std::unique_ptr<HostNode>(new HostNode(shape, stage.folder + "/node.sock"));
  Result<std::unique_ptr<Node>> node = Node::start(
      {.socket_path = made->socket_, .memory_bytes = memory_bytes, .block_tokens = kHostBlockTokens}, *made->counters_);
  if (!node) return fail(node.error());
  made->node_ = std::move(*node);
  const Result<Root> root = made->store().open(bench_keyspace(), shape.geometry());
  if (!root) return fail(root.error());
  made->root_ = *root;
  return made;
}

std::vector<CaseText> host_case_texts() {
  return case_texts(std::span<const HostCase>(kCases));
}

int run_host_bench(const BenchOptions& options) {
  if (is_host_part()) return run_host_part();
  const std::vector<const HostCase*> cases = chosen_cases(std::span<const HostCase>(kCases), options.cases);
  set_log_level(LogLevel::kWarning);
  Progress progress("rhizome bench");
  Report report(options.json ? nullptr : &std::cout, is_colored(), !options.quick);
  bool all_measured = true;
  for (const HostCase* one : cases) {
    const RunFolder folder;
    if (!folder.is_there()) {
      std::cerr << "rhizome bench: no folder to measure in can be made in " << folder.path() << "\n";
      return kBenchFailed;
    }
    HostStage stage{options.quick, progress, report, options.program, folder.path()};
    all_measured = run_case(*one, stage) && all_measured;
  }
  return end_of_run(report, options, kBenchName, all_measured);
}

}  // namespace rhizome::bench
