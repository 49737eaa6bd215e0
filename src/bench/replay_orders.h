// All orders that `rhizome replay` knows, by name.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "bench/residency.h"
#include "contract/result.h"

namespace rhizome::bench {

struct ReplayOrder {
  std::string_view name;
  std::string_view what;
  Result<Hits> (*replay)(const Trace& trace, uint32_t capacity);
};

std::span<const ReplayOrder> replay_orders();
// Null when there is none.
const ReplayOrder* find_replay_order(std::string_view name);

}  // namespace rhizome::bench
