// Integers as little-endian bytes, the byte order of every encoding of this layer.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace rhizome {

static_assert(std::endian::native == std::endian::little, "integers are copied as they lie in memory");

// `at` must have room for it.
template <std::unsigned_integral T>
void store_little(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

template <std::unsigned_integral T>
T load_little(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <std::unsigned_integral T>
void append_little(std::vector<std::byte>& out, T value) {
  // g++ 12 at -O3 takes a range insert here for one that overflows.
  for (const std::byte byte : std::as_bytes(std::span(&value, 1)))
    out.push_back(byte);
}

}  // namespace rhizome
