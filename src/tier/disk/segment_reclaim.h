// Makes a segment ready to be written: a free one, or the oldest sealed one. Of the images of that one, those that were
// read since they were written are written again into the open segment, a quarter of a segment at most; the rest is
// forgotten. When nobody reads in it any more it gets a new generation.
//
// Thread-safety: the tier's own thread.
#pragma once

#include <cstdint>
#include <vector>

#include "machine/mapping.h"
#include "tier/disk/disk_device.h"

namespace rhizome {

class SegmentLog;

class SegmentReclaim final : public RingTask {
 public:
  explicit SegmentReclaim(SegmentLog& log) : log_(log) {}

  // Goes on where it can; begins when there is no spare and one will be needed.
  void work();
  bool is_idle() const { return step_ == Step::kIdle; }
  bool is_waiting_for_device() const { return is_flying_; }
  void finish(bool is_ok, const Error& error) override;

 private:
  enum class Step : uint8_t { kIdle, kKeeping, kDraining, kHeader, kHeaderSync };
  struct Kept {
    BlockKey key;
    RecordPlace place;
    uint32_t reads = 0;
  };

  bool begin();
  void choose_kept();
  void read_next();
  void finish_read(bool is_ok);
  void forget_rest();
  void write_header();

  SegmentLog& log_;
  Step step_ = Step::kIdle;
  bool is_flying_ = false;
  uint32_t segment_ = 0;
  std::vector<Kept> kept_;  // still to be read, the last one first
  Mapping memory_;
};

}  // namespace rhizome
