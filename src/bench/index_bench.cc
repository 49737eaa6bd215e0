#include <iostream>
#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/index_cases.h"
#include "bench/local_cases.h"

namespace rhizome::bench {
namespace {

constexpr const char* kBenchName = "index";

}  // namespace

std::vector<CaseText> index_case_texts() {
  return case_texts(index_cases());
}

int run_index_bench(const BenchOptions& options) {
  const std::vector<const IndexCase*> cases = chosen_cases(index_cases(), options.cases);
  Progress progress("rhizome bench");
  Report report(options.json ? nullptr : &std::cout, is_colored(), !options.quick);
  IndexStage stage{options.program, options.quick, progress, report};
  bool all_measured = true;
  for (const IndexCase* one : cases)
    all_measured = run_case(*one, stage) && all_measured;
  derive_index_figures(report);
  return end_of_run(report, options, kBenchName, all_measured);
}

}  // namespace rhizome::bench
