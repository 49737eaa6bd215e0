// Text as people write it, for what depends on how a model reads: some 2,200 tokens of it.
//
// Thread-safety: constant.
#pragma once

#include <string_view>

namespace rhizome::bench {

std::string_view prose();

}  // namespace rhizome::bench
