#include <memory>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/contestants.h"
#include "bench/index_cases.h"
#include "bench/index_shared.h"
#include "bench/ledger_report.h"

namespace rhizome::bench {
namespace {

using Seats = std::vector<std::unique_ptr<SharedSeat>>;

template <uint32_t kBlock>
SharedShape shape_of(const IndexStage& stage) {
  constexpr uint32_t kBlocks = kBlock == 256 ? 400'000 : 1'000'000;
  SharedShape shape;
  shape.agents = (stage.quick ? 20'000 : kBlocks) / (shape.suffix_tokens / kBlock);
  shape.operations = stage.quick ? 60 : 3'000;
  return shape;
}

struct Measure {
  SharedLookup kind;
  const char* name;
};
constexpr Measure kMeasures[] = {{SharedLookup::kFullHit, "lookup"},
                                 {SharedLookup::kPrefixHit, "prefix_hit"},
                                 {SharedLookup::kPrefix, "same_prefix"}};

// Throughput of two threads over that of one, on the same prefix.
void report_scaling(Report& report, const Seats& seats, const Comparison& one, const Comparison& two, uint32_t block) {
  if (block != 16) return;
  for (const auto& seat : seats) {
    const std::string name = seat->name() == "h64" ? "" : std::string(seat->name()) + "_";
    report.figure("ratio_" + name + "lookup_two_threads_over_one",
                  2 * one.median_of(seat->name()) / two.median_of(seat->name()));
  }
}

Status measure_lookups(IndexStage& stage, const Seats& seats, uint32_t block) {
  for (const Measure& measure : kMeasures) {
    std::vector<Comparison> by_threads;
    for (const uint32_t threads : {1U, 2U}) {
      Comparison& comparison = by_threads.emplace_back(measure.name, figure_suffix(threads, block));
      for (uint32_t round = 0; round < stage.rounds(); ++round) {
        for (const auto& seat : seats) {
          const Result<Samples> samples = seat->look_up(measure.kind, threads, round);
          if (!samples) return fail(samples.error());
          comparison.add(seat->name(), samples->median_ns());
        }
        stage.progress.step();
      }
      comparison.report(stage.report);
    }
    if (measure.kind == SharedLookup::kPrefix) report_scaling(stage.report, seats, by_threads[0], by_threads[1], block);
  }
  return {};
}

// Evicting in the batches of a cycle, per block.
void report_evictions(Report& report, const Seats& seats, const Comparison& evict) {
  for (const auto& seat : seats) {
    const std::string name(seat->name());
    report.figure(is_baseline(name) ? "evict_" + name + "_ns" : figure_prefix(name) + "evict_batch64_ns",
                  evict.median_of(name));
  }
}

Status measure_cycles(IndexStage& stage, const Seats& seats, uint32_t block, uint32_t suffix_blocks) {
  for (const uint32_t threads : {1U, 2U}) {
    const std::string suffix = figure_suffix(threads, block);
    Comparison cycle("cycle", suffix);
    Comparison insert("insert", suffix, "ns_per_block");
    Comparison evict("evict", suffix, "ns_per_block");
    for (uint32_t round = 0; round < stage.rounds(); ++round) {
      for (const auto& seat : seats) {
        const Result<CycleSamples> samples = seat->cycle(threads);
        if (!samples) return fail(samples.error());
        cycle.add(seat->name(), samples->all.median_ns());
        insert.add(seat->name(), samples->insert.median_ns() / suffix_blocks);
        evict.add(seat->name(), samples->evict.median_ns() / suffix_blocks);
      }
      stage.progress.step();
    }
    for (const Comparison* comparison : {&cycle, &insert, &evict})
      comparison->report(stage.report);
    if (threads == 1 && block == 16) report_evictions(stage.report, seats, evict);
  }
  return {};
}

template <uint32_t kBlock>
Status run_block(IndexStage& stage) {
  const SharedShape shape = shape_of<kBlock>(stage);
  stage.progress.begin("shared prefix, blocks of " + std::to_string(kBlock) + " tokens", 8 * stage.rounds());
  Seats seats;
  Contestants<kBlock>::for_each(
      [&]<Contestant C>() { seats.push_back(std::make_unique<SharedSeatOf<C>>(shape, stage.tokens)); });
  if (const Status status = measure_lookups(stage, seats, kBlock); !status) return status;
  if (const Status status = measure_cycles(stage, seats, kBlock, shape.suffix_tokens / kBlock); !status) return status;
  for (const auto& seat : seats)
    report_ledger(stage.report, "shared", seat->name(), seat->ledger());
  return {};
}

}  // namespace

Status run_index_shared(IndexStage& stage) {
  stage.report.section("Agents that share a prefix", "medians of one operation, each thread's own time", "", "");
  if (const Status status = run_block<16>(stage); !status) return status;
  if (const Status status = run_block<64>(stage); !status) return status;
  return run_block<256>(stage);
}

}  // namespace rhizome::bench
