// One thing that is measured of every contestant, round by round, and the figures that come of it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/report.h"

namespace rhizome::bench {

// What stands before the names of a contestant's own figures: nothing for the index with fingerprints, which is what
// is promised; "exact_" for the one that compares tokens.
std::string figure_prefix(std::string_view contestant);
bool is_baseline(std::string_view contestant);

// "_1t", "_2t_b64": how many threads, and the block size when it is not the usual one.
std::string figure_suffix(uint32_t threads, uint32_t block_tokens);

class Comparison {
 public:
  // `measure` and `suffix` are parts of the figures' names; `unit` is a word of it, too: "ns".
  Comparison(std::string measure, std::string suffix, std::string unit = "ns");

  void add(std::string_view contestant, double value);
  // Over the rounds; NaN for one that was not measured.
  double median_of(std::string_view contestant) const;
  // The median of the rounds' ratios.
  double ratio(std::string_view over, std::string_view under) const;

  // Sets `<measure>_<unit>_<contestant><suffix>` for all, `ratio_<prefix><measure>_vs_<baseline><suffix>` for those
  // that are no baselines, and prints a line. A ratio says how many times better: `more_is_better` for what is no time.
  void report(Report& report, bool more_is_better = false) const;

 private:
  const std::vector<double>* find(std::string_view contestant) const;

  const std::string measure_;
  const std::string suffix_;
  const std::string unit_;
  std::vector<std::pair<std::string, std::vector<double>>> rounds_;  // in the order in which they came
};

}  // namespace rhizome::bench
