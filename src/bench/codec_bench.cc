#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/codec_cases.h"

namespace rhizome::bench {
namespace {

constexpr const char* kBenchName = "codec";
// As a small model's: 8 MiB hold five blocks of 64 tokens.
constexpr uint32_t kLayers = 30;
constexpr uint32_t kTokens = 384;
constexpr uint32_t kChannels = 192;

}  // namespace

std::vector<CaseText> codec_case_texts() {
  std::vector<CaseText> texts;
  for (const CodecCase& one : codec_cases())
    texts.push_back({one.name, one.what});
  return texts;
}

int run_codec_bench(const BenchOptions& options) {
  std::vector<const CodecCase*> cases;
  for (const std::string& name : options.cases)
    cases.push_back(find_codec_case(name));
  if (cases.empty()) {
    for (const CodecCase& one : codec_cases())
      cases.push_back(&one);
  }
  const Result<KvRows> rows =
      options.kv.empty() ? Result<KvRows>(KvRows::made_up(kLayers, kTokens, kChannels)) : KvRows::read(options.kv);
  if (!rows) {
    std::cerr << "rhizome bench: " << options.kv << ": " << rows.error().reason << "\n";
    return kBenchFailed;
  }
  Progress progress("rhizome bench");
  Report report(options.json ? nullptr : &std::cout, is_colored(), !options.quick);
  CodecStage stage{options.quick, progress, report, *rows, !options.kv.empty()};
  bool all_measured = true;
  for (const CodecCase* one : cases) {
    const Status measured = one->run(stage);
    progress.pause();
    if (measured) continue;
    all_measured = false;
    std::cerr << "rhizome bench: " << one->name << ": " << measured.error().reason << "\n";
  }
  report.print_figures();
  if (options.json) std::cout << report.json(kBenchName, machine_facts()) << "\n" << std::flush;
  return all_measured && !report.failed() ? 0 : kBenchFailed;
}

}  // namespace rhizome::bench
