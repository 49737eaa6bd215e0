// The same agents against the stock server and against ours: the rows and figures that all such cases share.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "bench/agents_run.h"
#include "bench/cases.h"
#include "bench/side_by_side.h"

namespace rhizome::bench {

struct AgentsCase {
  std::string figure;  // suffix: computed_over_ideal_<figure>
  std::string title;
  AgentsShape shape;
  std::string model;
  std::vector<std::string> arguments;
  bool may_refuse = false;  // some requests may end in an error
};

using AgentsPair = Sides<AgentsRun>;

// Our side is asked to cache exactly when `cache_arguments` say so. Fails when a request was refused that may not be.
Result<AgentsRun> run_side(Stage& stage, Side side, const AgentsCase& what,
                           const std::vector<std::string>& cache_arguments);
Result<AgentsPair> run_both_sides(Stage& stage, const AgentsCase& what);

// Rows of the table for a pair.
void report_pair(Stage& stage, const AgentsCase& what, const AgentsPair& pair);
PicturePanel panel_of(const std::string& title, const AgentsPair& pair);

// "8 agents x 3 rounds, 1,024 words shared, 200 own, 16 generated; -t 2 -kvu -np 4 -c 8192"
std::string describe(const AgentsCase& what);

// Turns up a failure of the run when what the server reports is not what reached the engine.
void check_counts(Stage& stage, const std::string& what, uint64_t reported, uint64_t counted);

std::vector<std::string> server_arguments(uint32_t threads, uint32_t engine_slots, uint32_t context_tokens);
// The same for a server with --exact, which needs a cache that is not unified and sees to its size itself.
std::vector<std::string> exact_arguments(uint32_t threads, uint32_t engine_slots, uint32_t context_tokens);
// "-t 2 -kvu -np 4 -c 8192"
std::string joined(const std::vector<std::string>& arguments);

}  // namespace rhizome::bench
