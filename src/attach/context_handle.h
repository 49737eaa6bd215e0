// What names a context that is handed over, and what its publisher says of it.
//
// Thread-safety: plain values.
#pragma once

#include <cstdint>

namespace rhizome {

// 128 random bits. Who has them may adopt the context; nobody can guess them. All zero: none.
struct ContextHandle {
  uint64_t high = 0;
  uint64_t low = 0;

  friend bool operator==(const ContextHandle&, const ContextHandle&) = default;
};

// The numbers are part of the protocol.
enum class ContextUse : uint8_t {
  kFork = 0,  // any number may adopt it; the handle stays
  kMove = 1,  // one may, and the handle is gone
};
inline constexpr int kContextUsesCount = 2;

struct ContextTerms {
  ContextUse use = ContextUse::kFork;
  uint64_t lifetime_ns = 60'000'000'000;  // of the handle; at most ten minutes
  // False: the handle ends with its publisher's session, too.
  bool outlives_publisher = false;

  friend bool operator==(const ContextTerms&, const ContextTerms&) = default;
};

}  // namespace rhizome
