// Text that was compressed with zstd.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "contract/result.h"

namespace rhizome::bench {

bool is_zstd(std::span<const std::byte> bytes);

// kDataLoss: damaged or cut off. kResourceExhausted: more than `limit_bytes`.
Result<std::string> unpack_zstd(std::span<const std::byte> bytes, uint64_t limit_bytes);

}  // namespace rhizome::bench
