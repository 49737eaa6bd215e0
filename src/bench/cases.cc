#include "bench/cases.h"

#include <array>

namespace rhizome::bench {
namespace {

constexpr std::array<Case, 13> kCases = {{
    {"ttft", "time to first token, cold and warm", run_ttft},
    {"turns", "8 agents, one request after another", run_turns},
    {"at_once", "8 agents, all requests of a round together", run_at_once},
    {"own_text", "8 agents with much text of their own", run_own_text},
    {"single_flight", "8 agents arrive while another prompt is computed", run_single_flight},
    {"small_context", "8 agents in a context that holds their text only once", run_small_context},
    {"swa", "a model with sliding-window attention", run_window},
    {"exact", "cached answers beside computed ones, bit for bit", run_exact},
    {"prefill", "prompts with nothing to reuse, default and --exact", run_prefill},
    {"decode", "generated text", run_decode},
    {"restore", "how quickly blocks come back", run_restore},
    {"restart", "the same prompts after kill -9, from disk", run_restart},
    {"memory", "memory that the cache takes", run_memory},
}};

constexpr Case kDemo = {"demo", "what `make demo` shows", run_demo};

}  // namespace

std::span<const Case> agent_cases() {
  return kCases;
}

const Case* find_case(std::string_view name) {
  if (name == kDemo.name) return &kDemo;
  for (const Case& one : kCases) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

}  // namespace rhizome::bench
