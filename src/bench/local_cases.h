// What benchmarks that measure in this process have in common: which cases run, what is said when one cannot be
// measured, and how a run ends. A case has a `name`, a `what`, and a `run` that takes the benchmark's stage.
//
// Thread-safety: one call at a time.
#pragma once

#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "contract/check.h"
#include "contract/result.h"

namespace rhizome::bench {

template <class Case>
std::vector<CaseText> case_texts(std::span<const Case> cases) {
  std::vector<CaseText> texts;
  for (const Case& one : cases)
    texts.push_back({one.name, one.what});
  return texts;
}

// Those that were named, which there must be; all when none was.
template <class Case>
std::vector<const Case*> chosen_cases(std::span<const Case> cases, const std::vector<std::string>& names) {
  std::vector<const Case*> chosen;
  for (const Case& one : cases) {
    if (names.empty()) chosen.push_back(&one);
  }
  for (const std::string& name : names) {
    const size_t before = chosen.size();
    for (const Case& one : cases) {
      if (one.name == name) chosen.push_back(&one);
    }
    RHIZOME_CHECK(chosen.size() == before + 1);
  }
  return chosen;
}

// False when it could not be measured, which standard error then says.
template <class Case, class Stage>
bool run_case(const Case& one, Stage& stage) {
  const Status measured = one.run(stage);
  stage.progress.pause();
  if (!measured) std::cerr << "rhizome bench: " << one.name << ": " << measured.error().reason << "\n";
  return measured.has_value();
}

// Figures, the line of JSON, and the exit status.
inline int end_of_run(Report& report, const BenchOptions& options, std::string_view bench, bool all_measured) {
  report.print_figures();
  if (options.json) std::cout << report.json(bench, machine_facts()) << "\n" << std::flush;
  return all_measured && !report.failed() ? 0 : kBenchFailed;
}

}  // namespace rhizome::bench
