// Agents that share a system text: one after another, all together, with much text of their own, in a small context, on
// a model with sliding-window attention.
#include "bench/agents_compare.h"
#include "bench/cases.h"
#include "bench/text.h"

namespace rhizome::bench {
namespace {

// The workload as the bounds are stated for it; smaller in a quick run.
AgentsCase case_for(const Stage& stage, const std::string& figure, const std::string& title, bool at_once) {
  AgentsCase what;
  what.figure = what.shape.seed = figure;
  what.title = title;
  what.model = stage.model();
  what.shape.at_once = at_once;
  what.arguments = at_once ? server_arguments(stage.threads(), 8, 16384) : server_arguments(stage.threads(), 4, 8192);
  if (stage.quick) {
    what.shape.rounds = 2;
    what.shape.shared_words = 512;
    what.shape.own_words = 100;
  }
  return what;
}

void report_ideal(Stage& stage, const AgentsCase& what, const AgentsPair& pair) {
  report_pair(stage, what, pair);
  stage.report.figure("computed_over_ideal_" + what.figure, pair.ours.computed_over_ideal());
  stage.report.figure("stock_computed_over_ideal_" + what.figure, pair.stock.computed_over_ideal());
}

Status measure(Stage& stage, const AgentsCase& what, const char* picture_title) {
  const Result<AgentsPair> pair = run_both_sides(stage, what);
  if (!pair) return fail(pair.error());
  report_ideal(stage, what, *pair);
  if (picture_title != nullptr) stage.panels.push_back(panel_of(picture_title, *pair));
  return {};
}

}  // namespace

Status run_turns(Stage& stage) {
  const AgentsCase what = case_for(stage, "turns", "agents take turns", false);
  const Result<AgentsPair> pair = run_both_sides(stage, what);
  if (!pair) return fail(pair.error());
  report_ideal(stage, what, *pair);
  stage.report.figure("server_cpu_over_stock_turns", pair->ours.cpu_s / pair->stock.cpu_s);
  stage.panels.push_back(panel_of("8 agents take turns", *pair));
  return {};
}

Status run_at_once(Stage& stage) {
  return measure(stage, case_for(stage, "at_once", "agents all at once", true), "8 agents at once");
}

Status run_own_text(Stage& stage) {
  AgentsCase what = case_for(stage, "own_text", "own text dominates, in turn", false);
  what.shape.shared_words = 256;
  what.shape.own_words = 1000;
  if (stage.quick) what.shape.agents = 4;
  return measure(stage, what, nullptr);
}

// Together the agents hold about 10,000 tokens of context, and the server has room for 4,096: it works only where
// what they share is held once.
Status run_small_context(Stage& stage) {
  AgentsCase what;
  what.title = "small context, all at once";
  what.shape.seed = "small_context";
  what.shape.at_once = true;
  what.model = stage.model();
  what.arguments = server_arguments(stage.threads(), 8, 4096);
  what.may_refuse = true;
  const Result<AgentsPair> pair = run_both_sides(stage, what);
  if (!pair) return fail(pair.error());
  stage.report.section(what.title, describe(what));
  const std::string of = " of " + std::to_string(what.shape.agents * what.shape.rounds);
  stage.report.row("answered", std::to_string(pair->stock.answered) + of, std::to_string(pair->ours.answered) + of);
  stage.report.row("computed, as the server reports", with_commas(pair->stock.computed_tokens),
                   with_commas(pair->ours.computed_tokens));
  stage.report.row("computed / ideal", "-", fixed(pair->ours.computed_over_ideal(), 3));
  stage.report.figure("small_context_answered", pair->ours.answered);
  stage.report.figure("stock_small_context_answered", pair->stock.answered);
  return {};
}

Status run_window(Stage& stage) {
  AgentsCase turns = case_for(stage, "swa_turns", "sliding-window model, in turn", false);
  AgentsCase at_once = case_for(stage, "swa_at_once", "sliding-window model, all at once", true);
  for (AgentsCase* what : {&turns, &at_once}) {
    what->model = stage.where.window_model;
    if (stage.quick) what->shape.agents = 4;
    if (const Status done = measure(stage, *what, nullptr); !done) return done;
  }
  return {};
}

}  // namespace rhizome::bench
