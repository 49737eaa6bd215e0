// A cached answer beside the one that is computed with nothing cached: token ids and log-probabilities, bit for bit.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "bench/cases.h"

namespace rhizome::bench {

struct ExactPlan {
  std::string name;
  std::string model;
  AgentsShape shape;  // of each situation; generated_tokens are greedy and forced
  bool all_situations =
      true;  // fresh server, after twenty other conversations, while three others decode; else the first
};

struct ExactOutcome {
  uint32_t compared = 0;
  uint32_t different = 0;
  uint64_t prompt_tokens = 0;
  uint64_t cold_computed = 0;
  uint64_t warm_computed = 0;
  double cold_first_to_last_s = 0;  // total time of the answers
  double warm_first_to_last_s = 0;

  double restored_share() const;
};

// Runs the conversations cold, on a server that restores nothing, and sends the very same requests to a warm one. What
// is wrong with the comparison itself (something was restored on the cold side) is a failure of the report.
Result<ExactOutcome> compare_exactly(Stage& stage, const ExactPlan& plan);

// Equal as parsed and as printed.
bool same_answer(const ChatAnswer& a, const ChatAnswer& b);

}  // namespace rhizome::bench
