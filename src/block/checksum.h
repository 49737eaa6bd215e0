// XXH3-64 (xxHash 0.8) over bytes in memory: finds damage, proves nothing about an adversary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rhizome {

uint64_t checksum(std::span<const std::byte> bytes);

}  // namespace rhizome
