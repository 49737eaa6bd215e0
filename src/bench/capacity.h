// How large a cache is, as a person types it: "10000" blocks, or "5%" of the distinct blocks of the trace.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "contract/result.h"

namespace rhizome::bench {

// At least one block. kInvalidArgument: `wrong` says what the text must be.
Result<uint32_t> parse_capacity(std::string_view text, uint32_t distinct_blocks, std::string& wrong);

}  // namespace rhizome::bench
