#include "tier/disk/crc32c.h"

#include <array>

namespace rhizome {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value & 1) != 0 ? value >> 1 ^ kPolynomial : value >> 1;
    table[i] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = make_table();

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t value = ~uint32_t{0};
  for (const std::byte byte : bytes)
    value = kTable[(value ^ std::to_integer<uint32_t>(byte)) & 0xff] ^ value >> 8;
  return ~value;
}

}  // namespace rhizome
