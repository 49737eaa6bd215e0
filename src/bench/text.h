// Numbers as people read them in a table.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>

namespace rhizome::bench {

// "31,093"
std::string with_commas(uint64_t value);
// "0.040" for (0.0401, 3).
std::string fixed(double value, int decimals);
// "145 ms"
std::string milliseconds(double seconds);

}  // namespace rhizome::bench
