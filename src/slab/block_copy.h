// The one function by which the bytes of blocks are copied in memory. It counts, so that a path that copies nothing can
// show it.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rhizome {

// Both have one size, and do not overlap. Copies of more than 256 KiB go past the processor's caches: whoever reads the
// bytes next is mostly not this processor soon, and a line that is written whole need not be read first.
void copy_block_bytes(std::span<std::byte> to, std::span<const std::byte> from);

// What copy_block_bytes() has copied in this process.
uint64_t copied_block_bytes();
// The same, by the calling thread.
uint64_t block_bytes_copied_here();

}  // namespace rhizome
