// Entropy of the kernel. Seeded generators for tests are the standard library's.
//
// Thread-safety: may be called from any thread. A kernel that has no entropy aborts the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rhizome {

void fill_random(std::span<std::byte> out);
uint64_t random_u64();

}  // namespace rhizome
