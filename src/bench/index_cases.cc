#include "bench/index_cases.h"

#include <array>
#include <optional>

namespace rhizome::bench {
namespace {

constexpr std::array kCases = {
    IndexCase{"shared", "8,192 tokens that all agents share and 1,024 of their own: look up, come and go",
              run_index_shared},
    IndexCase{"random", "sequences of 2,048 tokens that share nothing", run_index_random},
    IndexCase{"single", "sequences of one block", run_index_single},
    IndexCase{"append", "sequences that grow by a block at a time, as an answer does", run_index_append},
    IndexCase{"trace", "Mooncake's conversation trace, 48 M tokens held, 64 requests in flight", run_index_trace},
    IndexCase{"prehashed", "the same trace with hashes given, as a router has them; also with removal by hash",
              run_index_prehashed},
    IndexCase{"memory", "what a block takes, in runs of 64, 16 and 1", run_index_memory},
    IndexCase{"kernels", "hashes of a block's tokens, and one dependent load from memory", run_index_kernels},
};

// Sets `name` to over / under when both were measured.
void derive(Report& report, const std::string& name, const std::string& over, const std::string& under) {
  const std::optional<double> above = report.figure_value(over);
  const std::optional<double> below = report.figure_value(under);
  if (above && below) report.figure(name, *above / *below);
}

}  // namespace

std::span<const IndexCase> index_cases() {
  return kCases;
}

void derive_index_figures(Report& report) {
  for (const std::string policy : {"", "exact_"}) {
    derive(report, "ratio_" + policy + "evict_batch64_over_lock_tree", policy + "evict_batch64_ns",
           "evict_lock_tree_ns");
    derive(report, "ratio_" + policy + "miss_first_block_over_memory_load", policy + "miss_first_block_ns",
           "memory_load_ns");
  }
}

}  // namespace rhizome::bench
