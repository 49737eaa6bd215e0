#include <bit>
#include <cstddef>
#include <cstring>

#include "index/aes.h"
#include "index/kernel_variants.h"

namespace rhizome {
namespace {

static_assert(std::endian::native == std::endian::little, "states are copied as they lie in memory");

AesState load_state(const std::byte* at) {
  AesState state;
  std::memcpy(&state, at, sizeof state);
  return state;
}

uint64_t fingerprint_block(const FingerprintKey& key, const std::byte* block, size_t block_bytes) {
  const AesState lane_keys[4] = {
      load_state(key.lane_keys[0]), load_state(key.lane_keys[1]), load_state(key.lane_keys[2]), {}};
  AesState sum = {};
  for (size_t stripe = 0; stripe * 64 < block_bytes; ++stripe) {
    std::byte padded[64] = {};
    const size_t left = block_bytes - stripe * 64;
    std::memcpy(padded, block + stripe * 64, left < 64 ? left : 64);
    for (size_t lane = 0; lane < 64; lane += 16) {
      AesState state = aes_xor(load_state(padded + lane), load_state(key.masks[stripe] + lane));
      for (const AesState& lane_key : lane_keys)
        state = aes_round(state, lane_key);
      sum = aes_xor(sum, state);
    }
  }
  AesSchedule schedule;
  std::memcpy(&schedule, key.last_keys, sizeof schedule);
  const AesState last = aes_encrypt(schedule, sum);
  return uint64_t{last[1]} << 32 | last[0];
}

// Bytes, since tokens need not lie where tokens usually do.
const std::byte* bytes_of(const void* at) {
  return static_cast<const std::byte*>(at);
}

void fingerprint(const FingerprintKey& key, const Token* tokens, uint32_t blocks, uint32_t block_tokens,
                 uint64_t* out) {
  const size_t block_bytes = size_t{block_tokens} * sizeof(Token);
  for (size_t block = 0; block < blocks; ++block) {
    const uint64_t value = fingerprint_block(key, bytes_of(tokens) + block * block_bytes, block_bytes);
    std::memcpy(static_cast<void*>(out + block), &value, sizeof value);
  }
}

uint32_t match_fingerprints(const FingerprintKey& key, const uint64_t* stored, const Token* tokens, uint32_t blocks,
                            uint32_t block_tokens) {
  const size_t block_bytes = size_t{block_tokens} * sizeof(Token);
  for (uint32_t block = 0; block < blocks; ++block) {
    const uint64_t value = fingerprint_block(key, bytes_of(tokens) + block * block_bytes, block_bytes);
    if (std::memcmp(bytes_of(stored + block), &value, sizeof value) != 0) return block;
  }
  return blocks;
}

// How many units of `unit_bytes`, from the first, are equal.
uint32_t match_units(const void* stored, const void* given, uint32_t units, size_t unit_bytes) {
  // Calls of memcmp() for a unit each would take longer than it does for many.
  const size_t step = unit_bytes < 256 ? 256 / unit_bytes : 1;
  size_t unit = 0;
  const auto equal = [&](size_t count) {
    return std::memcmp(bytes_of(stored) + unit * unit_bytes, bytes_of(given) + unit * unit_bytes, count * unit_bytes) ==
           0;
  };
  while (unit + step <= units && equal(step))
    unit += step;
  while (unit < units && equal(1))
    ++unit;
  return static_cast<uint32_t>(unit);
}

uint32_t match_tokens(const Token* stored, const Token* tokens, uint32_t blocks, uint32_t block_tokens) {
  return match_units(stored, tokens, blocks, size_t{block_tokens} * sizeof(Token));
}

uint32_t match_words(const uint64_t* stored, const uint64_t* words, uint32_t blocks) {
  return match_units(stored, words, blocks, sizeof(uint64_t));
}

}  // namespace

const KernelFunctions kPortableKernels = {fingerprint, match_fingerprints, match_tokens, match_words};

}  // namespace rhizome
