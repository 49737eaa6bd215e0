// Sizes and durations as people write them.
//
// Thread-safety: pure functions. Whatever is not understood, negative or too large for 64 bits is
// kInvalidArgument.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "contract/result.h"

namespace rhizome {

// A decimal number, perhaps with a fraction, and a unit, perhaps with one space between: B, KiB, MiB, GiB, TiB
// (1024) or KB, MB, GB, TB (1000), in any case of letters. A number without a unit is refused.
Result<uint64_t> parse_bytes(std::string_view text);
// The same, but a whole number without a unit counts bytes.
Result<uint64_t> parse_bytes_or_plain(std::string_view text);
// "64MiB", "1.5GiB", "512B": rounded to one digit behind the point.
std::string format_bytes(uint64_t bytes);
// "1 block", "2 blocks": of a noun whose plural ends like that.
std::string format_count(uint64_t count, std::string_view noun);

// A number and one of ns, us, ms, s, m, h, d.
Result<uint64_t> parse_duration_ns(std::string_view text);
// "250ms", "1.5s", "2h".
std::string format_duration(uint64_t duration_ns);

}  // namespace rhizome
