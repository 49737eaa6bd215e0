// XXH3-64 (xxHash 0.8) over bytes in memory: finds damage, proves nothing about an adversary.
//
// Thread-safety: checksum() may be called from any thread; a ChecksumStream belongs to one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rhizome {

uint64_t checksum(std::span<const std::byte> bytes);

struct ChecksumParts;

// The same number for bytes that come one part after the other.
class ChecksumStream {
 public:
  static constexpr size_t kStateBytes = 576;

  ChecksumStream();
  void add(std::span<const std::byte> bytes);
  // checksum() of all that was added.
  uint64_t sum() const;

 private:
  alignas(64) std::array<std::byte, kStateBytes> state_{};
  const ChecksumParts& parts_;
};

}  // namespace rhizome
