#include "bench/xxh3.h"

#if defined(__x86_64__)
#if XXH_VECTOR != XXH_AVX512
#error "this file is not compiled for the instructions that it is named after"
#endif

namespace rhizome::bench {

uint64_t xxh3_64_avx512(const void* bytes, size_t size) {
  return XXH3_64bits(bytes, size);
}

XXH128_hash_t xxh3_128_avx512(const void* bytes, size_t size) {
  return XXH3_128bits(bytes, size);
}

}  // namespace rhizome::bench
#endif
