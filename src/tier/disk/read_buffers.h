// Memory to read into where the caller's is not as the device wants it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "contract/result.h"
#include "machine/mapping.h"

namespace rhizome {

class ReadBuffers {
 public:
  // A few of them are there from the beginning, in one region.
  Status allocate();
  std::span<std::byte> region() const { return region_.bytes(); }

  // At least so long; empty: no memory. Give it, or the head of it, back with release().
  std::span<std::byte> take(uint64_t bytes);
  void release(std::span<std::byte> buffer);

 private:
  static constexpr size_t kCount = 8;
  static constexpr size_t kBytes = (1 << 20) + (64 << 10);
  static constexpr size_t kLongKept = 4;

  Mapping region_;
  std::vector<std::span<std::byte>> free_;
  std::vector<Mapping> long_;       // in use
  std::vector<Mapping> long_free_;  // kept for the next one
};

}  // namespace rhizome
