// What a person did wrong, as the line that tells them. Only the edge of the system builds text.
#pragma once

#include <string>

#include "contract/result.h"

namespace rhizome {

// A value, or one line without "rhizome: " in front and without a full stop at the end.
template <class T>
using OrComplaint = tl::expected<T, std::string>;

inline tl::unexpected<std::string> complain(std::string line) {
  return tl::unexpected<std::string>(std::move(line));
}

}  // namespace rhizome
