// What the cache costs when it has nothing to give: prompts that share nothing, and generated text. Tokens per second
// of the servers' CPU time, because that is steady on a busy machine; rounds are interleaved, medians of their ratios.
#include <cmath>

#include "bench/agents_compare.h"
#include "bench/cases.h"
#include "bench/text.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kPromptWords = 1000;
constexpr uint32_t kGenerated = 256;
constexpr uint32_t kGeneratedQuick = 96;
// With two, the time that one thread spins while it waits for the other counts as work, and that depends on what
// else the machine does.
constexpr uint32_t kThreads = 1;
constexpr int kEngineSlots = 4;
constexpr uint64_t kBlockTokens = 16;
constexpr uint64_t kMillion = 1'000'000;

struct Runner {
  std::string name;
  std::unique_ptr<Server> server;
  std::vector<double> tokens_per_cpu_s;  // by round
  uint64_t tokens = 0;
  uint64_t whole_blocks = 0;
  Metrics before;
  double cpu_before = 0;
};

Result<Runner> start_runner(Stage& stage, const char* name, Side side, bool exact) {
  Runner runner;
  runner.name = name;
  ServerPlan plan{side, stage.model(), server_arguments(kThreads, kEngineSlots, 8192), {}};
  if (exact) plan.arguments = exact_arguments(kThreads, kEngineSlots, 8192);
  if (exact) plan.cache_arguments = {"--exact"};
  Result<std::unique_ptr<Server>> server = stage.fleet.start(plan);
  if (!server) return fail(server.error());
  runner.server = std::move(*server);
  runner.before = runner.server->metrics();
  runner.cpu_before = runner.server->cpu_seconds();
  return runner;
}

// What is counted: computed prompt tokens, or generated ones.
Status one_round(Stage& stage, Runner& runner, const ChatRequest& request, bool count_generated) {
  const double cpu_before = runner.server->cpu_seconds();
  const ChatAnswer answer = runner.server->chat(request);
  if (!answer.ok()) return fail(Code::kUnavailable, "a request was not answered");
  const double cpu_s = runner.server->cpu_seconds() - cpu_before;
  const uint64_t tokens = count_generated ? answer.generated_tokens : answer.computed_tokens;
  stage.report.answered(answer.text);
  runner.whole_blocks += answer.prompt_tokens / kBlockTokens;
  runner.tokens_per_cpu_s.push_back(static_cast<double>(tokens) / cpu_s);
  runner.tokens += tokens;
  stage.progress.step();
  return {};
}

double median_ratio(const Runner& above, const Runner& below) {
  std::vector<double> ratios;
  for (size_t round = 0; round < above.tokens_per_cpu_s.size(); ++round) {
    ratios.push_back(above.tokens_per_cpu_s[round] / below.tokens_per_cpu_s[round]);
  }
  return median(ratios);
}

std::string spread(const Runner& above, const Runner& below) {
  double least = INFINITY;
  double most = 0;
  for (size_t round = 0; round < above.tokens_per_cpu_s.size(); ++round) {
    const double ratio = above.tokens_per_cpu_s[round] / below.tokens_per_cpu_s[round];
    least = std::min(least, ratio);
    most = std::max(most, ratio);
  }
  return fixed(least, 3) + "-" + fixed(most, 3);
}

ChatRequest distinct_prompt(uint32_t round) {
  ChatRequest request;
  const std::string seed = "prefill-" + std::to_string(round);
  request.conversation = opening(seeded_words(kPromptWords, seed), seeded_words(16, seed + "-tail"));
  request.max_tokens = 1;
  return request;
}

// Every whole block of what was computed must have been stored, or the comparison flatters.
void check_all_exported(Stage& stage, const Runner& runner) {
  const MetricsDelta metrics{runner.before, runner.server->metrics()};
  const double blocks = metrics.of(Counter::kBlocksExported);
  const double bytes = metrics.of(Counter::kBytesExported);
  stage.report.note(runner.name + ": " + with_commas(static_cast<uint64_t>(blocks)) + " blocks exported of " +
                    with_commas(runner.whole_blocks) + " whole ones, " +
                    fixed(bytes / static_cast<double>(kMillion), 1) + " MB in " +
                    fixed(metrics.of(Counter::kExportTime), 3) + " s");
  if (blocks < static_cast<double>(runner.whole_blocks))
    stage.report.failure("prefill: not every whole block was exported");
}

std::string speed(const Runner& runner) {
  return fixed(median(runner.tokens_per_cpu_s), 1) + " /s";
}

struct DecodePair {
  Runner off;
  Runner on;
};

// Conversations of a thousand words each that nobody continues, in all slots but the first.
Status leave_idle(const Runner& runner) {
  for (int slot = 1; slot < kEngineSlots; ++slot) {
    ChatRequest request;
    const std::string seed = "idle-" + std::to_string(slot);
    request.conversation = opening(seeded_words(16, "idle"), seeded_words(kPromptWords, seed));
    request.max_tokens = 1;
    request.engine_slot = slot;
    if (!runner.server->chat(request).ok()) return fail(Code::kUnavailable, "a request was not answered");
  }
  return {};
}

Result<DecodePair> measure_decode(Stage& stage, uint32_t rounds, uint32_t generated, bool beside_idle) {
  stage.progress.begin(beside_idle ? "generated text beside idle conversations" : "generated text", 2 * rounds);
  Result<Runner> off = start_runner(stage, "stock", Side::kStock, false);
  if (!off) return fail(off.error());
  Result<Runner> on = start_runner(stage, "rhizome", Side::kRhizome, false);
  if (!on) return fail(on.error());
  for (Runner* runner : {&*off, &*on}) {
    if (!beside_idle) break;
    if (const Status left = leave_idle(*runner); !left) return fail(left.error());
    runner->before = runner->server->metrics();
    runner->cpu_before = runner->server->cpu_seconds();
  }
  for (uint32_t round = 0; round < rounds; ++round) {
    ChatRequest request;
    request.conversation = opening("hello", seeded_words(8, "decode-" + std::to_string(round)));
    request.max_tokens = generated;
    request.ignore_end = true;
    request.engine_slot = 0;
    Runner& first = round % 2 == 0 ? *off : *on;
    Runner& second = round % 2 == 0 ? *on : *off;
    if (const Status done = one_round(stage, first, request, true); !done) return fail(done.error());
    if (const Status done = one_round(stage, second, request, true); !done) return fail(done.error());
  }
  stage.progress.pause();
  return DecodePair{std::move(*off), std::move(*on)};
}

}  // namespace

Status run_prefill(Stage& stage) {
  const uint32_t rounds = stage.quick ? 3 : 7;
  stage.progress.begin("prompts with nothing to reuse", 3 * rounds);
  std::vector<Runner> runners;
  for (const auto& [name, side, exact] :
       {std::tuple("stock", Side::kStock, false), std::tuple("rhizome", Side::kRhizome, false),
        std::tuple("rhizome --exact", Side::kRhizome, true)}) {
    Result<Runner> runner = start_runner(stage, name, side, exact);
    if (!runner) return fail(runner.error());
    runners.push_back(std::move(*runner));
  }
  for (uint32_t round = 0; round < rounds; ++round) {
    const ChatRequest request = distinct_prompt(round);
    for (size_t i = 0; i < runners.size(); ++i) {  // another one first in each round
      if (const Status done = one_round(stage, runners[(round + i) % runners.size()], request, false); !done)
        return done;
    }
  }
  stage.progress.pause();
  const Runner& off = runners[0];
  const Runner& on = runners[1];
  const Runner& exact = runners[2];
  Report& report = stage.report;
  report.section("prompts with nothing to reuse", "1,000 words; tokens per second of server CPU, medians of " +
                                                      std::to_string(rounds) +
                                                      " interleaved rounds; -t 1 -np 4 -c 8192");
  report.row("tokens computed", with_commas(off.tokens), with_commas(on.tokens));
  report.row("tokens per CPU second", speed(off), speed(on));
  report.row("tokens per CPU second, --exact", "-", speed(exact));
  report.row("on / off: median, spread", fixed(median_ratio(on, off), 3), spread(on, off));
  check_all_exported(stage, on);
  check_all_exported(stage, exact);
  report.figure("ratio_prefill_on_over_off", median_ratio(on, off));
  report.figure("ratio_prefill_exact_over_default", median_ratio(exact, on));
  const MetricsDelta exported{on.before, on.server->metrics()};
  report.figure("prefill_exported_bytes", exported.of(Counter::kBytesExported));
  return {};
}

Status run_decode(Stage& stage) {
  const uint32_t generated = stage.quick ? kGeneratedQuick : kGenerated;
  const uint32_t rounds = stage.quick ? 3 : 5;
  Report& report = stage.report;
  const std::string how =
      " tokens, one sequence; medians of " + std::to_string(rounds) + " interleaved rounds; -t 1 -kvu -np 4 -c 8192";
  {
    const Result<DecodePair> pair = measure_decode(stage, rounds, generated, false);
    if (!pair) return fail(pair.error());
    const Runner& on = pair->on;
    const MetricsDelta metrics{on.before, on.server->metrics()};
    const double share = metrics.of(Counter::kHookTimeDecode) / (on.server->cpu_seconds() - on.cpu_before);
    report.section("generated text", std::to_string(generated) + how);
    report.row("tokens per CPU second", speed(pair->off), speed(on));
    report.row("on / off: median, spread", fixed(median_ratio(on, pair->off), 3), spread(on, pair->off));
    report.row("CPU inside Rhizome while generating", "-", fixed(100 * share, 2) + " %");
    report.figure("ratio_decode_on_over_off", median_ratio(on, pair->off));
    report.figure("decode_hook_cpu_share", share);
  }
  const Result<DecodePair> pair = measure_decode(stage, rounds, generated, true);
  if (!pair) return fail(pair.error());
  report.section("generated text beside idle conversations",
                 "three of 1,000 words; " + std::to_string(generated) + how);
  report.row("tokens per CPU second", speed(pair->off), speed(pair->on));
  report.row("on / off: median, spread", fixed(median_ratio(pair->on, pair->off), 3), spread(pair->on, pair->off));
  report.figure("ratio_decode_beside_idle_on_over_off", median_ratio(pair->on, pair->off));
  return {};
}

}  // namespace rhizome::bench
