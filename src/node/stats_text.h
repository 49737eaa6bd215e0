// What a node holds for one tenant, as one JSON object: the text of a StatsFrame.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <string>
#include <string_view>

#include "store/store.h"

namespace rhizome {

// At most kStatsBytesMax bytes, without a newline.
std::string stats_text(const Store& store, std::string_view tenant);

}  // namespace rhizome
