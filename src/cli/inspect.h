// `rhizome inspect`: what is in a directory of the disk tier, in one of its segments, or in an image of a block.
//
// Thread-safety: one call at a time.
#pragma once

#include <string>
#include <vector>

namespace rhizome {

// The exit status: 0 everything verifies, 1 something does not or cannot be read, 2 the call was wrong.
int inspect_main(const std::vector<std::string>& arguments);

}  // namespace rhizome
