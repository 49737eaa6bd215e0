#include "tier/disk/append_buffer.h"

#include "contract/check.h"
#include "telemetry/log.h"
#include "tier/disk/segment_log.h"

namespace rhizome {

void AppendBuffer::open(uint32_t segment, uint64_t base, uint64_t now_ns) {
  RHIZOME_CHECK(state_ == State::kFree);
  state_ = State::kFilling;
  segment_ = segment;
  base_ = base;
  filled_ = 0;
  opened_ns_ = now_ns;
}

std::span<std::byte> AppendBuffer::take(uint64_t bytes) {
  RHIZOME_CHECK(state_ == State::kFilling && bytes <= room());
  const std::span<std::byte> taken = memory_.bytes().subspan(filled_, bytes);
  filled_ += bytes;
  return taken;
}

std::span<const std::byte> AppendBuffer::find(uint32_t segment, uint64_t offset, uint64_t bytes) const {
  if (state_ == State::kFree || segment != segment_ || offset < base_ || offset + bytes > base_ + filled_) return {};
  return memory_.bytes().subspan(offset - base_, bytes);
}

void AppendBuffer::start_write() {
  RHIZOME_CHECK(state_ == State::kFilling);
  state_ = State::kFlying;
  log_.device_.ring->submit({.tag = tag(),
                             .action = RingAction::kWrite,
                             .file = segment_,
                             .offset = base_,
                             .bytes = memory_.bytes().first(filled_)});
}

void AppendBuffer::finish(bool is_ok, const Error& error) {
  DiskDevice& device = log_.device_;
  device.count_written(filled_);
  state_ = State::kFree;
  if (is_ok) return;
  log_error("{}: the disk tier cannot write: {}", device.options.directory, error.reason);
  device.count_write_error();
  // What it held is not there, and what was there before is not either: it was replaced.
  Segment& segment = log_.segments_[segment_];
  for (uint64_t at = base_; at < base_ + filled_; at += kPageBytes) {
    SegmentEntry* const entry = segment.entries.find_page(static_cast<uint32_t>(at / kPageBytes));
    if (entry == nullptr) continue;
    device.forget(entry->key, {segment_, entry->page, entry->image_bytes});
    entry->is_removed = true;
  }
}

}  // namespace rhizome
