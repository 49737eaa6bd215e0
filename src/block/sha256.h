// SHA-256 (FIPS 180-4) by OpenSSL's libcrypto: digests of keyspaces, block keys, weights.
//
// Thread-safety: Sha256 belongs to one thread at a time; sha256() may be called from anywhere.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace rhizome {

using Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  Digest finish();  // once; then the object may only be destroyed

 private:
  // The library's own context, kept in place: a digest allocates nothing.
  alignas(8) std::array<std::byte, 112> context_;
};

Digest sha256(std::span<const std::byte> bytes);

// The first `bytes_count` bytes in lower-case hexadecimal.
std::string hex(const Digest& digest, size_t bytes_count = 32);

}  // namespace rhizome
