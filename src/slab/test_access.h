// For tests: a way to change the bytes of a committed slot, as a fault of the memory would.
#pragma once

#include <cstddef>
#include <span>

#include "slab/slab.h"

namespace rhizome {

class SlabTestAccess {
 public:
  // `ref` must be committed.
  static std::span<std::byte> writable(Slab& slab, SlotRef ref) {
    const Result<Pinned> pinned = slab.pin(ref);
    if (!pinned) return {};
    return {const_cast<std::byte*>(pinned->bytes().data()), pinned->bytes().size()};
  }
};

}  // namespace rhizome
