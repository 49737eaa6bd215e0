// The thread of a disk tier: takes requests, does them, waits for the ring.
//
// Thread-safety: where it says so; everything else is the thread's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "concurrency/mutex.h"
#include "machine/mapping.h"
#include "machine/thread.h"
#include "tier/disk/disk_device.h"
#include "tier/disk/disk_queue.h"
#include "tier/disk/disk_tier.h"
#include "tier/disk/read_buffers.h"
#include "tier/disk/segment_log.h"

namespace rhizome {

class DiskTier::Worker {
 public:
  explicit Worker(const DiskTierOptions& options);
  ~Worker();

  Status open();

  // Any thread.
  DiskQueue& queue() { return queue_; }
  DiskDevice& device() { return device_; }
  void wake();
  Status flush(uint64_t wait_ns);
  uint64_t image_bytes_max() const { return image_bytes_max_; }
  DiskUsage disk_usage() const;

 private:
  class Read;
  class Sync;
  enum class FlushStep : uint8_t { kNone, kBuffers, kSync, kSeals };

  void run(const std::stop_token& stop);
  void begin_requests();
  void begin_reads();
  void begin(const TierRequest& request);
  void begin_read(const TierRequest& request, const RecordPlace& place);
  void end(const TierRequest& request, TierOutcome outcome, uint64_t bytes = 0, uint64_t offset = 0, Error error = {});
  // False: not now, and the request still waits.
  bool try_write();
  bool is_flushing() const { return flush_step_ != FlushStep::kNone; }
  void follow_flush();
  void end_flush(const Status& status);
  void drain();
  void collect(uint64_t wait_ns);

  DiskDevice device_;
  DiskQueue queue_;
  std::unique_ptr<SegmentLog> log_;
  ReadBuffers read_buffers_;
  uint64_t image_bytes_max_ = 0;
  uint64_t left_alone_ = 0;
  uint64_t recovered_images_ = 0;
  uint64_t recovery_ns_ = 0;
  uint64_t read_bytes_under_way_ = 0;
  bool is_draining_ = false;
  std::optional<TierRequest> waiting_write_;  // begun, and there was no room for it
  std::unique_ptr<Sync> sync_;
  FlushStep flush_step_ = FlushStep::kNone;
  uint64_t flush_serving_ = 0;  // the last flush() that is being served
  std::atomic<bool> is_sleeping_{false};

  Mutex flush_mutex_;
  CondVar flush_changed_;
  uint64_t flush_wanted_ GUARDED_BY(flush_mutex_) = 0;
  uint64_t flush_done_ GUARDED_BY(flush_mutex_) = 0;
  Status flush_status_ GUARDED_BY(flush_mutex_);
  std::atomic<bool> is_flush_wanted_{false};

  Thread thread_;  // the last: it uses all of the above
};

}  // namespace rhizome
