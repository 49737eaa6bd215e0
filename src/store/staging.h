// Buffers between a tier and the slab: aligned for direct I/O, used again, and never more than a limit together.
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
  };

  // Empty: the limit is reached; ask again when one was given back. One buffer is always to be had when none is out.
  Buffer take(uint64_t bytes);
  // Nothing happens for an empty one.
  void give_back(Buffer buffer);

 private:
  const uint64_t bytes_max_;
  Mutex mutex_;
  std::vector<Buffer> idle_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;  // of all buffers
};

}  // namespace rhizome
