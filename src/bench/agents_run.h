// Many agents against one server, and what the server did for them.
//
// Thread-safety: one thread at a time; requests that go out together have threads of their own.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bench/server_process.h"
#include "bench/workload.h"

namespace rhizome::bench {

struct AgentsRun {
  std::vector<std::vector<ChatAnswer>> rounds;  // [round][agent]
  std::vector<uint64_t> computed_by_round;
  uint64_t prompt_tokens = 0;
  uint64_t computed_tokens = 0;  // what the server reports
  uint64_t computed_rows = 0;    // what Rhizome counted at the engine's forward pass; as reported on the stock side
  uint64_t generated_tokens = 0;
  uint64_t ideal_tokens = 0;  // 0 when a request was not answered
  uint32_t answered = 0;
  double cpu_s = 0;
  double wall_s = 0;

  double computed_over_ideal() const;
  std::vector<double> first_token_s() const;
};

// The same agents against each of the servers. Between one server's request (its round, where all of a round go out
// together) and the next comes the same of every other server, so that what else the machine does meets all alike.
// `step` is called after each answer, from any thread.
std::vector<AgentsRun> run_agents(std::span<const Server* const> servers, const AgentsShape& shape,
                                  const std::function<void()>& step);

// All requests at once, one thread each.
std::vector<ChatAnswer> ask_together(const Server& server, const std::vector<ChatRequest>& requests,
                                     const std::function<void()>& step);

// How many tokens a system text of so many words takes: measured on other words.
uint64_t system_text_tokens(const Server& server, uint32_t words);

// Prompt rows given to the engine's forward pass between two pages, also those that had to be computed again.
uint64_t prompt_rows(const MetricsDelta& metrics);

// True when the two counts of the same rows differ by no more than half a percent.
bool counts_agree(uint64_t reported, uint64_t counted);

}  // namespace rhizome::bench
