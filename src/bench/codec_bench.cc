#include <array>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/codec_cases.h"
#include "bench/kv_capture.h"
#include "bench/local_cases.h"
#include "bench/locations.h"
#include "bench/server_process.h"
#include "bench/watched_run.h"
#include "machine/process.h"

namespace rhizome::bench {
namespace {

constexpr const char* kBenchName = "codec";
// As a small model's: 8 MiB hold five blocks of 64 tokens.
constexpr uint32_t kLayers = 30;
constexpr uint32_t kTokens = 384;
constexpr uint32_t kChannels = 192;
constexpr const char* kMadeUpKv = "made-up";
constexpr std::array kElementTypes = {ElementType::kBf16, ElementType::kF16};

// What is encoded.
struct Source {
  std::vector<KvRows> rows;
  bool is_model = false;
  std::string from;
};

// Nothing, and the reason on standard error, for what follows when there is none.
std::optional<Source> refuse(std::string_view reason) {
  std::cerr << "rhizome bench: " << reason << "\n";
  return std::nullopt;
}

std::optional<Source> capture(const BenchOptions& options) {
  std::string missing;
  const Result<Locations> where = find_locations(options.program, options.model, missing);
  if (!where) return refuse(missing + " (without a model: --kv " + kMadeUpKv + ")");
  Result<SignalWait> signals = SignalWait::create();
  if (!signals) return refuse(signals.error().reason);
  const Result<std::unique_ptr<Fleet>> fleet = Fleet::create(*where);
  if (!fleet) return refuse("no folder for the server's log: " + std::string(fleet.error().reason));
  Source source;
  source.is_model = true;
  source.from = "the KV of " + where->full_model.substr(where->full_model.rfind('/') + 1);
  Status captured;
  const Status watched = run_watched(**fleet, *signals, [&] {
    Progress progress("rhizome bench");
    progress.begin("the model reads", kElementTypes.size());
    for (const ElementType type : kElementTypes) {
      Result<KvRows> rows = capture_kv(**fleet, {where->full_model, type, options.quick});
      if (!rows) {
        captured = fail(rows.error());
        return;
      }
      source.rows.push_back(std::move(*rows));
      progress.step();
    }
  });
  if ((*fleet)->interrupted()) return refuse("interrupted; every server was stopped");
  if (!watched) return refuse(watched.error().reason);
  if (captured) return source;
  (*fleet)->keep_logs();
  return refuse("no KV of the model: " + std::string(captured.error().reason));
}

std::optional<Source> find_source(const BenchOptions& options) {
  if (options.kv.empty()) return capture(options);
  Source source;
  if (options.kv == kMadeUpKv) {
    source.rows.push_back(KvRows::made_up(kLayers, kTokens, kChannels));
    source.from = "made-up KV";
    return source;
  }
  Result<KvRows> rows = KvRows::read(options.kv);
  if (!rows) return refuse(options.kv + ": " + std::string(rows.error().reason));
  source.rows.push_back(std::move(*rows));
  source.is_model = true;
  source.from = "the KV in " + options.kv;
  return source;
}

}  // namespace

std::vector<CaseText> codec_case_texts() {
  return case_texts(codec_cases());
}

int run_codec_bench(const BenchOptions& options) {
  const std::vector<const CodecCase*> cases = chosen_cases(codec_cases(), options.cases);
  const std::optional<Source> source = find_source(options);
  if (!source) return kBenchFailed;
  Progress progress("rhizome bench");
  const bool is_judged = !options.quick && options.kv.empty() && options.model.empty();
  Report report(options.json ? nullptr : &std::cout, is_colored(), is_judged);
  CodecStage stage{options.quick, progress, report, source->rows, source->is_model, source->from};
  bool all_measured = true;
  for (const CodecCase* one : cases)
    all_measured = run_case(*one, stage) && all_measured;
  return end_of_run(report, options, kBenchName, all_measured);
}

}  // namespace rhizome::bench
