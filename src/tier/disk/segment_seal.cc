#include "tier/disk/segment_seal.h"

#include "telemetry/log.h"
#include "tier/disk/segment_log.h"

namespace rhizome {

void SegmentSeal::work() {
  if (step_ != Step::kBuffers) return;
  for (const auto& buffer : log_.buffers_)
    if (buffer->state() != AppendBuffer::State::kFree && buffer->segment() == segment_) return;
  // After a failed write nothing more is written: the records that are there can still be read.
  if (log_.device_.health.mode() != DiskMode::kGood) return give_up();
  submit(Step::kData);
}

void SegmentSeal::submit(Step step) {
  step_ = step;
  RingOperation operation{.tag = tag(), .action = RingAction::kSync, .file = segment_, .offset = 0, .bytes = {}};
  if (step == Step::kFooter) {
    operation.action = RingAction::kWrite;
    operation.offset = log_.segment_bytes_ - footer_.bytes().size();
    operation.bytes = footer_.bytes();
  }
  log_.device_.ring->submit(operation);
}

void SegmentSeal::finish(bool is_ok, const Error& error) {
  DiskDevice& device = log_.device_;
  Segment& segment = log_.segments_[segment_];
  if (!is_ok) {
    log_error("{}: the disk tier cannot seal a segment: {}", device.options.directory, error.reason);
    device.count_write_error();
    return give_up();
  }
  if (step_ == Step::kData) {
    Result<Mapping> memory = Mapping::anonymous(segment.entries.footer_bytes());
    if (!memory) return give_up();
    footer_ = std::move(*memory);
    segment.entries.write_footer(segment.number, segment.generation, segment.data_end, can_go_on_, footer_.bytes());
    return submit(Step::kFooter);
  }
  if (step_ == Step::kFooter) {
    device.count_written(footer_.bytes().size());
    return submit(Step::kFooterSync);
  }
  segment.state = SegmentState::kSealed;
  segment.entries = {};
  step_ = Step::kDone;
}

void SegmentSeal::give_up() {
  log_.segments_[segment_].state = SegmentState::kBroken;
  step_ = Step::kDone;
}

}  // namespace rhizome
