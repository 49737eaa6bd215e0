#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/contestants.h"
#include "bench/index_cases.h"
#include "bench/index_trace.h"
#include "bench/ledger_report.h"

namespace rhizome::bench {
namespace {

using Seats = std::vector<std::unique_ptr<TraceSeat>>;

constexpr uint64_t kCapacityTokens = 48'000'000;
constexpr size_t kQuickRequests = 400;
constexpr size_t kSlice = 512;  // requests between two steps of the progress bar

struct Plan {
  const Trace& trace;
  size_t requests;
  uint64_t capacity_tokens;
};

// Plays the whole trace with each contestant in turn: one that is fast would otherwise spend most of its time fetching
// back what the slow ones have driven out of the processor's caches. Where a ratio is promised, passes even out drift.
template <uint32_t kBlock>
Status play(IndexStage& stage, const Plan& plan, uint32_t threads, Comparison& speed, Comparison& latency) {
  const TraceShape shape{.capacity_tokens = plan.capacity_tokens, .threads = threads};
  Seats seats;
  Contestants<kBlock>::for_each([&]<Contestant C>() {
    seats.push_back(std::make_unique<TraceSeatOf<C>>(shape, plan.trace, plan.requests, stage.tokens));
  });
  for (const auto& seat : seats) {
    for (size_t begin = 0; begin < plan.requests; begin += kSlice) {
      if (const Status played = seat->play(begin, std::min(begin + kSlice, plan.requests)); !played) return played;
      stage.progress.step();
    }
    const TraceTotals totals = seat->finish();
    speed.add(seat->name(), totals.block_operations() * 1e3 / totals.ns);
    latency.add(seat->name(), totals.ns / static_cast<double>(totals.requests));
    const std::string suffix = "_" + std::string(seat->name()) + figure_suffix(threads, kBlock);
    stage.report.figure("trace_hit_share" + suffix,
                        static_cast<double>(totals.matched) / static_cast<double>(totals.looked_up));
    if (totals.requests != plan.requests) stage.report.failure("trace: not every request was played");
    report_ledger(stage.report, "trace", seat->name(), seat->ledger(), false);
  }
  return {};
}

template <uint32_t kBlock>
Status run_block(IndexStage& stage, const Plan& plan) {
  for (const uint32_t threads : {1U, 2U}) {
    // The ratio that is promised is of one thread.
    const bool is_promised = threads == 1;
    const std::string suffix = figure_suffix(threads, kBlock);
    const uint32_t passes = is_promised && kBlock == 16 && !stage.quick ? 3 : 1;
    const size_t slices = (plan.requests + kSlice - 1) / kSlice * Contestants<kBlock>::kCount;
    stage.progress.begin("trace, blocks of " + std::to_string(kBlock) + " tokens, threads: " + std::to_string(threads),
                         static_cast<uint32_t>(passes * slices));
    Comparison speed("trace", is_promised ? suffix.substr(std::string("_1t").size()) : suffix,
                     "m_block_operations_per_s");
    Comparison latency("trace_request", suffix);
    for (uint32_t pass = 0; pass < passes; ++pass) {
      if (const Status played = play<kBlock>(stage, plan, threads, speed, latency); !played) return played;
    }
    speed.report(stage.report, true);
    latency.report(stage.report);
  }
  return {};
}

}  // namespace

Status run_index_trace(IndexStage& stage) {
  std::string wrong;
  const Result<Trace> trace = load_trace(bundled_trace(stage.program, "conversation"), wrong);
  if (!trace) {
    stage.progress.pause();
    std::cerr << "rhizome bench: " << wrong << "\n";
    return fail(trace.error());
  }
  const Plan plan{*trace, stage.quick ? kQuickRequests : trace->requests.size(),
                  stage.quick ? kCapacityTokens / 40 : kCapacityTokens};
  stage.report.section("Mooncake's conversation trace", "hash ids as 512 tokens each, 64 requests in flight, LRU", "",
                       "");
  if (const Status status = run_block<16>(stage, plan); !status) return status;
  if (const Status status = run_block<64>(stage, plan); !status) return status;
  return run_block<256>(stage, plan);
}

}  // namespace rhizome::bench
