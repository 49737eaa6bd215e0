// XXH3-64 compiled for one instruction set each: all give the same number for the same bytes.
//
// Debian's xxHash is compiled for what every x86-64 processor has, which reads half as fast as what most have.
// The variants stand in files of their own, so that nothing else is compiled for a processor that may be absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rhizome {

// On a state of ChecksumStream::kStateBytes, at a multiple of 64, all zeros at first.
struct ChecksumParts {
  void (*begin)(void* state) = nullptr;
  void (*add)(void* state, const void* bytes, size_t size) = nullptr;
  uint64_t (*sum)(const void* state) = nullptr;
};

struct ChecksumVariant {
  const char* name = "";
  uint64_t (*of)(const void* bytes, size_t size) = nullptr;
  ChecksumParts parts = {};
};

// Those that this processor can run, the slowest first; the first runs everywhere.
std::span<const ChecksumVariant> checksum_variants();

#if defined(__x86_64__)
// Only for processors that have the instructions.
uint64_t checksum_avx2(const void* bytes, size_t size);
uint64_t checksum_avx512(const void* bytes, size_t size);
const ChecksumParts& checksum_parts_avx2();
const ChecksumParts& checksum_parts_avx512();
#endif

}  // namespace rhizome
