#include "block/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace rhizome {

uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace rhizome
