// A token: an id of the model's vocabulary, as the engine gives it.
#pragma once

#include <cstdint>

namespace rhizome {

using Token = uint32_t;

}  // namespace rhizome
