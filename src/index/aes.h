// AES in plain C++, for processors without its instructions, for expanding keys, and to check the others against.
//
// After FIPS 197. The substitution is computed from its definition, so that there is no table to mistype. Not hardened
// against whoever can time this process's memory accesses.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rhizome {

// The 16 bytes of a state, column after column: word i holds bytes 4 i to 4 i + 3, the lowest byte first.
using AesState = std::array<uint32_t, 4>;
using AesSchedule = std::array<AesState, 11>;

constexpr uint8_t aes_double(uint8_t x) {
  return static_cast<uint8_t>((x << 1) ^ ((x >> 7) * 0x1b));
}

constexpr std::array<uint8_t, 256> aes_substitution() {
  std::array<uint8_t, 256> box{};
  // `power` runs through all powers of 3, `inverse` through their inverses.
  uint8_t power = 1;
  uint8_t inverse = 1;
  do {
    power = static_cast<uint8_t>(power ^ aes_double(power));
    // Divided by 3: multiplied by 0xf6.
    inverse = static_cast<uint8_t>(inverse ^ (inverse << 1));
    inverse = static_cast<uint8_t>(inverse ^ (inverse << 2));
    inverse = static_cast<uint8_t>(inverse ^ (inverse << 4));
    if ((inverse & 0x80) != 0) inverse ^= 0x09;
    box[power] = static_cast<uint8_t>(inverse ^ std::rotl(inverse, 1) ^ std::rotl(inverse, 2) ^ std::rotl(inverse, 3) ^
                                      std::rotl(inverse, 4) ^ 0x63);
  } while (power != 1);
  box[0] = 0x63;
  return box;
}

inline constexpr std::array<uint8_t, 256> kAesSubstitution = aes_substitution();

// What a substituted byte of row 0 adds to its mixed column; one of row r adds the same, rotated by r bytes.
constexpr std::array<uint32_t, 256> aes_mixed() {
  std::array<uint32_t, 256> mixed{};
  for (size_t i = 0; i < mixed.size(); ++i) {
    const uint32_t once = kAesSubstitution[i];
    const uint32_t twice = aes_double(kAesSubstitution[i]);
    mixed[i] = twice | once << 8 | once << 16 | (once ^ twice) << 24;
  }
  return mixed;
}

inline constexpr std::array<uint32_t, 256> kAesMixed = aes_mixed();

constexpr uint8_t aes_byte(const AesState& state, size_t column, int row) {
  return static_cast<uint8_t>(state[(column + static_cast<size_t>(row)) % 4] >> (8 * row));
}

// One round that mixes columns: what the instruction AESENC does.
constexpr AesState aes_round(const AesState& state, const AesState& key) {
  AesState out = key;
  for (size_t column = 0; column < 4; ++column) {
    for (int row = 0; row < 4; ++row)
      out[column] ^= std::rotl(kAesMixed[aes_byte(state, column, row)], 8 * row);
  }
  return out;
}

// The last round, which does not: AESENCLAST.
constexpr AesState aes_last_round(const AesState& state, const AesState& key) {
  AesState out = key;
  for (size_t column = 0; column < 4; ++column) {
    for (int row = 0; row < 4; ++row)
      out[column] ^= uint32_t{kAesSubstitution[aes_byte(state, column, row)]} << (8 * row);
  }
  return out;
}

constexpr AesState aes_xor(const AesState& a, const AesState& b) {
  return {a[0] ^ b[0], a[1] ^ b[1], a[2] ^ b[2], a[3] ^ b[3]};
}

constexpr AesSchedule aes_expand(const AesState& key) {
  AesSchedule schedule{};
  schedule[0] = key;
  uint8_t constant = 1;
  for (size_t round = 1; round < schedule.size(); ++round) {
    const uint32_t rotated = std::rotr(schedule[round - 1][3], 8);
    uint32_t word = constant;
    for (int row = 0; row < 4; ++row)
      word ^= uint32_t{kAesSubstitution[(rotated >> (8 * row)) & 0xff]} << (8 * row);
    for (size_t column = 0; column < 4; ++column) {
      word ^= schedule[round - 1][column];
      schedule[round][column] = word;
    }
    constant = aes_double(constant);
  }
  return schedule;
}

// AES-128 of one block.
constexpr AesState aes_encrypt(const AesSchedule& schedule, const AesState& block) {
  AesState state = aes_xor(block, schedule[0]);
  for (size_t round = 1; round < 10; ++round)
    state = aes_round(state, schedule[round]);
  return aes_last_round(state, schedule[10]);
}

}  // namespace rhizome
