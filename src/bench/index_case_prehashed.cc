// The trace with hashes given: what a router pays which mirrors other caches. Its peers are other programs
// (bench/peers); what they measure is measured here in the same way.
#include <malloc.h>

#include <algorithm>
#include <iostream>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/index_cases.h"
#include "bench/ledger.h"
#include "bench/ledger_report.h"
#include "bench/prehashed_work.h"
#include "bench/text.h"
#include "bench/ticks.h"
#include "contract/check.h"
#include "index/index.h"
#include "index/named_blocks.h"
#include "machine/host.h"

namespace rhizome::bench {
namespace {

constexpr std::string_view kKeyspace = "bench";
constexpr size_t kQuickRequests = 400;
constexpr uint64_t kAddressSpace = uint64_t{4} << 30;
constexpr Location kNowhere = std::numeric_limits<Location>::max();

// Of the runs, as they are just after they have been stored, and a quarter more.
uint64_t run_bytes(const PrehashedWork& work) {
  const uint64_t block_bytes = sizeof(uint64_t) + sizeof(Location);
  return (work.stored() * block_bytes + work.requests.size() * 2 * 64) * 5 / 4;
}

// Evicts by itself, so it needs no names.
class Hashes {
 public:
  static constexpr std::string_view kName = "prehashed";

  explicit Hashes(const PrehashedWork& work)
      : work_(work), index_(IndexOptions{.memory_bytes = kAddressSpace}), canonical_(work.longest) {
    const Result<Root> root = index_.open(std::as_bytes(std::span(kKeyspace)));
    RHIZOME_CHECK(root);
    root_ = *root;
  }

  void prefault() { index_.prefault(run_bytes(work_)); }
  Match lookup(const PrehashedRequest& request, std::span<Location> out) {
    return index_.lookup(root_, request.hashes, out);
  }
  void store(Match& match, const PrehashedRequest& request) {
    const std::span<const Location> locations = work_.new_locations(request);
    Result<Inserted> inserted = index_.insert(root_, match.handle, request.hashes, match.blocks, locations,
                                              std::span(canonical_).first(locations.size()));
    RHIZOME_CHECK(inserted);
    match.handle = std::move(inserted->handle);
  }
  void release(Match& match) { RHIZOME_CHECK(index_.release(std::move(match.handle))); }

 private:
  const PrehashedWork& work_;
  PrehashedIndex index_;
  Root root_;
  std::vector<Location> canonical_;
};

// Is told by name what is gone.
class Named {
 public:
  static constexpr std::string_view kName = "named";

  explicit Named(const PrehashedWork& work)
      : work_(work), blocks_({.index = IndexOptions{.memory_bytes = kAddressSpace}}) {}

  void prefault() { blocks_.prefault(work_.stored(), run_bytes(work_)); }
  Match lookup(const PrehashedRequest& request, std::span<Location> out) { return blocks_.lookup(request.hashes, out); }
  void store(Match& match, const PrehashedRequest& request) {
    Result<Handle> stored = blocks_.store(match.handle, request.hashes, match.blocks, work_.new_names(request));
    RHIZOME_CHECK(stored);
    match.handle = std::move(*stored);
  }
  void release(Match& match) { RHIZOME_CHECK(blocks_.release(std::move(match.handle))); }
  size_t remove(std::span<const uint64_t> names) { return blocks_.remove_by_hash(names); }

 private:
  const PrehashedWork& work_;
  NamedBlocks blocks_;
};

struct Pass {
  uint64_t lookup_ticks = 0;
  uint64_t store_ticks = 0;  // releases included
  uint64_t remove_ticks = 0;
  double bytes = 0;  // of memory that has become resident
};

template <class Tree>
class Player {
 public:
  Player(const PrehashedWork& work, Ledger& ledger)
      : work_(work), ledger_(ledger), found_(work.longest), expected_(work.longest), where_(work.stored(), kNowhere) {}

  Pass play(bool prefaulted) {
    std::fill(where_.begin(), where_.end(), kNowhere);
    ::malloc_trim(0);
    const double before = static_cast<double>(process_rss_bytes(own_pid()).value_or(0));
    Tree tree(work_);
    if (prefaulted) tree.prefault();
    Pass pass;
    for (const PrehashedRequest& request : work_.requests)
      serve(tree, request, pass);
    pass.bytes = static_cast<double>(process_rss_bytes(own_pid()).value_or(0)) - before;
    if constexpr (requires { tree.remove(work_.names); }) remove_all(tree, pass);
    return pass;
  }

 private:
  void serve(Tree& tree, const PrehashedRequest& request, Pass& pass) {
    const uint64_t start = ticks_now();
    Match match = tree.lookup(request, found_);
    const uint64_t looked_up = ticks_now();
    check(request, match.blocks, request.known);
    const uint64_t checked = ticks_now();
    if (match.blocks == request.known && request.known < request.hashes.size()) tree.store(match, request);
    tree.release(match);
    pass.lookup_ticks += looked_up - start;
    pass.store_ticks += ticks_now() - checked;
  }

  // A block is where it was when it was met first.
  void check(const PrehashedRequest& request, uint32_t blocks, uint32_t expected_blocks) {
    for (uint32_t i = 0; i < blocks; ++i) {
      Location& where = where_[request.numbers[i]];
      if (where == kNowhere) where = found_[i];
      expected_[i] = where;
    }
    ledger_.checked(std::span(found_).first(blocks), std::span(expected_).first(std::min(blocks, expected_blocks)),
                    false);
    if (blocks < expected_blocks) ledger_.failed();
  }

  // As an engine would that lets go of everything: the newest sequences first, each from its end.
  void remove_all(Tree& tree, Pass& pass) {
    std::vector<uint64_t> names;
    for (auto request = work_.requests.rbegin(); request != work_.requests.rend(); ++request) {
      const std::span<const uint64_t> gone = work_.new_names(*request);
      names.assign(gone.rbegin(), gone.rend());
      const uint64_t start = ticks_now();
      const size_t known = tree.remove(names);
      pass.remove_ticks += ticks_now() - start;
      if (known != names.size()) ledger_.failed();
    }
    for (const PrehashedRequest& request : work_.requests) {
      Match match = tree.lookup(request, found_);
      check(request, match.blocks, 0);
      tree.release(match);
    }
  }

  const PrehashedWork& work_;
  Ledger& ledger_;
  std::vector<Location> found_;
  std::vector<Location> expected_;
  std::vector<Location> where_;
};

template <class Value>
double median_of(const std::vector<Pass>& passes, Value value) {
  std::vector<double> values;
  for (const Pass& pass : passes)
    values.push_back(value(pass));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Tree>
void measure(IndexStage& stage, const PrehashedWork& work, const std::string& suffix) {
  Ledger ledger(0);
  Player<Tree> player(work, ledger);
  const Pass first = player.play(false);
  std::vector<Pass> passes;
  for (uint32_t round = 0; round < (stage.quick ? 1 : stage.rounds()); ++round) {
    passes.push_back(player.play(true));
    stage.progress.step();
  }
  const double stored = static_cast<double>(work.stored());
  const double looked_up = static_cast<double>(work.looked_up);
  const auto speed_of = [&](const Pass& pass) {
    const double ns = static_cast<double>(pass.lookup_ticks + pass.store_ticks) * ns_per_tick();
    return (looked_up + stored) * 1e3 / ns;
  };
  const double speed = median_of(passes, speed_of);
  const auto per = [&](uint64_t Pass::* ticks, double blocks) {
    return median_of(passes,
                     [&](const Pass& pass) { return static_cast<double>(pass.*ticks) * ns_per_tick() / blocks; });
  };
  const std::string who(Tree::kName);
  Report& report = stage.report;
  report.figure(who + "_trace_m_block_operations_per_s" + suffix, speed);
  report.figure(who + "_cold_trace_m_block_operations_per_s" + suffix, speed_of(first));
  report.figure(who + "_lookup_ns" + suffix, per(&Pass::lookup_ticks, looked_up));
  report.figure(who + "_store_ns" + suffix, per(&Pass::store_ticks, stored));
  if (passes.front().remove_ticks > 0) report.figure(who + "_remove_ns" + suffix, per(&Pass::remove_ticks, stored));
  report.figure(who + "_bytes_per_block" + suffix, first.bytes / stored);
  report.row(who + suffix, fixed(speed, 1) + " M/s", fixed(first.bytes / stored, 1) + " B/block");
  report_ledger(report, "prehashed", who + suffix, ledger, false);
}

}  // namespace

Status run_index_prehashed(IndexStage& stage) {
  std::string wrong;
  const Result<Trace> trace = load_trace(bundled_trace(stage.program, "conversation"), wrong);
  if (!trace) {
    stage.progress.pause();
    std::cerr << "rhizome bench: " << wrong << "\n";
    return fail(trace.error());
  }
  stage.report.section("Mooncake's conversation trace, hashes given", "look up, store, release; nothing is evicted",
                       "speed", "memory");
  for (const uint32_t block_tokens : {16U, 512U}) {
    const std::string suffix = "_b" + std::to_string(block_tokens);
    stage.progress.begin("trace with hashes, blocks of " + std::to_string(block_tokens) + " tokens",
                         2 * stage.rounds());
    const PrehashedWork work = prehash(*trace, stage.quick ? kQuickRequests : trace->requests.size(), block_tokens);
    measure<Hashes>(stage, work, suffix);
    measure<Named>(stage, work, suffix);
  }
  return {};
}

}  // namespace rhizome::bench
