#include "slab/copy_variants.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "slab/copy_loop.h"

namespace rhizome {

void copy_avx2(std::byte* to, const std::byte* from, size_t size) {
  copy_by_lines(to, from, size, [](std::byte* line, const std::byte* source) {
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source) + 1);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(line), low);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(line) + 1, high);
  });
  _mm_sfence();  // such stores are ordered by nothing else, a commit's release included
}

}  // namespace rhizome
#endif
