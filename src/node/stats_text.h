// What a node holds for one tenant, as one JSON object: the text of a StatsFrame.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "store/store.h"
#include "telemetry/counters.h"

namespace rhizome {

// So many keyspaces are told of, those that hold most; of the rest, only how much it is in all.
inline constexpr size_t kKeyspacesToldMax = 100;

// At most kStatsBytesMax bytes, without a newline. `counters` are the store's. Looks at all blocks of the store.
std::string stats_text(const Store& store, const Counters& counters, std::string_view tenant);

}  // namespace rhizome
