// Seals a segment: its data is synced, the footer written, and synced.
//
// Thread-safety: the tier's own thread.
#pragma once

#include <cstdint>

#include "machine/mapping.h"
#include "tier/disk/disk_device.h"

namespace rhizome {

class SegmentLog;

class SegmentSeal final : public RingTask {
 public:
  SegmentSeal(SegmentLog& log, uint32_t segment, bool can_go_on)
      : log_(log), segment_(segment), can_go_on_(can_go_on) {}

  // Goes on where it can: it begins when all buffers of the segment are written.
  void work();
  bool is_done() const { return step_ == Step::kDone; }
  void finish(bool is_ok, const Error& error) override;

 private:
  enum class Step : uint8_t { kBuffers, kData, kFooter, kFooterSync, kDone };

  void submit(Step step);
  void give_up();

  SegmentLog& log_;
  const uint32_t segment_;
  const bool can_go_on_;  // it is not full
  Step step_ = Step::kBuffers;
  Mapping footer_;
};

}  // namespace rhizome
