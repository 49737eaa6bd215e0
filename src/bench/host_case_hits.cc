// Hits: that they make no system call and copy nothing, what a pointer costs beside a copy, what storing costs, how
// much memory two readers take, and what somebody who floods the node does to the others.
#include <algorithm>
#include <cstring>
#include <vector>

#include <signal.h>

#include "bench/host_cases.h"
#include "bench/text.h"
#include "bench/workload.h"
#include "machine/clock.h"
#include "machine/host.h"

namespace rhizome::bench {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr HostShape kPrompt{.prefix_blocks = 60, .suffix_blocks = 4, .payload_bytes = 512};
// With its identity a slot takes a little more than a mebibyte.
constexpr HostShape kBig{.prefix_blocks = 0, .suffix_blocks = 1, .payload_bytes = 1 << 20};

double elapsed_ns(const std::function<void()>& run) {
  const uint64_t before_ns = monotonic_now_ns();
  run();
  return static_cast<double>(monotonic_now_ns() - before_ns);
}

// How a process ended that made hits under the filter; `slips`: with one system call in between.
Result<ExitStatus> filtered(HostStage& stage, const HostNode& node, uint32_t count, bool slips) {
  Result<std::unique_ptr<HostPart>> part = node.start_part(stage);
  if (!part) return fail(part.error());
  const HostOrder order{.verb = HostVerb::kFilteredHits, .count = count, .agents = slips ? uint64_t{1} : 0};
  if (const Status told = (*part)->tell(order); !told) return fail(told.error());
  return (*part)->ended();
}

}  // namespace

Status run_host_hits(HostStage& stage) {
  const uint32_t count = stage.quick ? 100'000 : 1'000'000;
  stage.progress.begin("hits without system calls", 3);
  Result<std::unique_ptr<HostNode>> node = HostNode::start(stage, kPrompt, 32 * kMiB);
  if (!node) return fail(node.error());
  if (const auto put = (*node)->put(0, 1); !put) return fail(put.error());
  const auto clean = filtered(stage, **node, count, false);
  if (!clean) return fail(clean.error());
  stage.progress.step();
  const auto slipped = filtered(stage, **node, count, true);
  if (!slipped) return fail(slipped.error());
  stage.progress.step();
  Result<std::unique_ptr<HostPart>> part = (*node)->start_part(stage);
  if (!part) return fail(part.error());
  const auto tally = (*part)->ask({.verb = HostVerb::kHit, .count = count});
  if (!tally) return fail(tally.error());
  stage.progress.step();
  stage.progress.pause();
  Report& report = stage.report;
  if (!slipped->signalled || slipped->value != SIGSYS) report.failure("hits: the filter lets a system call through");
  if (tally->done != count || tally->wrong > 0) report.failure("hits: not all of them were full and right");
  report.section("hits", with_commas(count) + " hits on 1,024 tokens: looked up, one block read, let go", "", "");
  report.row("under a filter that ends the process at any system call", "", clean->success() ? "all full" : "ended");
  report.row("bytes of blocks copied", "", with_commas(tally->bytes));
  report.answered("hits " + std::to_string(tally->done));
  report.figure("hit_syscalls", clean->success() ? 0 : 1);
  report.figure("hit_copied_bytes", static_cast<double>(tally->bytes));
  return {};
}

Status run_host_pointers(HostStage& stage) {
  constexpr uint64_t kAgents = 32;
  const uint32_t rounds = stage.quick ? 3 : 9;
  const uint32_t count = stage.quick ? 200 : 1000;
  stage.progress.begin("pointers", rounds);
  Result<std::unique_ptr<HostNode>> node = HostNode::start(stage, kBig, 80 * kMiB);
  if (!node) return fail(node.error());
  if (const auto put = (*node)->put(0, kAgents); !put) return fail(put.error());
  Result<std::unique_ptr<HostPart>> part = (*node)->start_part(stage);
  if (!part) return fail(part.error());
  // What the copies are made of: as many blocks, in memory of this process.
  std::vector<std::byte> blocks(kAgents * kMiB);
  const HostPrompts prompts(kBig);
  for (uint64_t agent = 0; agent < kAgents; ++agent)
    prompts.fill_payload(std::span(blocks).subspan(agent * kMiB, kMiB), agent, 0);
  std::vector<double> pointer_ns;
  std::vector<double> copy_ns;
  std::vector<double> ratios;
  for (uint32_t round = 0; round < rounds; ++round) {
    const auto pointed = (*part)->ask({.verb = HostVerb::kPoint, .count = count, .agents = kAgents, .seed = round});
    if (!pointed) return fail(pointed.error());
    if (pointed->lost + pointed->wrong > 0) stage.report.failure("pointers: a block was not there, or another one");
    const auto copied = (*part)->ask({.verb = HostVerb::kCopyFrom,
                                      .count = count / 4,
                                      .first = reinterpret_cast<uintptr_t>(blocks.data()),
                                      .agents = kMiB,
                                      .seed = kAgents});
    if (!copied) return fail(copied.error());
    stage.report.answered("pointers " + std::to_string(pointed->done));
    pointer_ns.push_back(pointed->median_ns);
    copy_ns.push_back(copied->median_ns);
    ratios.push_back(pointed->median_ns / copied->median_ns);
    stage.progress.step();
  }
  stage.progress.pause();
  Report& report = stage.report;
  report.section("a block of 1 MiB", "in another process; medians of " + std::to_string(rounds) + " rounds",
                 "process_vm_readv", "a pointer");
  report.row("to its first byte", fixed(median(copy_ns) / 1000, 1) + " us",
             fixed(median(pointer_ns) / 1000, 2) + " us");
  report.figure("ratio_pointer_vs_copy_1mib", median(ratios));
  return {};
}

Status run_host_stores(HostStage& stage) {
  constexpr uint32_t kBlocks = 64;
  const uint32_t rounds = stage.quick ? 3 : 11;
  stage.progress.begin("stores", rounds);
  Result<std::unique_ptr<HostNode>> node = HostNode::start(stage, kBig, 160 * kMiB);
  if (!node) return fail(node.error());
  Result<std::unique_ptr<HostPart>> part = (*node)->start_part(stage);
  if (!part) return fail(part.error());
  std::vector<std::byte> from(kBlocks * kMiB, std::byte{1});
  std::vector<std::byte> to(kBlocks * kMiB, std::byte{2});
  std::vector<double> ratios;
  std::vector<double> store_ns;
  std::vector<double> memcpy_ns;
  for (uint32_t round = 0; round < rounds; ++round) {
    // Once before, so that nothing of it is new to the processor that has waited for the other process.
    std::memcpy(to.data(), from.data(), to.size());
    const double plain_ns = elapsed_ns([&] { std::memcpy(to.data(), from.data(), to.size()); });
    // One by one, as an engine computes them.
    const auto stored = (*part)->ask({.verb = HostVerb::kStore, .count = kBlocks, .first = uint64_t{round} * kBlocks});
    if (!stored) return fail(stored.error());
    if (stored->done != kBlocks) return fail(Code::kUnavailable, "not all blocks were stored");
    const auto read = (*part)->ask({.verb = HostVerb::kReadAll, .count = kBlocks, .first = uint64_t{round} * kBlocks});
    if (!read) return fail(read.error());
    if (read->done != kBlocks || read->wrong > 0) stage.report.failure("stores: what was stored is not there");
    stage.report.answered("stores " + std::to_string(read->bytes));
    store_ns.push_back(stored->median_ns);
    memcpy_ns.push_back(plain_ns);
    ratios.push_back(plain_ns / stored->median_ns);
    stage.progress.step();
  }
  stage.progress.pause();
  const double bytes = static_cast<double>(kBlocks * kMiB);
  Report& report = stage.report;
  report.section("storing 64 MiB",
                 "in blocks of 1 MiB: written to staging memory, copied and checksummed by the node, committed; "
                 "medians of " +
                     std::to_string(rounds) + " rounds",
                 "memcpy", "stored");
  report.row("GB/s", fixed(bytes / median(memcpy_ns), 1), fixed(bytes / median(store_ns), 1));
  report.figure("ratio_store_vs_memcpy", median(ratios));
  return {};
}

Status run_host_memory(HostStage& stage) {
  const uint32_t blocks = stage.quick ? 48 : 256;
  stage.progress.begin("memory", 2);
  Result<std::unique_ptr<HostNode>> node = HostNode::start(stage, kBig, (blocks + 32) * kMiB);
  if (!node) return fail(node.error());
  if (const auto put = (*node)->put(0, blocks); !put) return fail(put.error());
  // One reader and the node, then two: pages that processes share count in parts.
  std::vector<std::unique_ptr<HostPart>> parts;
  std::vector<double> totals;
  for (uint32_t readers = 1; readers <= 2; ++readers) {
    // Who only reads writes little into staging memory.
    Result<std::unique_ptr<HostPart>> part = (*node)->start_part(stage, kMiB);
    if (!part) return fail(part.error());
    parts.push_back(std::move(*part));
    for (const auto& reader : parts) {
      const auto read = reader->ask({.verb = HostVerb::kReadAll, .count = blocks});
      if (!read) return fail(read.error());
      stage.report.answered("memory " + std::to_string(read->bytes));
      if (read->done != blocks || read->wrong > 0) stage.report.failure("memory: a reader did not find all blocks");
    }
    uint64_t total = proportional_set_bytes(own_pid());
    for (const auto& reader : parts) {
      const auto resident = reader->ask({.verb = HostVerb::kResident});
      if (!resident) return fail(resident.error());
      total += resident->bytes;
    }
    totals.push_back(static_cast<double>(total));
    stage.progress.step();
  }
  stage.progress.pause();
  Report& report = stage.report;
  report.section("memory of all processes", std::to_string(blocks) + " MiB of blocks, read by each", "one reader",
                 "two readers");
  report.row("proportional set size", fixed(totals[0] / static_cast<double>(kMiB), 0) + " MiB",
             fixed(totals[1] / static_cast<double>(kMiB), 0) + " MiB");
  report.figure("pss_two_readers_over_one", totals[1] / totals[0]);
  return {};
}

Status run_host_flood(HostStage& stage) {
  constexpr uint64_t kAgents = 64;
  const uint32_t rounds = stage.quick ? 3 : 9;
  const uint32_t count = stage.quick ? 20'000 : 100'000;
  stage.progress.begin("flood", rounds);
  Result<std::unique_ptr<HostNode>> node = HostNode::start(stage, kPrompt, 64 * kMiB);
  if (!node) return fail(node.error());
  if (const auto put = (*node)->put(0, kAgents); !put) return fail(put.error());
  Result<std::unique_ptr<HostPart>> user = (*node)->start_part(stage);
  Result<std::unique_ptr<HostPart>> flooder = (*node)->start_part(stage);
  if (!user) return fail(user.error());
  if (!flooder) return fail(flooder.error());
  std::vector<double> quiet_ns;
  std::vector<double> flooded_ns;
  std::vector<double> ratios;
  uint64_t floods = 0;
  uint64_t lost = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    // What the flood before has driven out, when it had the processors for itself.
    if (const auto put = (*node)->put(0, kAgents); !put) return fail(put.error());
    const HostOrder order{.verb = HostVerb::kLookUp, .count = count, .agents = kAgents, .seed = round};
    const auto quiet = (*user)->ask(order);
    if (!quiet) return fail(quiet.error());
    const auto flood_ms = static_cast<uint32_t>(quiet->median_ns * count * 2 / 1e6) + 50;
    const HostOrder flood{.verb = HostVerb::kFlood, .count = flood_ms, .first = uint64_t{round} << 24 | 1 << 20};
    if (const Status told = (*flooder)->tell(flood); !told) return told;
    const auto flooded = (*user)->ask(order);
    const auto asked = (*flooder)->hear();
    if (!flooded) return fail(flooded.error());
    if (!asked) return fail(asked.error());
    floods += asked->done;
    lost += flooded->lost;
    stage.report.answered("flood " + std::to_string(quiet->done + quiet->lost));
    stage.progress.step();
    // Who was not given a processor in time uses nothing, and what nobody uses leaves.
    if (quiet->done < count / 2 || flooded->done < count / 2) continue;
    quiet_ns.push_back(quiet->p99_ns);
    flooded_ns.push_back(flooded->p99_ns);
    ratios.push_back(flooded->p99_ns / quiet->p99_ns);
  }
  if (ratios.empty()) return fail(Code::kUnavailable, "what is in use was not found in any round");
  stage.progress.pause();
  Report& report = stage.report;
  report.section("hits beside a client that floods the node",
                 "look-ups of 1,024 tokens, 99th percentile; medians of " + std::to_string(rounds) + " rounds", "quiet",
                 "flooded");
  report.row("p99", fixed(median(quiet_ns), 0) + " ns", fixed(median(flooded_ns), 0) + " ns");
  report.note(with_commas(floods) + " times the other client stored and opened; " + with_commas(lost) +
              " look-ups beside it found less than all");
  report.figure("p99_ratio_with_flooding_client", median(ratios));
  return {};
}

}  // namespace rhizome::bench
