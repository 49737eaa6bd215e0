// Buffers between a tier and the slab: aligned for direct I/O, used again, and never more than a limit together. Those
// that move something come back soon. Others are lent to somebody who may keep them: never more than half of all.
//
// Thread-safety: everything here may be called from any thread; a buffer belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "concurrency/mutex.h"
#include "machine/mapping.h"

namespace rhizome {

class Staging {
 public:
  explicit Staging(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // Move-only; empty unless it came from take().
  class Buffer {
   public:
    explicit operator bool() const { return !memory_.bytes().empty(); }
    // Page-aligned; at least what was asked for.
    std::span<std::byte> bytes() const { return memory_.bytes(); }

   private:
    friend class Staging;
    Mapping memory_;
    bool is_lent_ = false;
  };

  // Empty: the limit is reached; ask again when one was given back. One buffer is always to be had when none is out but
  // lent ones.
  Buffer take(uint64_t bytes);
  // To be kept for as long as the caller likes. Empty: half of the limit is lent, or less than `left_bytes` would be
  // left for those that move, or all is out now.
  Buffer lend(uint64_t bytes, uint64_t left_bytes);
  // Nothing happens for an empty one.
  void give_back(Buffer buffer);

  uint64_t lent_bytes() const;

 private:
  // An idle one of `size` to `most` bytes, or none once `size` bytes were claimed for a new one; false: neither.
  // `others`: bytes of buffers that may be out beside one that is larger than the limit.
  bool claim(uint64_t size, uint64_t most, uint64_t others, Buffer& found, std::vector<Buffer>& leaving)
      REQUIRES(mutex_);
  Buffer make(uint64_t size) EXCLUDES(mutex_);

  const uint64_t bytes_max_;
  mutable Mutex mutex_;
  std::vector<Buffer> idle_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;  // of all buffers
  uint64_t lent_ GUARDED_BY(mutex_) = 0;   // of those that were lent
};

}  // namespace rhizome
