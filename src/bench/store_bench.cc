// The store alone, on blocks of SmolLM2-135M's size: what a hit in memory costs, with and without a tier that has
// nothing to do, and what it costs when the block has to come from the disk.
#include <array>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/host_work.h"
#include "bench/kv_rows.h"
#include "bench/local_cases.h"
#include "bench/progress.h"
#include "bench/report.h"
#include "bench/run_folder.h"
#include "bench/text.h"
#include "bench/workload.h"
#include "machine/clock.h"
#include "slab/block_copy.h"
#include "store/store.h"
#include "telemetry/log.h"
#include "tier/disk/disk_tier.h"

namespace rhizome::bench {
namespace {

constexpr const char* kBenchName = "store";
constexpr uint32_t kBlockTokens = 16;
constexpr uint32_t kLayers = 30;
constexpr uint32_t kChannels = 192;
constexpr uint32_t kPromptBlocks = 64;
constexpr uint64_t kFlushPatienceNs = 30'000'000'000;

// One prompt's blocks, a store, and whoever asks for them.
class StoreUnderTest {
 public:
  static Result<std::unique_ptr<StoreUnderTest>> make(const KvRows& rows, uint64_t memory_bytes,
                                                      const std::string& folder) {
    auto made = std::unique_ptr<StoreUnderTest>(new StoreUnderTest(rows));
    StoreOptions options{.memory_bytes = memory_bytes, .block_tokens = kBlockTokens};
    if (!folder.empty()) {
      Result<std::unique_ptr<DiskTier>> tier = DiskTier::open({.directory = folder, .bytes_max = uint64_t{256} << 20});
      if (!tier) return fail(tier.error());
      options.tier = std::move(*tier);
    }
    Result<std::unique_ptr<Store>> store = Store::create(std::move(options), *made->counters_);
    if (!store) return fail(store.error());
    made->store_ = std::move(*store);
    const Result<Root> root = made->store_->open(bench_keyspace(), rows.geometry(kBlockTokens));
    if (!root) return fail(root.error());
    made->root_ = *root;
    return made;
  }

  static std::vector<Token> prompt(uint32_t number) {
    std::vector<Token> tokens(size_t{kPromptBlocks} * kBlockTokens);
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<Token>(number * 100'000 + i);
    return tokens;
  }

  // Blocks of one prompt differ from those of another: by as much as they are turned.
  const std::vector<std::byte>& block(uint32_t number, uint32_t index) const {
    return blocks_[(number + index) % blocks_.size()];
  }

  Status put(uint32_t number) {
    Result<BlockDraft> draft = store_->reserve(root_, prompt(number), 0);
    if (!draft) return fail(draft.error());
    for (uint32_t i = 0; i < draft->blocks_count(); ++i) {
      const std::vector<std::byte>& from = block(number, draft->first_block() + i);
      std::memcpy(draft->payload(i).data(), from.data(), from.size());
    }
    store_->commit(std::move(*draft));
    return {};
  }

  // Blocks that came, and how many of them were wrong.
  uint32_t get(uint32_t number, bool compares, uint32_t& wrong) {
    const std::vector<Token> tokens = prompt(number);
    store_->lookup(root_, tokens, prefix_);
    const uint32_t end = store_->promote(prefix_, tokens, 0, prefix_.blocks());
    uint32_t came = 0;
    while (came < end) {
      const auto bytes = store_->read(prefix_, tokens, came);
      if (!bytes) break;
      if (compares && std::memcmp(bytes->data(), block(number, came).data(), bytes->size()) != 0) ++wrong;
      ++came;
    }
    prefix_.release();
    return came;
  }

  void flush() { store_->flush(monotonic_now_ns() + kFlushPatienceNs); }
  uint64_t count(Counter counter) const { return counters_->get(counter); }
  uint64_t block_bytes() const { return blocks_[0].size(); }

 private:
  explicit StoreUnderTest(const KvRows& rows) : counters_(Counters::local()) {
    for (uint32_t i = 0; i < rows.blocks_count(kBlockTokens); ++i)
      blocks_.push_back(rows.block(kBlockTokens, i));
  }

  std::vector<std::vector<std::byte>> blocks_;
  const std::unique_ptr<Counters> counters_;
  std::unique_ptr<Store> store_;
  Root root_;
  StoredPrefix prefix_;
};

struct StoreStage {
  bool quick;
  Progress& progress;
  Report& report;
  std::string folder;
  const KvRows& rows;
};

struct StoreCase {
  std::string_view name;
  std::string_view what;
  Status (*run)(StoreStage&);
};

// Nanoseconds of one hit on a whole prompt.
double hit_ns(StoreUnderTest& store, uint32_t prompts, uint32_t& wrong) {
  uint32_t came = 0;
  const uint64_t before_ns = monotonic_now_ns();
  for (uint32_t number = 0; number < prompts; ++number)
    came += store.get(number, false, wrong);
  const auto ns = static_cast<double>(monotonic_now_ns() - before_ns);
  if (came != prompts * kPromptBlocks) ++wrong;
  return ns / prompts;
}

Status run_hits(StoreStage& stage) {
  constexpr uint64_t kMemory = uint64_t{256} << 20;
  const uint32_t prompts = 4;
  const uint32_t rounds = stage.quick ? 5 : 41;
  stage.progress.begin("hits in memory", rounds);
  auto alone = StoreUnderTest::make(stage.rows, kMemory, "");
  auto with_tier = StoreUnderTest::make(stage.rows, kMemory, stage.folder + "/idle");
  if (!alone) return fail(alone.error());
  if (!with_tier) return fail(with_tier.error());
  uint32_t wrong = 0;
  for (StoreUnderTest* store : {alone->get(), with_tier->get()}) {
    for (uint32_t number = 0; number < prompts; ++number) {
      if (const Status put = store->put(number); !put) return put;
      static_cast<void>(store->get(number, true, wrong));
    }
    store->flush();
  }
  std::vector<double> alone_ns;
  std::vector<double> ratios;
  const uint64_t copied_before = copied_block_bytes();
  for (uint32_t round = 0; round < rounds; ++round) {
    // There and back, so that each comes once behind itself and once behind the other.
    double ns_alone = hit_ns(**alone, prompts, wrong);
    double ns_with_tier = hit_ns(**with_tier, prompts, wrong);
    ns_with_tier += hit_ns(**with_tier, prompts, wrong);
    ns_alone += hit_ns(**alone, prompts, wrong);
    alone_ns.push_back(ns_alone / 2);
    ratios.push_back(ns_with_tier / ns_alone);
    stage.progress.step();
  }
  const uint64_t copied = copied_block_bytes() - copied_before;
  stage.progress.pause();
  Report& report = stage.report;
  const double bytes = static_cast<double>((*alone)->block_bytes()) * kPromptBlocks;
  report.section("hits in memory",
                 "64 blocks of 360 KiB, looked up and read with their checksums; medians of " + std::to_string(rounds) +
                     " interleaved rounds",
                 "without a tier", "with an idle one");
  report.row("a hit on 1,024 tokens", fixed(median(alone_ns) / 1e6, 2) + " ms",
             fixed(median(ratios) * median(alone_ns) / 1e6, 2) + " ms");
  report.row("bytes verified", fixed(bytes / median(alone_ns), 1) + " GB/s", "-");
  report.row("bytes of blocks copied", with_commas(copied), "");
  report.figure("hit_copied_bytes", static_cast<double>(copied));
  report.figure("ratio_hit_with_idle_tier_over_without", median(ratios));
  report.figure("store_wrong_blocks", wrong);
  return {};
}

// Prompts take turns in a memory that holds a few of them: each comes from the disk.
Status run_loads(StoreStage& stage) {
  constexpr uint64_t kMemory = uint64_t{96} << 20;
  const uint32_t prompts = stage.quick ? 6 : 8;
  const uint32_t rounds = stage.quick ? 2 : 9;
  stage.progress.begin("loads from disk", rounds);
  auto store = StoreUnderTest::make(stage.rows, kMemory, stage.folder + "/loads");
  if (!store) return fail(store.error());
  const uint64_t write_began_ns = monotonic_now_ns();
  for (uint32_t number = 0; number < prompts; ++number) {
    if (const Status put = (*store)->put(number); !put) return put;
    (*store)->flush();
  }
  const auto write_ns = static_cast<double>(monotonic_now_ns() - write_began_ns);
  const uint64_t written = (*store)->count(Counter::kBlocksWritten);
  uint32_t wrong = 0;
  uint32_t came = 0;
  std::vector<double> gigabytes_per_s;
  for (uint32_t round = 0; round < rounds; ++round) {
    for (uint32_t number = 0; number < prompts; ++number) {
      const uint64_t loaded_before = (*store)->count(Counter::kPromotions);
      const uint64_t began_ns = monotonic_now_ns();
      const uint32_t blocks = (*store)->get(number, false, wrong);
      const auto ns = static_cast<double>(monotonic_now_ns() - began_ns);
      came += blocks;
      const uint64_t loaded = (*store)->count(Counter::kPromotions) - loaded_before;
      if (loaded == kPromptBlocks) {
        gigabytes_per_s.push_back(static_cast<double>(loaded * (*store)->block_bytes()) / ns);
      }
    }
    stage.progress.step();
  }
  for (uint32_t number = 0; number < prompts; ++number)
    static_cast<void>((*store)->get(number, true, wrong));
  stage.progress.pause();
  if (came != rounds * prompts * kPromptBlocks) stage.report.failure("loads: blocks were lost");
  if (gigabytes_per_s.empty()) stage.report.failure("loads: nothing had to be loaded");
  Report& report = stage.report;
  const double raw_bytes = static_cast<double>(written * (*store)->block_bytes());
  report.section(
      "loads from disk",
      "prompts of 1,024 tokens take turns in 96 MiB; read, checked, decoded into slots, verified; GB/s of rows", "",
      "");
  report.row("written behind, with syncs", "", fixed(raw_bytes / write_ns, 2) + " GB/s");
  if (!gigabytes_per_s.empty()) report.row("a prompt from disk", "", fixed(median(gigabytes_per_s), 2) + " GB/s");
  report.figure("load_gb_per_s", gigabytes_per_s.empty() ? 0 : median(gigabytes_per_s));
  report.figure("store_wrong_blocks", wrong + report.figure_value("store_wrong_blocks").value_or(0));
  return {};
}

constexpr std::array kCases = {
    StoreCase{"hits", "hits in memory, without a tier and with one that is idle", run_hits},
    StoreCase{"loads", "prompts that have to come from the disk", run_loads},
};

}  // namespace

std::vector<CaseText> store_case_texts() {
  return case_texts(std::span<const StoreCase>(kCases));
}

int run_store_bench(const BenchOptions& options) {
  const std::vector<const StoreCase*> cases = chosen_cases(std::span<const StoreCase>(kCases), options.cases);
  set_log_level(LogLevel::kWarning);
  const KvRows rows = KvRows::made_up(kLayers, kPromptBlocks * kBlockTokens, kChannels);
  Progress progress("rhizome bench");
  Report report(options.json ? nullptr : &std::cout, is_colored(), !options.quick);
  bool all_measured = true;
  for (const StoreCase* one : cases) {
    const RunFolder folder;
    if (!folder.is_there()) {
      std::cerr << "rhizome bench: no folder to measure in can be made in " << folder.path() << "\n";
      return kBenchFailed;
    }
    StoreStage stage{options.quick, progress, report, folder.path(), rows};
    all_measured = run_case(*one, stage) && all_measured;
  }
  return end_of_run(report, options, kBenchName, all_measured);
}

}  // namespace rhizome::bench
