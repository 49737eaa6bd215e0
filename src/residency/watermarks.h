// How full memory may become before blocks leave it for a tier, and how full it is afterwards.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rhizome {

// Percent of what blocks can have. They leave when more than `high` is full, until less than `low` is.
struct Watermarks {
  uint32_t high = 0;
  uint32_t low = 0;
  friend bool operator==(Watermarks, Watermarks) = default;
};

// "90:70". Nothing unless both are whole numbers and 0 < low < high <= 100.
std::optional<Watermarks> parse_watermarks(std::string_view text);

}  // namespace rhizome
