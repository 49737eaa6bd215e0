// A page of Prometheus text, read by the counters that Rhizome knows.
//
// Thread-safety: plain value.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "telemetry/counters.h"

namespace rhizome::bench {

class Metrics {
 public:
  // Lines that are no samples are skipped.
  static Metrics parse(std::string_view text);

  // 0 for what the page does not have. Times are in seconds.
  double value(Counter counter) const;
  // True when the page has the counter at all.
  bool has(Counter counter) const;

 private:
  std::map<std::string, double> samples_;  // by name and sorted labels
};

// What grew between two pages.
struct MetricsDelta {
  Metrics before;
  Metrics after;
  double of(Counter counter) const { return after.value(counter) - before.value(counter); }
};

}  // namespace rhizome::bench
