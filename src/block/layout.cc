#include "block/layout.h"

#include <cmath>

#include "block/little_endian.h"
#include "contract/check.h"

namespace rhizome {

uint64_t Layout::payload_bytes() const {
  uint64_t total = 0;
  for (const LayoutPart& part : parts) {
    uint64_t bytes = 0;
    RHIZOME_CHECK(!__builtin_mul_overflow(part.row_bytes, static_cast<uint64_t>(block_tokens), &bytes));
    RHIZOME_CHECK(!__builtin_add_overflow(total, bytes, &total));
  }
  return total;
}

std::vector<std::byte> Layout::encoding() const {
  std::vector<std::byte> out;
  append_little(out, block_tokens);
  append_little(out, static_cast<uint32_t>(parts.size()));
  for (const LayoutPart& part : parts) {
    append_little(out, static_cast<uint8_t>(part.kind));
    append_little(out, part.window);
    append_little(out, part.transposed);
    append_little(out, uint8_t{0});
    append_little(out, part.layer);
    append_little(out, part.element_type);
    append_little(out, part.row_bytes);
  }
  return out;
}

uint64_t kv_bytes_per_token(uint32_t layers, uint32_t kv_heads, uint32_t key_width, uint32_t value_width, double bits) {
  const double elements = static_cast<double>(layers) * kv_heads * (static_cast<double>(key_width) + value_width);
  return static_cast<uint64_t>(std::ceil(elements * bits / 8));
}

}  // namespace rhizome
