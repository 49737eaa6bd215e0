// A tier on a disk: images in a log of segments, so that they outlive the process (docs/disk.md).
//
// A write is done once its image is in an append buffer: from then on it is read from there, and a little later from
// the device; it survives the end of the process once the buffer was written (flush_after_ns at most), and a loss of
// power once its segment was sealed. What cannot be written after all is forgotten, and collect_forgotten() tells. A
// removal holds for this process: after a restart an image that was removed may be found again.
//
// Rule: what is read was written under its key, whole, or it is not read. What the device does to it is noticed when it
// is read: kFailed with kDataLoss, and the record is forgotten.
//
// Thread-safety: as Tier; the rest any thread, except where it says otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "block/block_key.h"
#include "block/token.h"
#include "contract/result.h"
#include "machine/clock.h"
#include "machine/file_ring.h"
#include "machine/file_system.h"
#include "tier/disk/disk_health.h"
#include "tier/disk/record.h"
#include "tier/tier.h"

namespace rhizome {

struct DiskTierOptions {
  std::string directory = {};
  uint64_t bytes_max = uint64_t{20} << 30;       // of all segments
  uint64_t segment_bytes = uint64_t{256} << 20;  // less where bytes_max is small, or segments are there already
  uint64_t append_bytes = 4 << 20;
  uint64_t flush_after_ns = 200'000'000;
  uint64_t write_bytes_per_second = 0;  // of the device; 0: no limit
  size_t requests_max = 256;
  size_t read_bytes_in_flight_max = 8 << 20;
  RingKind ring = RingKind::kAuto;
  // Where the callers' buffers mostly lie: registered with the kernel, if it can be. Outlives the tier.
  std::vector<std::span<std::byte>> caller_memory = {};
  FileSystem* files = nullptr;  // nullptr: the real ones; outlives the tier
  Clock* clock = nullptr;       // nullptr: the real one; outlives the tier
  RecordChecks checks = {};     // for tests that plant a bug
};

struct DiskUsage {
  uint64_t segments = 0;
  uint64_t segment_bytes = 0;
  uint64_t segments_left_alone = 0;                            // of another version, or what is no file of ours
  uint64_t read_bytes = 0;                                     // from the device
  uint64_t written_bytes = 0;                                  // to the device: records, footers, headers
  std::array<uint64_t, kRecordChecksCount> verify_failures{};  // by RecordCheck
  uint64_t reclaimed_segments = 0;
  uint64_t reclaimed_images = 0;  // forgotten because their segment was needed
  uint64_t reinserted_images = 0;
  uint64_t reinserted_bytes = 0;
  uint64_t read_errors = 0;
  uint64_t write_errors = 0;
  uint64_t refused_by_budget = 0;
  uint64_t recovered_images = 0;
  uint64_t recovery_ns = 0;
  DiskMode mode = DiskMode::kGood;
};

class DiskTier final : public Tier {
 public:
  // Makes the directory (mode 0700) and allocates all files (mode 0600). kAlreadyExists: a living process has it, and
  // the caller goes on without. kResourceExhausted: no room for bytes_max. kInvalidArgument: bytes_max is below 64 KiB.
  static Result<std::unique_ptr<DiskTier>> open(const DiskTierOptions& options);

  // Writes what is in the append buffer, and the footer of the open segment.
  ~DiskTier() override;

  std::string_view name() const override { return "disk"; }
  uint64_t read_room_bytes(uint64_t image_bytes) const override { return record_bytes(image_bytes); }
  size_t submit(std::span<const TierRequest> requests) override;
  size_t collect(std::span<TierCompletion> out, uint64_t wait_ns) override;
  bool cancel(uint64_t tag) override;
  TierUsage usage() const override;

  DiskUsage disk_usage() const;
  RingKind ring_kind() const;
  // The longest image that can be kept.
  uint64_t image_bytes_max() const;
  bool contains(const BlockKey& key) const;

  // Everything that was written by now is on the device and synced when it returns. kUnavailable when the device has
  // failed; kDeadlineExceeded.
  Status flush(uint64_t wait_ns = 30'000'000'000);

  // Keys that were forgotten and not by kRemove: reclaimed, damaged, never written.
  size_t collect_forgotten(std::span<BlockKey> out);
  size_t collect_forgotten(std::span<BlockKey> out, bool& is_complete) override {
    is_complete = !forgotten_overflowed();
    return collect_forgotten(out);
  }
  void settle(uint64_t wait_ns) override { static_cast<void>(flush(wait_ns)); }
  bool verifies_reads() const override { return true; }
  // True once after there were more than could be listed: then only contains() tells.
  bool forgotten_overflowed();

  // The keyspaces of what was found.
  std::vector<Digest> recovered_keyspaces() const;
  // All blocks of one keyspace that were found and are still there, parents before children; a block is left out when
  // its parent is, when its key is not that of its parent and tokens, or its position not the one behind its parent.
  void for_each_recovered(const Digest& keyspace, const std::function<void(const RecoveredBlock&)>& take) override;
  void forget_recovered(const Digest& keyspace) override;
  // The keyspace goes first that was written to longest ago; of the last one what lies farthest from a prompt's
  // beginning. With 0 nothing is recovered any more.
  void bound_recovered(uint64_t bytes_max) override;
  uint64_t recovered_bytes() const override;

 private:
  class Worker;
  explicit DiskTier(std::unique_ptr<Worker> worker);

  const std::unique_ptr<Worker> worker_;
};

}  // namespace rhizome
