// With --exact: no answer may differ from the one that is computed with nothing cached, and how much is computed then.
#include <algorithm>

#include "bench/agents_compare.h"
#include "bench/exact_compare.h"
#include "bench/side_by_side.h"
#include "bench/text.h"

namespace rhizome::bench {
namespace {

constexpr double kRestoredShareMin = 0.6;

ExactPlan plan_for(const Stage& stage, const std::string& name, const std::string& model, uint32_t agents) {
  ExactPlan plan;
  plan.name = name;
  plan.model = model;
  plan.shape.agents = agents;
  plan.shape.rounds = 2;
  plan.shape.shared_words = 512;
  plan.shape.own_words = 100;
  plan.shape.generated_tokens = 64;
  plan.shape.seed = "exact";
  if (stage.quick) {
    plan.shape.agents = 2;
    plan.shape.own_words = 40;
    plan.shape.generated_tokens = 16;
  }
  return plan;
}

void report_outcome(Stage& stage, const ExactPlan& plan, const ExactOutcome& outcome) {
  Report& report = stage.report;
  const std::string how = std::to_string(plan.shape.generated_tokens) +
                          " greedy tokens and their log-probabilities; cold: --no-restore; --exact " +
                          joined(exact_arguments(stage.threads(), 4, 4096));
  report.section("exact answers, " + plan.name, how, "cold", "warm");
  report.row("prompt tokens", with_commas(outcome.prompt_tokens), with_commas(outcome.prompt_tokens));
  report.row("computed", with_commas(outcome.cold_computed), with_commas(outcome.warm_computed));
  report.row("restored share, warm", "-", fixed(outcome.restored_share(), 3));
  report.row("time of all answers", fixed(outcome.cold_first_to_last_s, 1) + " s",
             fixed(outcome.warm_first_to_last_s, 1) + " s");
  report.row("answers compared", "-", std::to_string(outcome.compared));
  report.row("answers that differ", "-", std::to_string(outcome.different));
  if (outcome.restored_share() < kRestoredShareMin) {
    report.failure("exact, " + plan.name +
                   ": less than 60 % of the prompt tokens were restored, the comparison says little");
  }
}

Status measure_turns_exact(Stage& stage) {
  AgentsCase what;
  what.title = "agents take turns, --exact";
  what.shape.seed = "turns";
  what.model = stage.model();
  what.arguments = exact_arguments(stage.threads(), 4, 8192);
  const Result<AgentsRun> run = run_side(stage, Side::kRhizome, what, {"--exact"});
  if (!run) return fail(run.error());
  stage.report.section(what.title, describe(what));
  stage.report.row("ideal: each distinct token once", "-", with_commas(run->ideal_tokens));
  stage.report.row("computed, as the server reports", "-", with_commas(run->computed_tokens));
  stage.report.row("computed, as the engine counted", "-", with_commas(run->computed_rows));
  stage.report.row("computed / ideal", "-", fixed(run->computed_over_ideal(), 3));
  stage.report.row("server CPU", "-", fixed(run->cpu_s, 1) + " s");
  stage.report.figure("computed_over_ideal_turns_exact", run->computed_over_ideal());
  return {};
}

}  // namespace

Status run_exact(Stage& stage) {
  const ExactPlan main = plan_for(stage, stage.quick ? "two-layer model" : "full model", stage.model(), 8);
  const ExactPlan window = plan_for(stage, "sliding-window model", stage.where.window_model, 4);
  Result<ExactOutcome> of_main;
  Result<ExactOutcome> of_window;
  run_two(
      stage.quick, [&] { of_main = compare_exactly(stage, main); },
      [&] { of_window = compare_exactly(stage, window); });
  if (!of_main) return fail(of_main.error());
  if (!of_window) return fail(of_window.error());
  report_outcome(stage, main, *of_main);
  report_outcome(stage, window, *of_window);
  stage.report.figure("exact_answers_compared_full", of_main->compared);
  stage.report.figure("exact_answers_compared", of_main->compared + of_window->compared);
  stage.report.figure("exact_answers_different", of_main->different + of_window->different);
  stage.report.figure("exact_restored_share", std::min(of_main->restored_share(), of_window->restored_share()));
  return measure_turns_exact(stage);
}

}  // namespace rhizome::bench
