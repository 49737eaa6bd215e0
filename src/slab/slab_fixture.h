// What the tests of the slab stand on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "slab/slab.h"

namespace rhizome {

constexpr uint64_t kMiB = 1 << 20;

inline std::unique_ptr<Slab> make_slab(uint64_t budget_bytes, uint64_t overhead_bytes = 0, bool shareable = false) {
  Result<std::unique_ptr<Slab>> slab =
      Slab::create({.budget_bytes = budget_bytes, .overhead_bytes = overhead_bytes, .shareable = shareable});
  EXPECT_TRUE(slab);
  return std::move(*slab);
}

// A committed slot full of `fill`, which is its checksum too; the default SlotRef when there is no room.
inline SlotRef store(Slab& slab, uint64_t bytes, int fill, uint32_t tenant = 0) {
  Result<Reserved> reserved = slab.reserve(bytes, tenant);
  if (!reserved) return {};
  std::memset(reserved->bytes().data(), fill, reserved->bytes().size());
  return slab.commit(std::move(*reserved), static_cast<uint64_t>(fill));
}

inline std::vector<SlotRef> fill_up(Slab& slab, uint64_t bytes, int fill, uint32_t tenant = 0) {
  std::vector<SlotRef> refs;
  for (SlotRef ref = store(slab, bytes, fill, tenant); ref != SlotRef{}; ref = store(slab, bytes, fill, tenant))
    refs.push_back(ref);
  return refs;
}

inline bool all_bytes_are(std::span<const std::byte> bytes, int fill) {
  return std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == static_cast<std::byte>(fill); });
}

// Nothing is left, and what was taken of the budget has come back.
inline void expect_drained(Slab& slab) {
  slab.trim();
  const SlabUsage usage = slab.usage();
  EXPECT_EQ(usage.chunks, 0u);
  EXPECT_EQ(usage.stored_bytes, 0u);
  EXPECT_EQ(usage.pinned_bytes, 0u);
  EXPECT_EQ(usage.reserved_slots + usage.committed_slots + usage.doomed_slots, 0u);
}

}  // namespace rhizome
