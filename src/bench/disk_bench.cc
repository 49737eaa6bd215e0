#include <array>
#include <iostream>
#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/disk_cases.h"
#include "bench/run_folder.h"
#include "telemetry/log.h"

namespace rhizome::bench {
namespace {

constexpr const char* kBenchName = "disk";

constexpr std::array kCases = {
    DiskCase{"reads", "images of 1 MiB, many at once, beside the same reads of a plain file", run_disk_reads},
    DiskCase{"writes", "images of 1 MiB in a log that goes round, beside appends of 4 MiB to a plain file",
             run_disk_writes},
    DiskCase{"recovery", "what is in a sealed segment, beside reading its footer", run_disk_recovery},
    DiskCase{"verify", "checking a record that was read, beside a pass that reads it", run_disk_verify},
};

}  // namespace

std::span<const DiskCase> disk_cases() {
  return kCases;
}

const DiskCase* find_disk_case(std::string_view name) {
  for (const DiskCase& one : kCases)
    if (one.name == name) return &one;
  return nullptr;
}

std::vector<CaseText> disk_case_texts() {
  std::vector<CaseText> texts;
  for (const DiskCase& one : kCases)
    texts.push_back({one.name, one.what});
  return texts;
}

int run_disk_bench(const BenchOptions& options) {
  std::vector<const DiskCase*> cases;
  for (const std::string& name : options.cases)
    cases.push_back(find_disk_case(name));
  if (cases.empty()) {
    for (const DiskCase& one : kCases)
      cases.push_back(&one);
  }
  Progress progress("rhizome bench");
  Report report(options.json ? nullptr : &std::cout, is_colored(), !options.quick);
  bool all_measured = true;
  for (const DiskCase* one : cases) {
    const RunFolder folder;
    if (!folder.is_there()) {
      std::cerr << "rhizome bench: no folder to measure in can be made in " << folder.path() << "\n";
      return kBenchFailed;
    }
    set_log_level(LogLevel::kWarning);
    DiskStage stage{options.quick, progress, report, folder.path()};
    const Status measured = one->run(stage);
    progress.pause();
    if (measured) continue;
    all_measured = false;
    std::cerr << "rhizome bench: " << one->name << ": " << measured.error().reason << "\n";
  }
  report.print_figures();
  if (options.json) std::cout << report.json(kBenchName, machine_facts()) << "\n" << std::flush;
  return all_measured && !report.failed() ? 0 : kBenchFailed;
}

}  // namespace rhizome::bench
