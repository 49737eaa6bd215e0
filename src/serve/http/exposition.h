// The counters as Prometheus text (format 0.0.4).
//
// Thread-safety: pure functions of the values they read; a page that others write to is read once,
// counter by counter.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/counters.h"

namespace rhizome {

// One line of output. Texts must outlive the call.
struct Sample {
  CounterInfo described;
  uint64_t value = 0;  // nanoseconds for kNanoseconds, which is written in seconds
};

// Samples of one name become one family, at the place of the first: HELP, TYPE, then its lines in
// order. `described.labels` is the text between the braces, with Prometheus' own escapes.
std::string exposition(std::span<const Sample> samples);

// Every counter of the table, and the names that PHANTOM's users know.
std::vector<Sample> samples_of(const Counters& counters);
std::string exposition(const Counters& counters);

}  // namespace rhizome
