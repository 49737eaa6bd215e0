#include "bench/text.h"

#include <cmath>
#include <iomanip>
#include <sstream>

namespace rhizome::bench {

std::string with_commas(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3; at -= 3)
    digits.insert(at - 3, 1, ',');
  return digits;
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  std::ostringstream out;
  out << std::fixed << std::setprecision(decimals) << value;
  return out.str();
}

std::string milliseconds(double seconds) {
  return with_commas(static_cast<uint64_t>(std::lround(seconds * 1e3))) + " ms";
}

}  // namespace rhizome::bench
