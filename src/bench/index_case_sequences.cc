#include <malloc.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/contestants.h"
#include "bench/index_cases.h"
#include "bench/index_sequences.h"
#include "bench/ledger_report.h"
#include "machine/host.h"

namespace rhizome::bench {
namespace {

using Seats = std::vector<std::unique_ptr<SequencesSeat>>;

constexpr uint32_t kRandomTokens = 2048;

template <uint32_t kBlock>
Seats make_seats(const IndexStage& stage, const SequencesShape& shape) {
  Seats seats;
  Contestants<kBlock>::for_each(
      [&]<Contestant C>() { seats.push_back(std::make_unique<SequencesSeatOf<C>>(shape, stage.tokens)); });
  return seats;
}

// The first block of a prompt that nobody stored: the figure that has a name of its own.
void report_first_miss(Report& report, const Seats& seats, const Comparison& miss) {
  for (const auto& seat : seats) {
    if (!is_baseline(seat->name()))
      report.figure(figure_prefix(seat->name()) + "miss_first_block_ns", miss.median_of(seat->name()));
  }
}

Status measure_lookups(IndexStage& stage, const Seats& seats, const std::string& measure, uint32_t block) {
  for (const bool is_stored : {true, false}) {
    for (const uint32_t threads : {1U, 2U}) {
      Comparison comparison(measure + (is_stored ? "_hit" : "_miss"), figure_suffix(threads, block));
      for (uint32_t round = 0; round < stage.rounds(); ++round) {
        for (const auto& seat : seats) {
          const Result<Samples> samples = seat->look_up(is_stored, threads, round);
          if (!samples) return fail(samples.error());
          comparison.add(seat->name(), samples->median_ns());
        }
        stage.progress.step();
      }
      comparison.report(stage.report);
      if (measure == "random" && !is_stored && threads == 1 && block == 16)
        report_first_miss(stage.report, seats, comparison);
    }
  }
  return {};
}

Status measure_turnover(IndexStage& stage, const Seats& seats, uint32_t block) {
  for (const uint32_t threads : {1U, 2U}) {
    Comparison comparison("single_turnover", figure_suffix(threads, block));
    for (uint32_t round = 0; round < stage.rounds(); ++round) {
      for (const auto& seat : seats) {
        const Result<Samples> samples = seat->turn_over(threads);
        if (!samples) return fail(samples.error());
        comparison.add(seat->name(), samples->median_ns());
      }
      stage.progress.step();
    }
    comparison.report(stage.report);
  }
  return {};
}

void report_ledgers(Report& report, const std::string& measure, const Seats& seats) {
  for (const auto& seat : seats)
    report_ledger(report, measure, seat->name(), seat->ledger());
}

template <uint32_t kBlock>
Status run_random_block(IndexStage& stage) {
  SequencesShape shape{.blocks_each = kRandomTokens / kBlock};
  shape.sequences = (stage.quick ? 20'000 : kBlock == 256 ? 400'000 : 1'000'000) / shape.blocks_each;
  shape.operations = stage.quick ? 200 : 5'000;
  stage.progress.begin("random sequences, blocks of " + std::to_string(kBlock) + " tokens", 4 * stage.rounds());
  const Seats seats = make_seats<kBlock>(stage, shape);
  if (const Status status = measure_lookups(stage, seats, "random", kBlock); !status) return status;
  report_ledgers(stage.report, "random", seats);
  return {};
}

template <uint32_t kBlock>
Status run_single_block(IndexStage& stage) {
  SequencesShape shape{.blocks_each = 1};
  shape.sequences = stage.quick ? 20'000 : kBlock == 256 ? 200'000 : 500'000;
  shape.operations = stage.quick ? 1'000 : 20'000;
  stage.progress.begin("single blocks of " + std::to_string(kBlock) + " tokens", 6 * stage.rounds());
  const Seats seats = make_seats<kBlock>(stage, shape);
  if (const Status status = measure_lookups(stage, seats, "single", kBlock); !status) return status;
  if (const Status status = measure_turnover(stage, seats, kBlock); !status) return status;
  report_ledgers(stage.report, "single", seats);
  return {};
}

// Resident memory that one contestant takes, over its blocks. What was freed before is given back first.
template <Contestant C>
double bytes_per_block(const IndexStage& stage, const SequencesShape& shape) {
  ::malloc_trim(0);
  const double before = static_cast<double>(process_rss_bytes(own_pid()).value_or(0));
  const SequencesSeatOf<C> seat(shape, stage.tokens);
  const double after = static_cast<double>(process_rss_bytes(own_pid()).value_or(0));
  const double blocks = static_cast<double>(shape.sequences) * shape.blocks_each;
  return (after - before) / blocks - 1;  // less the ledger's byte
}

void measure_memory(IndexStage& stage, uint32_t run) {
  const uint32_t blocks = stage.quick ? 100'000 : 1'000'000;
  const SequencesShape shape{.blocks_each = run, .sequences = blocks / run, .as_needed = true};
  const std::string suffix = "_r" + std::to_string(run);
  Contestants<16>::for_each([&]<Contestant C>() {
    const std::string name(C::kName);
    const double bytes = bytes_per_block<C>(stage, shape);
    const std::string owner = name == "h64" ? "index" : name;
    stage.report.figure(owner + "_bytes_per_block" + suffix, bytes);
    if (name == "exact" && run == 64) stage.report.figure("exact_bytes_per_block_b16", bytes);
    stage.progress.step();
  });
}

}  // namespace

Status run_index_random(IndexStage& stage) {
  stage.report.section("Sequences that share nothing", "2,048 tokens each", "", "");
  if (const Status status = run_random_block<16>(stage); !status) return status;
  if (const Status status = run_random_block<64>(stage); !status) return status;
  return run_random_block<256>(stage);
}

Status run_index_single(IndexStage& stage) {
  stage.report.section("Sequences of one block", "turnover: evict 64 at once, store 64 new ones; per sequence", "", "");
  if (const Status status = run_single_block<16>(stage); !status) return status;
  if (const Status status = run_single_block<64>(stage); !status) return status;
  return run_single_block<256>(stage);
}

Status run_index_memory(IndexStage& stage) {
  stage.progress.begin("memory a block takes", 9);
  for (const uint32_t run : {64U, 16U, 1U})
    measure_memory(stage, run);
  return {};
}

}  // namespace rhizome::bench
