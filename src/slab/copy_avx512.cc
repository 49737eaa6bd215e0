#include "slab/copy_variants.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "slab/copy_loop.h"

namespace rhizome {

void copy_avx512(std::byte* to, const std::byte* from, size_t size) {
  copy_by_lines(to, from, size, [](std::byte* line, const std::byte* source) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(line), _mm512_loadu_si512(source));
  });
  _mm_sfence();  // such stores are ordered by nothing else, a commit's release included
}

}  // namespace rhizome
#endif
