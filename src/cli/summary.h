// What is said at exit, from the counters that the engine's process left in the page.
//
// Thread-safety: pure functions of the values that they read.
#pragma once

#include <optional>
#include <string>

#include "telemetry/counters.h"

namespace rhizome {

// Seconds of prompt computation that restoring spared, less what restoring took: restored tokens times
// the measured seconds of a computed prompt token. Rows that were still alive in their engine slot
// are not counted: the engine alone would have kept them too. Nothing: no prompt token was computed,
// so there is no measure.
std::optional<double> seconds_saved(const Counters& counters);

// Lines, each ending in a newline, the first beginning with "rhizome: ".
std::string summary_text(const Counters& counters);
// One JSON object and a newline.
std::string summary_json(const Counters& counters);

}  // namespace rhizome
