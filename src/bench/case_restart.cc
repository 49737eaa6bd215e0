// What a server that was killed in the middle of its work has left behind for the next one: time to the first token of
// prompts that nobody has seen, that memory has, and that only the disk has.
#include <algorithm>

#include "bench/agents_compare.h"
#include "bench/cases.h"
#include "bench/text.h"
#include "machine/clock.h"
#include "machine/thread.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kSharedWords = 1024;
constexpr uint32_t kTailWords = 16;
constexpr uint32_t kGenerated = 8;
constexpr uint32_t kLongAnswerTokens = 2000;
constexpr uint64_t kBufferAgeNs = 400'000'000;
constexpr uint64_t kPollNs = 20'000'000;
constexpr uint64_t kWritePatienceNs = 20'000'000'000;

struct Plan {
  uint32_t prompts = 5;
  uint32_t restarts = 2;
  // Answers are compared where they must be the same. The first one of several is without, as most servers are.
  bool exact_only = false;
  std::string seed = "restart";
};

struct Times {
  std::vector<double> cold_s;
  std::vector<double> warm_s;
  std::vector<double> restart_s;
  uint32_t compared = 0;
  uint32_t different = 0;
  uint64_t restored_from_disk = 0;
  uint64_t computed_cold = 0;     // of one prompt
  uint64_t computed_restart = 0;  // of one prompt
};

ChatRequest request_of(const Plan& plan, uint32_t restart, uint32_t prompt, const std::string& tail, int engine_slot) {
  const std::string seed = plan.seed + "-" + std::to_string(restart) + "-" + std::to_string(prompt);
  ChatRequest request;
  request.conversation = opening(seeded_words(kSharedWords, seed), seeded_words(kTailWords, seed + tail));
  request.max_tokens = kGenerated;
  request.engine_slot = engine_slot;
  return request;
}

Result<std::unique_ptr<Server>> start_server(Stage& stage, bool exact) {
  const std::vector<std::string> arguments =
      exact ? exact_arguments(stage.threads(), 2, 4096) : server_arguments(stage.threads(), 2, 4096);
  ServerPlan server{Side::kRhizome, stage.model(), arguments, {}};
  server.cache_arguments = {"--disk", "1GiB"};
  if (exact) server.cache_arguments.emplace_back("--exact");
  return stage.fleet.start(server);
}

// Until all that was stored is on disk, and a little longer: what was written last may still be in a buffer.
Status wait_for_writes(const Server& server) {
  const uint64_t give_up_ns = monotonic_now_ns() + kWritePatienceNs;
  for (;;) {
    const Metrics metrics = server.metrics();
    const bool done = metrics.value(Counter::kBlocksWritten) >= metrics.value(Counter::kBlocksExported);
    pause_thread(done ? kBufferAgeNs : kPollNs);
    if (done) return {};
    if (monotonic_now_ns() > give_up_ns) return fail(Code::kDeadlineExceeded, "blocks do not get to the disk");
  }
}

// In the middle of an answer.
Status kill_at_work(Server& server) {
  ChatRequest request;
  request.conversation = opening("count", "count from one to a million");
  request.max_tokens = kLongAnswerTokens;
  request.ignore_end = true;
  const Metrics before = server.metrics();
  Result<Thread> asking = start_thread("long answer", [&] { static_cast<void>(server.chat(request)); });
  if (!asking) return fail(asking.error());
  const uint64_t give_up_ns = monotonic_now_ns() + kWritePatienceNs;
  while (MetricsDelta{before, server.metrics()}.of(Counter::kTokensComputedGenerated) < 3 &&
         monotonic_now_ns() < give_up_ns) {
  }
  server.kill();
  asking->join();
  return {};
}

Status one_restart(Stage& stage, const Plan& plan, uint32_t restart, Times& times) {
  const bool exact = plan.exact_only || restart > 0;
  Result<std::unique_ptr<Server>> server = start_server(stage, exact);
  if (!server) return fail(server.error());
  std::vector<std::string> cold_texts;
  const auto ask = [&](uint32_t prompt, const std::string& tail, int slot, std::vector<double>& seconds,
                       ChatAnswer& answer) {
    answer = (*server)->chat(request_of(plan, restart, prompt, tail, slot));
    stage.progress.step();
    if (!answer.ok()) return false;
    stage.report.answered(answer.text);
    seconds.push_back(answer.first_token_s);
    return true;
  };
  ChatAnswer answer;
  for (uint32_t prompt = 0; prompt < plan.prompts; ++prompt) {
    if (!ask(prompt, "-a", 0, times.cold_s, answer)) return fail(Code::kUnavailable, "a request was not answered");
    cold_texts.push_back(answer.text);
    times.computed_cold = answer.computed_tokens;
    if (!ask(prompt, "-b", 1, times.warm_s, answer)) return fail(Code::kUnavailable, "a request was not answered");
  }
  if (const Status written = wait_for_writes(**server); !written) return written;
  if (const Status killed = kill_at_work(**server); !killed) return killed;
  server = start_server(stage, exact);
  if (!server) return fail(server.error());
  const Metrics before = (*server)->metrics();
  for (uint32_t prompt = 0; prompt < plan.prompts; ++prompt) {
    if (!ask(prompt, "-a", 0, times.restart_s, answer)) return fail(Code::kUnavailable, "a request was not answered");
    times.computed_restart = answer.computed_tokens;
    if (!exact) continue;
    ++times.compared;
    times.different += answer.text == cold_texts[prompt] ? 0 : 1;
  }
  times.restored_from_disk +=
      static_cast<uint64_t>(MetricsDelta{before, (*server)->metrics()}.of(Counter::kTokensRestoredDisk));
  return {};
}

Result<Times> measure(Stage& stage, const Plan& plan) {
  stage.progress.begin("kill -9 and restart", plan.restarts * plan.prompts * 3);
  Times times;
  for (uint32_t restart = 0; restart < plan.restarts; ++restart) {
    if (const Status done = one_restart(stage, plan, restart, times); !done) return fail(done.error());
  }
  stage.progress.pause();
  if (times.restored_from_disk == 0) stage.report.failure("restart: nothing came back from the disk");
  return times;
}

void report_times(Stage& stage, const Plan& plan, const Times& times) {
  Report& report = stage.report;
  report.section("kill -9 and restart",
                 "1,024 words; --disk 1GiB" + std::string(plan.exact_only ? ", --exact" : "") +
                     "; the server is killed in the middle of an answer; medians of " +
                     std::to_string(times.cold_s.size()) + " prompts",
                 "first token", "computed");
  report.row("cold", milliseconds(median(times.cold_s)), with_commas(times.computed_cold));
  report.row("warm, from memory", milliseconds(median(times.warm_s)), "-");
  report.row("after the restart, from disk", milliseconds(median(times.restart_s)),
             with_commas(times.computed_restart));
  report.note(with_commas(times.restored_from_disk) + " tokens came from the disk; with --exact, " +
              std::to_string(times.compared - times.different) + " of " + std::to_string(times.compared) +
              " answers are those from before.");
  if (times.different > 0) stage.report.failure("an answer after the restart differs from the one before");
}

}  // namespace

Status run_restart(Stage& stage) {
  Plan plan;
  if (stage.quick) plan.prompts = 2;
  if (stage.quick) plan.restarts = 1;
  plan.exact_only = stage.quick;
  const Result<Times> times = measure(stage, plan);
  if (!times) return fail(times.error());
  report_times(stage, plan, *times);
  stage.report.figure("ratio_ttft_restart_over_cold_1024", median(times->restart_s) / median(times->cold_s));
  stage.report.figure("ratio_ttft_restart_over_warm_1024", median(times->restart_s) / median(times->warm_s));
  stage.report.figure("restart_answers_different", times->different);
  return {};
}

Status show_restart(Stage& stage) {
  const Plan plan{.prompts = 2, .restarts = 1, .exact_only = true, .seed = "demo-restart"};
  const Result<Times> times = measure(stage, plan);
  if (!times) return fail(times.error());
  report_times(stage, plan, *times);
  stage.report.figure("demo_ratio_ttft_restart_over_cold", median(times->restart_s) / median(times->cold_s));
  return {};
}

}  // namespace rhizome::bench
