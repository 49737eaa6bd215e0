#include "bench/bench.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>

#include "bench/benchmarks.h"

namespace rhizome {
namespace bench {
namespace {

constexpr std::array kBenchmarks = {
    Benchmark{"agents", "llama-server, stock and with Rhizome: both get the same agents", agents_case_texts,
              run_agents_bench, true, false, true},
    Benchmark{"index", "the prefix index beside a tree of locks and a hash map", index_case_texts, run_index_bench,
              false, false},
    Benchmark{"codec", "the codecs of block images beside memcpy and zstd", codec_case_texts, run_codec_bench, true,
              true},
    Benchmark{"store", "hits in memory, and blocks that come and go below it", store_case_texts, run_store_bench, false,
              false},
    Benchmark{"host", "a node and the processes that share its memory", host_case_texts, run_host_bench, false, false},
    Benchmark{"disk", "the disk tier beside a plain file", disk_case_texts, run_disk_bench, false, false},
};

}  // namespace

std::span<const Benchmark> benchmarks() {
  return kBenchmarks;
}

const Benchmark* find_benchmark(std::string_view name) {
  for (const Benchmark& benchmark : kBenchmarks) {
    if (benchmark.name == name) return &benchmark;
  }
  return nullptr;
}

bool is_colored() {
  const char* no_color = std::getenv("NO_COLOR");
  return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == 0);
}

}  // namespace bench

namespace {

using namespace bench;

struct Typed {
  std::string name;
  BenchOptions options;
};

// "agents, index"
std::string known_names() {
  std::string names;
  for (const Benchmark& benchmark : benchmarks())
    names += (names.empty() ? "" : ", ") + std::string(benchmark.name);
  return names;
}

std::string padded(std::string_view name) {
  constexpr size_t kNameWidth = 16;
  return "  " + std::string(name) + std::string(kNameWidth - std::min(kNameWidth - 1, name.size()), ' ');
}

std::string footer() {
  std::string text = "Benchmarks:\n";
  for (const Benchmark& benchmark : benchmarks())
    text += padded(benchmark.name) + std::string(benchmark.what) + "\n";
  for (const Benchmark& benchmark : benchmarks()) {
    text += "\nCases of `" + std::string(benchmark.name) + "`:\n";
    for (const CaseText& one : benchmark.cases())
      text += padded(one.name) + std::string(one.what) + "\n";
  }
  return text + "\nExample: rhizome bench agents turns at_once --json";
}

std::unique_ptr<CLI::App> make_parser(Typed& typed) {
  auto app = std::make_unique<CLI::App>("Measures, in the same run, beside the structure that is compared against.",
                                        "rhizome bench");
  app->add_option("NAME", typed.name, "The benchmark: " + known_names())->required();
  app->add_option("CASE", typed.options.cases, "What of it; without one, all");
  app->add_flag(
      "--quick", typed.options.quick,
      "Less of everything: agents with the two-layer model, under a minute; codec and host, about a minute; the "
      "others under 10 s");
  app->add_flag("--json", typed.options.json, "One JSON object on standard output and nothing else there");
  app->add_option("--model", typed.options.model,
                  "agents, codec: another GGUF model than the one that `make setup` fetched");
  app->add_option("--picture", typed.options.picture,
                  "agents: where to draw the computed tokens of each round (default: build/demo.svg, installed: "
                  "rhizome-demo.svg)");
  app->add_option(
      "--kv", typed.options.kv,
      "codec: a file of a model's KV (docs/bench.md), or `made-up`, which has no sizes; without it, what a model "
      "computes");
  app->footer(footer());
  return app;
}

// The benchmark when the call is right; else nothing, and `status`.
const Benchmark* parse(const BenchCall& call, Typed& typed, int& status) {
  const std::unique_ptr<CLI::App> app = make_parser(typed);
  std::vector<std::string> reversed(call.arguments.rbegin(), call.arguments.rend());
  status = kBenchCalledWrongly;
  try {
    app->parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << app->help();
    status = 0;
    return nullptr;
  } catch (const CLI::ParseError& error) {
    std::cerr << "rhizome bench: " << error.what() << "; see rhizome bench --help\n";
    return nullptr;
  }
  const Benchmark* benchmark = find_benchmark(typed.name);
  if (benchmark == nullptr) {
    std::cerr << "rhizome bench: there is no benchmark '" << typed.name << "'; there is: " << known_names() << "\n";
    return nullptr;
  }
  const std::vector<CaseText> known = benchmark->cases();
  for (const std::string& name : typed.options.cases) {
    if (std::ranges::find(known, name, &CaseText::name) != known.end()) continue;
    std::cerr << "rhizome bench: " << typed.name << " has no case '" << name << "'; see rhizome bench --help\n";
    return nullptr;
  }
  if (!benchmark->takes_model && !(typed.options.model.empty() && typed.options.picture.empty())) {
    std::cerr << "rhizome bench: " << typed.name << " takes no --model and no --picture\n";
    return nullptr;
  }
  if (!benchmark->takes_picture && !typed.options.picture.empty()) {
    std::cerr << "rhizome bench: " << typed.name << " takes no --picture\n";
    return nullptr;
  }
  if (!benchmark->takes_kv && !typed.options.kv.empty()) {
    std::cerr << "rhizome bench: " << typed.name << " takes no --kv\n";
    return nullptr;
  }
  return benchmark;
}

}  // namespace

int bench_main(const BenchCall& call) {
  Typed typed;
  typed.options.program = call.program;
  int status = 0;
  const Benchmark* benchmark = parse(call, typed, status);
  return benchmark == nullptr ? status : benchmark->run(typed.options);
}

std::string bench_help() {
  Typed typed;
  return make_parser(typed)->help();
}

}  // namespace rhizome
