// Time to the first token of a prompt that nobody has seen, and of one whose system text another engine slot has
// computed. And, as the floor under it, of one that follows in the same engine slot, where llama-server itself keeps
// the rows: nothing is restored there, so what it takes is what computing the tail and answering take on this machine.
#include "bench/agents_compare.h"
#include "bench/cases.h"
#include "bench/text.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kSharedWords = 1024;
constexpr uint32_t kTailWords = 16;
constexpr uint32_t kGenerated = 4;
constexpr int kEngineSlots = 4;

struct Times {
  std::vector<double> cold_s;
  std::vector<double> warm_s;
  std::vector<double> same_slot_s;
  uint64_t cold_computed = 0;  // of the last round
  uint64_t warm_computed = 0;
};

Status one_round(Stage& stage, const Server& server, uint32_t round, Times& times) {
  const std::string shared = seeded_words(kSharedWords, "ttft-" + std::to_string(round));
  ChatRequest request;
  request.max_tokens = kGenerated;
  request.conversation = opening(shared, seeded_words(kTailWords, "cold-" + std::to_string(round)));
  request.engine_slot = static_cast<int>(2 * round) % kEngineSlots;
  const ChatAnswer cold = server.chat(request);
  request.conversation = opening(shared, seeded_words(kTailWords, "warm-" + std::to_string(round)));
  request.engine_slot = static_cast<int>(2 * round + 1) % kEngineSlots;
  const ChatAnswer warm = server.chat(request);
  request.conversation = opening(shared, seeded_words(kTailWords, "same-" + std::to_string(round)));
  const ChatAnswer same_slot = server.chat(request);
  if (!cold.ok() || !warm.ok() || !same_slot.ok()) return fail(Code::kUnavailable, "a request was not answered");
  for (const ChatAnswer* answer : {&cold, &warm, &same_slot})
    stage.report.answered(answer->text);
  times.cold_s.push_back(cold.first_token_s);
  times.warm_s.push_back(warm.first_token_s);
  times.same_slot_s.push_back(same_slot.first_token_s);
  times.cold_computed = cold.computed_tokens;
  times.warm_computed = warm.computed_tokens;
  stage.progress.step();
  return {};
}

}  // namespace

Status run_ttft(Stage& stage) {
  const uint32_t rounds = stage.quick ? 3 : 5;
  stage.progress.begin("time to first token", 2 * rounds);
  const std::vector<std::string> arguments = server_arguments(stage.threads(), kEngineSlots, 8192);
  Result<std::unique_ptr<Server>> stock = stage.fleet.start({Side::kStock, stage.model(), arguments, {}});
  if (!stock) return fail(stock.error());
  Result<std::unique_ptr<Server>> ours = stage.fleet.start({Side::kRhizome, stage.model(), arguments, {}});
  if (!ours) return fail(ours.error());
  Times stock_times;
  Times our_times;
  for (uint32_t round = 0; round < rounds; ++round) {
    if (const Status done = one_round(stage, **stock, round, stock_times); !done) return done;
    if (const Status done = one_round(stage, **ours, round, our_times); !done) return done;
  }
  stage.progress.pause();
  Report& report = stage.report;
  report.section("time to first token", "1,024 words shared; warm: another engine slot, other user text; medians of " +
                                            std::to_string(rounds) + " interleaved rounds; " + joined(arguments));
  report.row("cold", milliseconds(median(stock_times.cold_s)), milliseconds(median(our_times.cold_s)));
  report.row("warm", milliseconds(median(stock_times.warm_s)), milliseconds(median(our_times.warm_s)));
  report.row("the same slot once more", milliseconds(median(stock_times.same_slot_s)),
             milliseconds(median(our_times.same_slot_s)));
  report.row("computed cold", with_commas(stock_times.cold_computed), with_commas(our_times.cold_computed));
  report.row("computed warm", with_commas(stock_times.warm_computed), with_commas(our_times.warm_computed));
  const double stock_ratio = median(stock_times.warm_s) / median(stock_times.cold_s);
  const double our_ratio = median(our_times.warm_s) / median(our_times.cold_s);
  report.row("warm / cold", fixed(stock_ratio, 3), fixed(our_ratio, 3));
  report.figure("ratio_ttft_warm_over_cold_1024", our_ratio);
  report.figure("stock_ratio_ttft_warm_over_cold_1024", stock_ratio);
  report.figure("stock_ratio_ttft_same_slot_over_cold_1024",
                median(stock_times.same_slot_s) / median(stock_times.cold_s));
  return {};
}

}  // namespace rhizome::bench
