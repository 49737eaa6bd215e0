// The log: images go into append buffers, buffers into the open segment, segments get their footer, and the oldest one
// is made ready to be written again.
//
// Thread-safety: the tier's own thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "machine/mapping.h"
#include "tier/disk/append_buffer.h"
#include "tier/disk/disk_device.h"
#include "tier/disk/segment.h"
#include "tier/disk/segment_pool.h"
#include "tier/disk/segment_reclaim.h"
#include "tier/disk/segment_seal.h"

namespace rhizome {

enum class AppendResult : uint8_t { kDone, kBusy, kRefused };

class SegmentLog {
 public:
  SegmentLog(DiskDevice& device, SegmentPool pool);
  ~SegmentLog();

  // Called once, before anything else and before the ring is there: files and memory for it.
  Status allocate_buffers();
  void add_to(RingOptions& options) const;

  // kBusy: not now; what it waits for is under way.
  AppendResult append(const BlockKey& key, std::span<const std::byte> image);
  // As append(), of an image that is in the log already; false where it would need a segment more.
  bool append_again(const BlockKey& key, std::span<const std::byte> image);
  // The record, when it has not been written yet; empty otherwise.
  std::span<const std::byte> find_in_buffers(const RecordPlace& place) const;
  // No footer shall name it.
  void remove(const RecordPlace& place);

  // What is due. Then the time until something is, UINT64_MAX: nothing.
  uint64_t work(uint64_t now_ns);
  void flush_buffer();      // begins to
  void close();             // begins to write all that is not, and to seal
  bool is_written() const;  // no buffer holds anything
  // Nor is anything else under way that was begun.
  bool is_settled() const;

  Segment& segment(uint32_t place) { return segments_[place]; }
  size_t segments_count() const { return segments_.size(); }
  uint64_t segment_bytes() const { return segment_bytes_; }
  uint64_t image_bytes_max() const;
  // kNoSegment: none is.
  uint32_t open_segment() const { return open_; }

 private:
  friend class AppendBuffer;
  friend class SegmentSeal;
  friend class SegmentReclaim;

  bool fits(const Segment& segment, uint64_t bytes, const ImageIdentity* identity) const;
  bool open_spare();
  void leave_open(bool can_go_on);
  AppendBuffer* buffer_for(uint64_t bytes);
  void put(Segment& segment, AppendBuffer& buffer, const BlockKey& key, std::span<const std::byte> image,
           const ImageIdentity* identity);
  bool can_prepare() const;

  DiskDevice& device_;
  std::vector<Segment> segments_;
  const uint64_t segment_bytes_;
  uint64_t next_lsn_;
  uint64_t next_generation_;
  uint32_t open_ = kNoSegment;
  uint32_t spare_ = kNoSegment;
  bool is_closing_ = false;
  std::vector<std::unique_ptr<AppendBuffer>> buffers_;
  AppendBuffer* filling_ = nullptr;
  std::vector<std::unique_ptr<SegmentSeal>> seals_;
  SegmentReclaim reclaim_;
};

}  // namespace rhizome
