#include "bench/agents_compare.h"

#include <algorithm>
#include <iostream>
#include <sstream>

#include "bench/text.h"

namespace rhizome::bench {
namespace {

std::string counts_text(const std::vector<uint64_t>& values) {
  std::string text;
  for (const uint64_t value : values)
    text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

const char* side_name(Side side) {
  return side == Side::kStock ? "stock" : "rhizome";
}

void print_refusals(const AgentsRun& run) {
  for (const auto& round : run.rounds) {
    for (const ChatAnswer& answer : round) {
      if (answer.ok()) continue;
      std::cerr << "rhizome bench: not answered: " << answer.error << "\n";
      return;  // one of them says it all
    }
  }
}

std::string ttft_row(const AgentsRun& run) {
  const std::vector<double> times = run.first_token_s();
  return times.empty() ? "-" : milliseconds(median(times));
}

std::string ttft_max_row(const AgentsRun& run) {
  const std::vector<double> times = run.first_token_s();
  return times.empty() ? "-" : milliseconds(*std::max_element(times.begin(), times.end()));
}

}  // namespace

std::vector<std::string> server_arguments(uint32_t threads, uint32_t engine_slots, uint32_t context_tokens) {
  std::vector<std::string> arguments = exact_arguments(threads, engine_slots, context_tokens);
  arguments.emplace_back("-kvu");
  return arguments;
}

std::vector<std::string> exact_arguments(uint32_t threads, uint32_t engine_slots, uint32_t context_tokens) {
  return {"-t", std::to_string(threads), "-np", std::to_string(engine_slots), "-c", std::to_string(context_tokens)};
}

std::string joined(const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments)
    text += (text.empty() ? "" : " ") + argument;
  return text;
}

std::string describe(const AgentsCase& what) {
  std::ostringstream text;
  text << what.shape.agents << " agents x " << what.shape.rounds << " rounds, " << with_commas(what.shape.shared_words)
       << " words shared, " << with_commas(what.shape.own_words) << " own, " << what.shape.generated_tokens
       << " generated; " << joined(what.arguments);
  return text.str();
}

void check_counts(Stage& stage, const std::string& what, uint64_t reported, uint64_t counted) {
  if (counts_agree(reported, counted)) return;
  stage.report.failure(what + ": the server reports " + with_commas(reported) +
                       " computed prompt tokens, the engine computed " + with_commas(counted));
}

namespace {

Result<std::unique_ptr<Server>> start_side(Stage& stage, Side side, const AgentsCase& what,
                                           const std::vector<std::string>& cache_arguments) {
  ServerPlan plan;
  plan.side = side;
  plan.model = what.model;
  plan.arguments = what.arguments;
  if (side == Side::kRhizome) plan.cache_arguments = cache_arguments;
  return stage.fleet.start(plan);
}

Status check_side(Stage& stage, Side side, const AgentsCase& what, const AgentsRun& run) {
  for (const auto& round : run.rounds) {
    for (const ChatAnswer& answer : round)
      stage.report.answered(answer.text);
  }
  const bool all = run.answered == what.shape.agents * what.shape.rounds;
  if (!all && (!what.may_refuse || side == Side::kRhizome)) print_refusals(run);
  if (!all && !what.may_refuse) return fail(Code::kUnavailable, "a request was not answered");
  if (side == Side::kRhizome && !what.may_refuse)
    check_counts(stage, what.title, run.computed_tokens, run.computed_rows);
  return {};
}

// One request at a time on either side: both servers run, and their requests alternate.
Result<AgentsPair> run_alternately(Stage& stage, const AgentsCase& what) {
  stage.progress.begin(what.title, 2 * what.shape.agents * what.shape.rounds);
  const Result<std::unique_ptr<Server>> stock = start_side(stage, Side::kStock, what, {});
  if (!stock) return fail(stock.error());
  const Result<std::unique_ptr<Server>> ours = start_side(stage, Side::kRhizome, what, {});
  if (!ours) return fail(ours.error());
  const Server* const servers[] = {stock->get(), ours->get()};
  std::vector<AgentsRun> runs = run_agents(servers, what.shape, stage.step());
  stage.progress.pause();
  if (const Status good = check_side(stage, Side::kStock, what, runs[0]); !good) return fail(good.error());
  if (const Status good = check_side(stage, Side::kRhizome, what, runs[1]); !good) return fail(good.error());
  return AgentsPair{std::move(runs[0]), std::move(runs[1])};
}

}  // namespace

Result<AgentsRun> run_side(Stage& stage, Side side, const AgentsCase& what,
                           const std::vector<std::string>& cache_arguments) {
  stage.progress.begin(what.title + ", " + side_name(side), what.shape.agents * what.shape.rounds);
  const Result<std::unique_ptr<Server>> server = start_side(stage, side, what, cache_arguments);
  if (!server) return fail(server.error());
  const Server* const only[] = {server->get()};
  std::vector<AgentsRun> runs = run_agents(only, what.shape, stage.step());
  stage.progress.pause();
  if (const Status good = check_side(stage, side, what, runs[0]); !good) return fail(good.error());
  return std::move(runs[0]);
}

Result<AgentsPair> run_both_sides(Stage& stage, const AgentsCase& what) {
  if (!stage.quick && !what.shape.at_once) return run_alternately(stage, what);
  return measure_sides<AgentsRun>(stage.quick, [&](Side side) { return run_side(stage, side, what, {}); });
}

void report_pair(Stage& stage, const AgentsCase& what, const AgentsPair& pair) {
  Report& report = stage.report;
  report.section(what.title, describe(what));
  report.row("prompt tokens asked", with_commas(pair.stock.prompt_tokens), with_commas(pair.ours.prompt_tokens));
  report.row("ideal: each distinct token once", with_commas(pair.stock.ideal_tokens),
             with_commas(pair.ours.ideal_tokens));
  report.row("computed, as the server reports", with_commas(pair.stock.computed_tokens),
             with_commas(pair.ours.computed_tokens));
  report.row("computed, as the engine counted", "-", with_commas(pair.ours.computed_rows));
  report.row("  by round", counts_text(pair.stock.computed_by_round), counts_text(pair.ours.computed_by_round));
  report.row("computed / ideal", fixed(pair.stock.computed_over_ideal(), 3), fixed(pair.ours.computed_over_ideal(), 3));
  report.row("time to first token, median", ttft_row(pair.stock), ttft_row(pair.ours));
  report.row("time to first token, longest", ttft_max_row(pair.stock), ttft_max_row(pair.ours));
  report.row("server CPU", fixed(pair.stock.cpu_s, 1) + " s", fixed(pair.ours.cpu_s, 1) + " s");
  report.row("wall time", fixed(pair.stock.wall_s, 1) + " s", fixed(pair.ours.wall_s, 1) + " s");
}

PicturePanel panel_of(const std::string& title, const AgentsPair& pair) {
  return {title, pair.stock.computed_by_round, pair.ours.computed_by_round, pair.ours.ideal_tokens};
}

}  // namespace rhizome::bench
