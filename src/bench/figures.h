// The figures by name, and what each of them must hold on the full model.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace rhizome::bench {

struct Bound {
  std::string_view figure;
  std::optional<double> at_least;
  std::optional<double> at_most;
};

// Null for a figure that is only reported.
const Bound* find_bound(std::string_view figure);
bool holds(const Bound& bound, double value);

}  // namespace rhizome::bench
