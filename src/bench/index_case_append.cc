#include <memory>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/contestants.h"
#include "bench/index_append.h"
#include "bench/index_cases.h"
#include "bench/ledger_report.h"

namespace rhizome::bench {
namespace {

using Seats = std::vector<std::unique_ptr<AppendSeat>>;

constexpr uint32_t kTokensAtFirst = 1024;

Status measure(IndexStage& stage, const Seats& seats, const std::string& name, uint32_t block,
               Result<Samples> (AppendSeat::*run)(uint32_t threads)) {
  for (const uint32_t threads : {1U, 2U}) {
    Comparison comparison(name, figure_suffix(threads, block));
    for (uint32_t round = 0; round < stage.rounds(); ++round) {
      for (const auto& seat : seats) {
        const Result<Samples> samples = (*seat.*run)(threads);
        if (!samples) return fail(samples.error());
        comparison.add(seat->name(), samples->median_ns());
      }
      stage.progress.step();
    }
    comparison.report(stage.report);
  }
  return {};
}

template <uint32_t kBlock>
Status run_block(IndexStage& stage) {
  AppendShape shape{.sessions = stage.quick ? 100U : 2'000U, .blocks_at_first = kTokensAtFirst / kBlock};
  shape.blocks_at_most = shape.blocks_at_first + 2 * stage.rounds();
  stage.progress.begin("growing sequences, blocks of " + std::to_string(kBlock) + " tokens", 4 * stage.rounds());
  Seats seats;
  Contestants<kBlock>::for_each(
      [&]<Contestant C>() { seats.push_back(std::make_unique<AppendSeatOf<C>>(shape, stage.tokens)); });
  if (const Status status = measure(stage, seats, "append", kBlock, &AppendSeat::append); !status) return status;
  if (const Status status = measure(stage, seats, "grown_hit", kBlock, &AppendSeat::look_up); !status) return status;
  for (const auto& seat : seats)
    report_ledger(stage.report, "append", seat->name(), seat->ledger());
  return {};
}

}  // namespace

Status run_index_append(IndexStage& stage) {
  stage.report.section("Sequences that grow by a block", "append: one block behind a held handle", "", "");
  if (const Status status = run_block<16>(stage); !status) return status;
  if (const Status status = run_block<64>(stage); !status) return status;
  return run_block<256>(stage);
}

}  // namespace rhizome::bench
