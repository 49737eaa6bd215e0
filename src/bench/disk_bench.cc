#include <array>
#include <iostream>
#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/disk_cases.h"
#include "bench/local_cases.h"
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

std::vector<CaseText> disk_case_texts() {
  return case_texts(std::span<const DiskCase>(kCases));
}

int run_disk_bench(const BenchOptions& options) {
  const std::vector<const DiskCase*> cases = chosen_cases(std::span<const DiskCase>(kCases), options.cases);
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
    all_measured = run_case(*one, stage) && all_measured;
  }
  return end_of_run(report, options, kBenchName, all_measured);
}

}  // namespace rhizome::bench
