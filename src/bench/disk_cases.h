// What `rhizome bench disk` can measure: the disk tier beside a plain file.
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "bench/progress.h"
#include "bench/report.h"
#include "contract/result.h"

namespace rhizome::bench {

struct DiskStage {
  const bool quick;
  Progress& progress;
  Report& report;
  const std::string folder;  // of this run: whatever lies in it is removed at the end
};

struct DiskCase {
  std::string_view name;
  std::string_view what;
  Status (*run)(DiskStage&);
};

Status run_disk_reads(DiskStage& stage);
Status run_disk_writes(DiskStage& stage);
Status run_disk_recovery(DiskStage& stage);
Status run_disk_verify(DiskStage& stage);

}  // namespace rhizome::bench
