#include <iostream>
#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/index_cases.h"

namespace rhizome::bench {
namespace {

constexpr const char* kBenchName = "index";

bool run_cases(IndexStage& stage, const std::vector<const IndexCase*>& cases) {
  bool all_measured = true;
  for (const IndexCase* one : cases) {
    const Status measured = one->run(stage);
    stage.progress.pause();
    if (measured) continue;
    all_measured = false;
    std::cerr << "rhizome bench: " << one->name << ": " << measured.error().reason << "\n";
  }
  return all_measured;
}

}  // namespace

std::vector<CaseText> index_case_texts() {
  std::vector<CaseText> texts;
  for (const IndexCase& one : index_cases())
    texts.push_back({one.name, one.what});
  return texts;
}

int run_index_bench(const BenchOptions& options) {
  std::vector<const IndexCase*> cases;
  for (const std::string& name : options.cases)
    cases.push_back(find_index_case(name));
  if (cases.empty()) {
    for (const IndexCase& one : index_cases())
      cases.push_back(&one);
  }
  Progress progress("rhizome bench");
  Report report(options.json ? nullptr : &std::cout, is_colored(), !options.quick);
  IndexStage stage{options.program, options.quick, progress, report};
  const bool all_measured = run_cases(stage, cases);
  derive_index_figures(report);
  report.print_figures();
  if (options.json) std::cout << report.json(kBenchName, machine_facts()) << "\n" << std::flush;
  return all_measured && !report.failed() ? 0 : kBenchFailed;
}

}  // namespace rhizome::bench
