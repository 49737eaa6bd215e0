#include "bench/xxh3.h"

namespace rhizome::bench {
namespace {

uint64_t xxh3_64_anywhere(const void* bytes, size_t size) {
  return XXH3_64bits(bytes, size);
}

XXH128_hash_t xxh3_128_anywhere(const void* bytes, size_t size) {
  return XXH3_128bits(bytes, size);
}

Xxh3Kernels fastest_kernels() {
#if defined(__x86_64__)
  // These ask the operating system too: it must save the wider registers.
  if (__builtin_cpu_supports("avx512f")) return {xxh3_64_avx512, xxh3_128_avx512};
  if (__builtin_cpu_supports("avx2")) return {xxh3_64_avx2, xxh3_128_avx2};
#endif
  return {xxh3_64_anywhere, xxh3_128_anywhere};
}

}  // namespace

const Xxh3Kernels kXxh3Kernels = fastest_kernels();

}  // namespace rhizome::bench
