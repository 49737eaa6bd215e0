#include "client/open_disk.h"

#include <utility>

#include "machine/thread.h"
#include "telemetry/log.h"
#include "tier/disk/disk_tier.h"

namespace rhizome {
namespace {

constexpr uint64_t kSecondsPerDay = 86400;
constexpr uint32_t kLockTries = 30;
constexpr uint64_t kLockPauseNs = 100'000'000;

}  // namespace

std::unique_ptr<Tier> open_disk(const DiskOptions& disk, TieringOptions& tiering) {
  if (disk.bytes == 0) return nullptr;
  const uint64_t bytes_per_second = disk.write_bytes_per_day == 0 ? 0 : disk.write_bytes_per_day / kSecondsPerDay + 1;
  const DiskTierOptions chosen{.directory = disk.directory,
                               .bytes_max = disk.bytes,
                               .write_bytes_per_second = bytes_per_second,
                               .clock = tiering.clock};
  Result<std::unique_ptr<DiskTier>> tier = DiskTier::open(chosen);
  // Who was killed may not be gone yet: its memory takes the kernel a while.
  for (uint32_t tries = 0; !tier && tier.error().code == Code::kAlreadyExists && tries < kLockTries; ++tries) {
    pause_thread(kLockPauseNs);
    tier = DiskTier::open(chosen);
  }
  if (!tier && tier.error().code == Code::kAlreadyExists) {
    log_warning("another process keeps blocks in {}: this one goes on without a disk", disk.directory);
    return nullptr;
  }
  if (!tier) {
    log_error("no blocks are kept on disk: {} in {}", tier.error().reason, disk.directory);
    return nullptr;
  }
  tiering.admission.bytes_per_second = bytes_per_second;
  return std::move(*tier);
}

}  // namespace rhizome
