#include "block/checksum_variants.h"

#if defined(__x86_64__)
#define XXH_INLINE_ALL
#include <xxhash.h>

#if XXH_VECTOR != XXH_AVX512
#error "this file is not compiled for the instructions that it is named after"
#endif

#include "block/checksum_parts.h"

namespace rhizome {

uint64_t checksum_avx512(const void* bytes, size_t size) {
  return XXH3_64bits(bytes, size);
}

const ChecksumParts& checksum_parts_avx512() {
  return kParts;
}

}  // namespace rhizome
#endif
