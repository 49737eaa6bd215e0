// Copies past the caches, compiled for one instruction set each: all leave the same bytes.
//
// They stand in files of their own, so that nothing else is compiled for a processor that may be absent.
//
// Thread-safety: pure functions of memory that is the caller's.
#pragma once

#include <cstddef>
#include <span>

namespace rhizome {

struct CopyVariant {
  const char* name = "";
  void (*copy)(std::byte* to, const std::byte* from, size_t size) = nullptr;
};

// Those that this processor can run, the slowest first; the first runs everywhere and goes through the caches.
std::span<const CopyVariant> copy_variants();

#if defined(__x86_64__)
// Only for processors that have the instructions. The stores are seen by others in the order of those that follow.
void copy_avx2(std::byte* to, const std::byte* from, size_t size);
void copy_avx512(std::byte* to, const std::byte* from, size_t size);
#endif

}  // namespace rhizome
