// Records that lie behind one another in a segment and are written with one write.
//
// Thread-safety: the tier's own thread.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "machine/mapping.h"
#include "tier/disk/disk_device.h"

namespace rhizome {

class SegmentLog;

class AppendBuffer final : public RingTask {
 public:
  enum class State : uint8_t { kFree, kFilling, kFlying };

  AppendBuffer(SegmentLog& log, Mapping memory, bool is_kept)
      : log_(log), memory_(std::move(memory)), is_kept_(is_kept) {}

  std::span<std::byte> memory() const { return memory_.bytes(); }
  State state() const { return state_; }
  bool is_kept() const { return is_kept_; }  // false: made for one long image
  uint32_t segment() const { return segment_; }
  uint64_t opened_ns() const { return opened_ns_; }
  uint64_t room() const { return memory_.bytes().size() - filled_; }

  void open(uint32_t segment, uint64_t base, uint64_t now_ns);
  // Zeroed behind what the caller writes: whole pages.
  std::span<std::byte> take(uint64_t bytes);
  // The record there; empty when it is not in here.
  std::span<const std::byte> find(uint32_t segment, uint64_t offset, uint64_t bytes) const;
  void start_write();
  void finish(bool is_ok, const Error& error) override;

 private:
  SegmentLog& log_;
  const Mapping memory_;
  const bool is_kept_;
  State state_ = State::kFree;
  uint32_t segment_ = 0;
  uint64_t base_ = 0;
  uint64_t filled_ = 0;
  uint64_t opened_ns_ = 0;
};

}  // namespace rhizome
