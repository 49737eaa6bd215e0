// The benchmarks that `rhizome bench` knows, and what they share: how they are called.
//
// Thread-safety: one call at a time.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rhizome::bench {

inline constexpr int kBenchFailed = 1;
inline constexpr int kBenchCalledWrongly = 2;

struct BenchOptions {
  std::string program;             // path of this very program
  std::vector<std::string> cases;  // each is one that the benchmark has; none: all
  bool quick = false;
  bool json = false;
  std::string model;    // only for agents and codec; empty: the one that tools/setup fetched
  std::string picture;  // only for agents; empty: where it is by default
  std::string kv;       // only for codec; empty: what the model computes
};

struct CaseText {
  std::string_view name;
  std::string_view what;
};

struct Benchmark {
  std::string_view name;
  std::string_view what;
  // What can be named.
  std::vector<CaseText> (*cases)();
  // The exit status.
  int (*run)(const BenchOptions& options);
  bool takes_model;  // --model
  bool takes_kv;     // --kv
  bool takes_picture = false;
};

std::span<const Benchmark> benchmarks();
// Null when there is none.
const Benchmark* find_benchmark(std::string_view name);

// Whether results may be coloured: standard output is a terminal, and NO_COLOR does not forbid it.
bool is_colored();

std::vector<CaseText> agents_case_texts();
int run_agents_bench(const BenchOptions& options);
std::vector<CaseText> index_case_texts();
int run_index_bench(const BenchOptions& options);
std::vector<CaseText> codec_case_texts();
int run_codec_bench(const BenchOptions& options);
std::vector<CaseText> disk_case_texts();
int run_disk_bench(const BenchOptions& options);
std::vector<CaseText> host_case_texts();
int run_host_bench(const BenchOptions& options);
std::vector<CaseText> store_case_texts();
int run_store_bench(const BenchOptions& options);

}  // namespace rhizome::bench
