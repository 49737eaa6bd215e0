// How far the device can be trusted, and how much may be written to it.
//
// Thread-safety: each belongs to one thread; DiskHealth::mode() may be asked from anywhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>

namespace rhizome {

enum class DiskMode : uint8_t {
  kGood,
  kReadOnly,  // a write failed, or too many reads did: writes are refused
  kOffline,   // reads go on failing: everything is missing
};

// A device that fails once in a while loses what it failed at; one that fails often is left alone. There is no way back
// but to open the store again.
class DiskHealth {
 public:
  DiskMode mode() const { return mode_.load(std::memory_order_relaxed); }
  void count_read_error(uint64_t now_ns);
  void count_write_error();

 private:
  static constexpr size_t kErrorsMax = 8;
  static constexpr uint64_t kWindowNs = 60'000'000'000;

  std::atomic<DiskMode> mode_{DiskMode::kGood};
  std::deque<uint64_t> errors_ns_;  // of reads, within the window
};

// Bytes that may be written to the device, so many a second; five minutes of them can be saved up.
class WriteBudget {
 public:
  // 0: no limit.
  WriteBudget(uint64_t bytes_per_second, uint64_t now_ns);

  // Whether so many may be written now. What is spent may go below nothing: a footer has to be written.
  bool allows(uint64_t bytes, uint64_t now_ns);
  void spend(uint64_t bytes) { left_ -= static_cast<double>(bytes); }

 private:
  static constexpr double kDepthSeconds = 300;

  const double bytes_per_second_;
  double left_;
  uint64_t filled_ns_;
};

}  // namespace rhizome
