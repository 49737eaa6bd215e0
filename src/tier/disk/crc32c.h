// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of the few bytes of a header.
//
// Thread-safety: a pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rhizome {

uint32_t crc32c(std::span<const std::byte> bytes);

}  // namespace rhizome
