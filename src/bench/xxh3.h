// XXH3 (xxHash 0.8) of a block's tokens, as fast as this processor has it: what indexes that hash are measured with.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rhizome::bench {

// For more bytes than XXH3 treats specially it reads them in vectors; up to there the code is the same everywhere.
inline constexpr size_t kXxh3ShortBytes = 240;

struct Xxh3Kernels {
  uint64_t (*of64)(const void* bytes, size_t size) = nullptr;
  XXH128_hash_t (*of128)(const void* bytes, size_t size) = nullptr;
};

// The fastest that this processor runs.
extern const Xxh3Kernels kXxh3Kernels;

inline uint64_t xxh3_64(const void* bytes, size_t size) {
  return size <= kXxh3ShortBytes ? XXH3_64bits(bytes, size) : kXxh3Kernels.of64(bytes, size);
}

inline XXH128_hash_t xxh3_128(const void* bytes, size_t size) {
  return size <= kXxh3ShortBytes ? XXH3_128bits(bytes, size) : kXxh3Kernels.of128(bytes, size);
}

#if defined(__x86_64__)
// Only for processors that have the instructions.
uint64_t xxh3_64_avx2(const void* bytes, size_t size);
XXH128_hash_t xxh3_128_avx2(const void* bytes, size_t size);
uint64_t xxh3_64_avx512(const void* bytes, size_t size);
XXH128_hash_t xxh3_128_avx512(const void* bytes, size_t size);
#endif

}  // namespace rhizome::bench
