// What `make demo` shows: the agents' rounds in a few minutes, on the full model, and that a cached answer is the
// answer.
#include <filesystem>

#include "bench/agents_compare.h"
#include "bench/exact_compare.h"
#include "bench/text.h"

namespace rhizome::bench {
namespace {

AgentsCase demo_case(const Stage& stage, bool at_once) {
  AgentsCase what;
  what.title = at_once ? "8 agents at once" : "8 agents take turns";
  what.shape.rounds = 2;
  what.shape.shared_words = 512;
  what.shape.own_words = 100;
  what.shape.at_once = at_once;
  what.shape.seed = at_once ? "demo-at-once" : "demo-turns";
  what.model = stage.model();
  what.arguments = at_once ? server_arguments(stage.threads(), 8, 16384) : server_arguments(stage.threads(), 4, 8192);
  what.figure = at_once ? "demo_at_once" : "demo_turns";
  return what;
}

Status show_agents(Stage& stage, bool at_once) {
  const AgentsCase what = demo_case(stage, at_once);
  const Result<AgentsPair> pair = run_both_sides(stage, what);
  if (!pair) return fail(pair.error());
  report_pair(stage, what, *pair);
  stage.report.figure("computed_over_ideal_" + what.figure, pair->ours.computed_over_ideal());
  stage.report.figure("stock_computed_over_ideal_" + what.figure, pair->stock.computed_over_ideal());
  stage.panels.push_back(panel_of(what.title, *pair));
  return {};
}

Status show_answers(Stage& stage) {
  ExactPlan plan;
  plan.name = "a cached answer is the computed answer";
  plan.model = stage.model();
  plan.all_situations = false;
  plan.shape.agents = 3;
  plan.shape.rounds = 2;
  plan.shape.shared_words = 256;
  plan.shape.own_words = 60;
  plan.shape.generated_tokens = 24;
  plan.shape.seed = "demo-exact";
  const Result<ExactOutcome> outcome = compare_exactly(stage, plan);
  if (!outcome) return fail(outcome.error());
  Report& report = stage.report;
  report.section(plan.name, "--exact; token ids and log-probabilities of 24 greedy tokens; cold: nothing restored",
                 "cold", "warm");
  report.row("prompt tokens computed", with_commas(outcome->cold_computed), with_commas(outcome->warm_computed));
  report.row("time of all answers", fixed(outcome->cold_first_to_last_s, 1) + " s",
             fixed(outcome->warm_first_to_last_s, 1) + " s");
  report.note(std::to_string(outcome->compared - outcome->different) + " of " + std::to_string(outcome->compared) +
              " answers are the same, bit for bit.");
  report.figure("exact_answers_compared_demo", outcome->compared);
  report.figure("exact_answers_different", outcome->different);
  return {};
}

// As it would be typed here.
std::string program_name(const Stage& stage) {
  std::error_code error;
  const std::string here = std::filesystem::current_path(error).string() + "/";
  const std::string& program = stage.where.program;
  return !error && program.starts_with(here) ? program.substr(here.size()) : program;
}

std::vector<std::string> what_next(const Stage& stage) {
  const std::string program = program_name(stage);
  return {"What to type next:",
          "",
          "  " + program + " serve -m " + stage.model() + " -c 8192 -np 4 --port 8080",
          "",
          "and in a second terminal, once it says that it listens:",
          "",
          "  curl -s http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\",
          "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}], \"max_tokens\": 16}'",
          "",
          "With a llama-server of your own:",
          "",
          "  " + program + " run -- llama-server -m MODEL.gguf -c 8192 -np 4 -kvu",
          "",
          "Everything that the cache promises, measured (11 minutes on an idle machine): " + program + " bench agents"};
}

}  // namespace

Status run_demo(Stage& stage) {
  if (const Status done = show_agents(stage, false); !done) return done;
  if (const Status done = show_agents(stage, true); !done) return done;
  if (const Status done = show_answers(stage); !done) return done;
  if (const Status done = show_restart(stage); !done) return done;
  stage.last_words = what_next(stage);
  return {};
}

}  // namespace rhizome::bench
