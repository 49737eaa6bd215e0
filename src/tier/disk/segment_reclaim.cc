#include "tier/disk/segment_reclaim.h"

#include <algorithm>

#include "contract/check.h"
#include "telemetry/log.h"
#include "tier/disk/segment_header.h"
#include "tier/disk/segment_log.h"

namespace rhizome {
namespace {

constexpr uint64_t kKeptPart = 4;  // of a segment: one in so many bytes

}  // namespace

void SegmentReclaim::work() {
  if (is_flying_) return;
  if (log_.device_.health.mode() != DiskMode::kGood || log_.is_closing_) return;
  if (step_ == Step::kIdle && !begin()) return;
  if (step_ == Step::kKeeping) read_next();
  if (step_ == Step::kDraining && log_.segments_[segment_].readers == 0) write_header();
}

bool SegmentReclaim::begin() {
  if (log_.spare_ != kNoSegment) return false;
  std::vector<Segment>& segments = log_.segments_;
  const auto free = std::find_if(segments.begin(), segments.end(),
                                 [](const Segment& one) { return one.state == SegmentState::kFree; });
  if (free != segments.end()) {
    segment_ = static_cast<uint32_t>(free - segments.begin());
    free->state = SegmentState::kPreparing;
    step_ = Step::kDraining;
    return true;
  }
  // Nothing is forgotten before there is a need to.
  if (log_.open_ != kNoSegment && segments[log_.open_].data_end < log_.segment_bytes_ / 2) return false;
  Segment* oldest = nullptr;
  for (Segment& one : segments) {
    if (one.state == SegmentState::kSealed && (oldest == nullptr || one.sealed_lsn < oldest->sealed_lsn)) oldest = &one;
  }
  if (oldest == nullptr) return false;
  oldest->state = SegmentState::kReclaiming;
  segment_ = static_cast<uint32_t>(oldest - segments.data());
  step_ = Step::kKeeping;
  choose_kept();
  return true;
}

void SegmentReclaim::choose_kept() {
  kept_.clear();
  for (const BlockKey& key : log_.segments_[segment_].keys) {
    const std::optional<RecordPlace> place = log_.device_.index.find(key);
    const std::optional<uint32_t> reads = log_.device_.index.reads(key, segment_);
    if (place && reads && *reads > 0) kept_.push_back({key, *place, *reads});
  }
  std::stable_sort(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.reads > b.reads; });
  uint64_t bytes = 0;
  const auto end = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) {
    bytes += record_bytes(one.place.image_bytes);
    return bytes > log_.segment_bytes_ / kKeptPart;
  });
  kept_.erase(end, kept_.end());
  // Parents were written before their children, and stay so.
  std::sort(kept_.begin(), kept_.end(), [](const Kept& a, const Kept& b) { return a.place.page > b.place.page; });
}

void SegmentReclaim::read_next() {
  if (kept_.empty()) {
    forget_rest();
    step_ = Step::kDraining;
    return;
  }
  const uint64_t bytes = record_bytes(kept_.back().place.image_bytes);
  if (memory_.bytes().size() < bytes) {
    Result<Mapping> memory = Mapping::anonymous(bytes);
    if (!memory) {
      kept_.clear();
      return;
    }
    memory_ = std::move(*memory);
  }
  is_flying_ = true;
  log_.device_.ring->submit({.tag = tag(),
                             .action = RingAction::kRead,
                             .file = segment_,
                             .offset = kept_.back().place.page * kPageBytes,
                             .bytes = memory_.bytes().first(bytes)});
}

void SegmentReclaim::finish_read(bool is_ok) {
  DiskDevice& device = log_.device_;
  const Kept kept = kept_.back();
  kept_.pop_back();
  const uint64_t bytes = record_bytes(kept.place.image_bytes);
  DiskCounts::add(device.counts.read_bytes, bytes);
  if (!is_ok) {
    device.count_read_error();
    return device.forget(kept.key, kept.place);
  }
  const Segment& segment = log_.segments_[segment_];
  const RecordHead expected{.segment = segment.number,
                            .generation = segment.generation,
                            .lsn = 0,
                            .key = kept.key,
                            .image_bytes = kept.place.image_bytes,
                            .image_checksum = 0};
  const std::span<const std::byte> record = memory_.bytes().first(bytes);
  if (const auto failed = check_record(record, expected, device.options.checks)) {
    DiskCounts::add(device.counts.verify_failures[static_cast<size_t>(*failed)]);
    return device.forget(kept.key, kept.place);
  }
  // Written or removed meanwhile.
  if (device.index.find(kept.key) != kept.place) return;
  if (!log_.append_again(kept.key, record.subspan(kRecordHeadBytes, kept.place.image_bytes))) return kept_.clear();
  DiskCounts::add(device.counts.reinserted_images);
  DiskCounts::add(device.counts.reinserted_bytes, bytes);
}

void SegmentReclaim::forget_rest() {
  DiskDevice& device = log_.device_;
  Segment& segment = log_.segments_[segment_];
  for (const BlockKey& key : segment.keys) {
    const std::optional<RecordPlace> place = device.index.find(key);
    if (!place || place->segment != segment_) continue;
    device.forget(key, *place);
    DiskCounts::add(device.counts.reclaimed_images);
  }
  segment.keys.clear();
  segment.state = SegmentState::kPreparing;
  DiskCounts::add(device.counts.reclaimed_segments);
}

void SegmentReclaim::write_header() {
  if (memory_.bytes().size() < kPageBytes) {
    Result<Mapping> memory = Mapping::anonymous(kPageBytes);
    if (!memory) return;
    memory_ = std::move(*memory);
  }
  Segment& segment = log_.segments_[segment_];
  segment.generation = log_.next_generation_++;
  const std::span<std::byte> page = memory_.bytes().first(kPageBytes);
  write_segment_header({.version = kDiskFormatVersion,
                        .segment = segment.number,
                        .generation = segment.generation,
                        .segment_bytes = log_.segment_bytes_},
                       page);
  step_ = Step::kHeader;
  is_flying_ = true;
  log_.device_.ring->submit({.tag = tag(), .action = RingAction::kWrite, .file = segment_, .offset = 0, .bytes = page});
}

void SegmentReclaim::finish(bool is_ok, const Error& error) {
  DiskDevice& device = log_.device_;
  is_flying_ = false;
  if (step_ == Step::kKeeping) return finish_read(is_ok);
  Segment& segment = log_.segments_[segment_];
  if (!is_ok) {
    log_error("{}: the disk tier cannot make a segment ready: {}", device.options.directory, error.reason);
    device.count_write_error();
    segment.state = SegmentState::kBroken;
    step_ = Step::kIdle;
    return;
  }
  if (step_ == Step::kHeader) {
    device.count_written(kPageBytes);
    step_ = Step::kHeaderSync;
    is_flying_ = true;
    device.ring->submit({.tag = tag(), .action = RingAction::kSync, .file = segment_, .offset = 0, .bytes = {}});
    return;
  }
  segment.state = SegmentState::kSpare;
  log_.spare_ = segment_;
  step_ = Step::kIdle;
}

}  // namespace rhizome
