// What `rhizome bench index` can measure: an index beside others, in one process, on the same work.
//
// Thread-safety: one thread at a time; cases start and join threads of their own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "bench/progress.h"
#include "bench/report.h"
#include "bench/token_source.h"
#include "contract/result.h"

namespace rhizome::bench {

// What all cases share in one run.
struct IndexStage {
  const std::string program;  // the traces that come with it lie beside it
  const bool quick;
  Progress& progress;
  Report& report;
  const TokenSource tokens{0x5eed};

  // Speeds are medians over so many interleaved rounds.
  uint32_t rounds() const { return 5; }
};

struct IndexCase {
  std::string_view name;
  std::string_view what;
  Status (*run)(IndexStage&);
};

std::span<const IndexCase> index_cases();

Status run_index_shared(IndexStage& stage);
Status run_index_random(IndexStage& stage);
Status run_index_single(IndexStage& stage);
Status run_index_append(IndexStage& stage);
Status run_index_trace(IndexStage& stage);
Status run_index_prehashed(IndexStage& stage);
Status run_index_memory(IndexStage& stage);
Status run_index_kernels(IndexStage& stage);

// Figures made of others; to be called when all cases have run.
void derive_index_figures(Report& report);

}  // namespace rhizome::bench
