// What the parts of a disk tier share: files, clock, ring, index, counts.
//
// Thread-safety: what has no comment belongs to the tier's own thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "machine/clock.h"
#include "machine/file_ring.h"
#include "machine/file_system.h"
#include "tier/disk/disk_health.h"
#include "tier/disk/disk_index.h"
#include "tier/disk/disk_tier.h"
#include "tier/disk/forgotten_keys.h"
#include "tier/disk/recovered_blocks.h"

namespace rhizome {

// What waits for an operation of the ring, which calls it when it has ended.
class RingTask {
 public:
  virtual void finish(bool is_ok, const Error& error) = 0;

  uint64_t tag() { return reinterpret_cast<uint64_t>(this); }
  static RingTask& of(uint64_t tag) { return *reinterpret_cast<RingTask*>(tag); }

 protected:
  ~RingTask() = default;
};

// Any thread.
struct DiskCounts {
  using Count = std::atomic<uint64_t>;

  Count read_bytes{0};
  Count written_bytes{0};
  std::array<Count, kRecordChecksCount> verify_failures{};
  Count reclaimed_segments{0};
  Count reclaimed_images{0};
  Count reinserted_images{0};
  Count reinserted_bytes{0};
  Count read_errors{0};
  Count write_errors{0};
  Count refused_by_budget{0};

  static void add(Count& count, uint64_t value = 1) { count.fetch_add(value, std::memory_order_relaxed); }
};

struct DiskDevice {
  explicit DiskDevice(const DiskTierOptions& given)
      : options(given),
        files(given.files != nullptr ? *given.files : real_file_system()),
        clock(given.clock != nullptr ? *given.clock : real_clock()),
        budget(given.write_bytes_per_second, clock.monotonic_ns()) {}

  void count_read_error() {
    DiskCounts::add(counts.read_errors);
    health.count_read_error(clock.monotonic_ns());
  }
  void count_write_error() {
    DiskCounts::add(counts.write_errors);
    health.count_write_error();
  }
  void count_written(uint64_t bytes) {
    DiskCounts::add(counts.written_bytes, bytes);
    budget.spend(bytes);
  }
  // The record is of no use any more.
  void forget(const BlockKey& key, const RecordPlace& place) {
    if (index.erase(key, place)) forgotten.add(key);
  }

  const DiskTierOptions options;
  FileSystem& files;
  const Clock& clock;
  std::unique_ptr<DirectoryLock> lock;
  std::unique_ptr<FileRing> ring;
  DiskHealth health;
  WriteBudget budget;
  DiskCounts counts;          // any thread
  DiskIndex index;            // any thread
  ForgottenKeys forgotten;    // any thread
  RecoveredBlocks recovered;  // any thread
};

}  // namespace rhizome
