#include <cstddef>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/comparison.h"
#include "bench/hash_map.h"
#include "bench/index_cases.h"
#include "bench/index_contestant.h"
#include "bench/ticks.h"
#include "bench/together.h"
#include "bench/workload.h"
#include "bench/xxh3.h"
#include "index/kernels.h"
#include "machine/clock.h"
#include "machine/mapping.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kTokens = 8192;
constexpr uint32_t kCacheLine = 64;

// Nanoseconds of one call of `run`, over `times` calls.
template <class Run>
double mean_ns(uint32_t times, Run run) {
  const uint64_t start = ticks_now();
  for (uint32_t i = 0; i < times; ++i)
    run();
  return static_cast<double>(ticks_now() - start) * ns_per_tick() / times;
}

template <uint32_t kBlock>
uint64_t hash_all_64(std::span<const Token> tokens) {
  uint64_t sum = 0;
  for (size_t at = 0; at < tokens.size(); at += kBlock)
    sum += xxh3_64(&tokens[at], kBlock * sizeof(Token));
  return sum;
}

template <uint32_t kBlock>
uint64_t hash_all_chained(std::span<const Token> tokens) {
  XXH128_hash_t key = {1, 42};
  for (size_t at = 0; at < tokens.size(); at += kBlock)
    key = chained_key<kBlock>(key, &tokens[at]);
  return key.low64;
}

// Per block of 8,192 tokens that lie in the cache.
template <uint32_t kBlock>
void measure_hashes(IndexStage& stage, std::span<const Token> tokens) {
  const uint32_t times = stage.quick ? 20 : 500;
  std::vector<double> plain;
  std::vector<double> chained;
  std::vector<double> fingerprints;
  const Kernels kernels = fastest_kernels(kBlock);
  const FingerprintKey key = FingerprintKey::from_seed(1);
  std::vector<uint64_t> stored(kTokens / kBlock);
  constexpr double kBlocks = double{kTokens} / kBlock;
  uint64_t sum = 0;
  for (uint32_t round = 0; round < stage.rounds(); ++round) {
    fingerprints.push_back(mean_ns(times,
                                   [&] {
                                     kernels.fingerprint(key, tokens.data(), kTokens / kBlock, stored.data());
                                     sum += stored.back();
                                   }) /
                           kBlocks);
    plain.push_back(mean_ns(times, [&] { sum += hash_all_64<kBlock>(tokens); }) / kBlocks);
    chained.push_back(mean_ns(times, [&] { sum += hash_all_chained<kBlock>(tokens); }) / kBlocks);
    stage.progress.step();
  }
  const std::string suffix = "_b" + std::to_string(kBlock);
  stage.report.figure("fingerprint_ns_per_block" + suffix, median(fingerprints));
  stage.report.figure("ratio_fingerprint_vs_xxh3_128_chained" + suffix, median(chained) / median(fingerprints));
  stage.report.figure("xxh3_64_ns_per_block" + suffix, median(plain));
  stage.report.figure("xxh3_128_chained_ns_per_block" + suffix, median(chained));
  stage.report.answered("kernels" + suffix + ": " + std::to_string(sum));
}

// A ring through all cache lines of the memory, in an order that no prefetcher guesses (Sattolo's shuffle).
void make_ring(std::span<std::byte> memory) {
  std::vector<uint32_t> order(memory.size() / kCacheLine);
  std::iota(order.begin(), order.end(), 0U);
  SeededNumbers numbers(3);
  for (size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[numbers.below(i)]);
  for (size_t line = 0; line < order.size(); ++line)
    *reinterpret_cast<uint64_t*>(&memory[line * kCacheLine]) = order[line];
}

Status measure_memory_load(IndexStage& stage) {
  const uint64_t bytes = uint64_t{stage.quick ? 64U : 256U} << 20;
  const Result<Mapping> memory = Mapping::anonymous(bytes, Mapping::Pages::kPrefault);
  if (!memory) return fail(memory.error());
  const std::span<std::byte> lines = memory->bytes();
  make_ring(lines);
  std::vector<double> rounds;
  uint64_t line = 0;
  for (uint32_t round = 0; round < stage.rounds(); ++round) {
    rounds.push_back(mean_ns(stage.quick ? 20'000 : 500'000,
                             [&] { line = *reinterpret_cast<const uint64_t*>(&lines[line * kCacheLine]); }));
    stage.progress.step();
  }
  stage.report.figure("memory_load_ns", median(rounds));
  stage.report.answered("memory: " + std::to_string(line));
  return {};
}

// A hot look-up of 8,192 stored tokens over what the fingerprints of these tokens take alone.
void measure_lookup_over_kernel(IndexStage& stage, std::span<const Token> tokens) {
  constexpr uint32_t kBlock = 16;
  const uint32_t times = stage.quick ? 20 : 500;
  IndexContestant<FingerprintIndex, kBlock> index({kTokens / kBlock, 1});
  std::vector<Location> locations(kTokens / kBlock);
  std::iota(locations.begin(), locations.end(), Location{0});
  IndexContestant<FingerprintIndex, kBlock>::Handle handle;
  index.insert(tokens, locations, handle);
  index.release(handle);
  const Kernels kernels = fastest_kernels(kBlock);
  const FingerprintKey key = FingerprintKey::from_seed(1);
  std::vector<uint64_t> fingerprints(locations.size());
  std::vector<Location> found(locations.size());
  std::vector<double> ratios;
  uint64_t sum = 0;
  for (uint32_t round = 0; round < stage.rounds(); ++round) {
    const double kernel = mean_ns(times, [&] {
      kernels.fingerprint(key, tokens.data(), kTokens / kBlock, fingerprints.data());
      sum += fingerprints.back();
    });
    const double lookup = mean_ns(times, [&] {
      sum += index.lookup(tokens, found, handle);
      index.release(handle);
    });
    ratios.push_back(lookup / kernel);
    stage.progress.step();
  }
  stage.report.figure("ratio_lookup_vs_kernel", median(ratios));
  stage.report.answered("lookup over kernel: " + std::to_string(sum) + " " + std::to_string(found.back()));
}

// Processors that two threads have which want one each: below 2 the machine had something else to do, and what is
// measured with two threads is worth less.
Status measure_processors(IndexStage& stage, std::span<const Token> tokens) {
  struct Worker {
    std::span<const Token> tokens;
    uint64_t cpu_ns = 0;
    uint64_t sum = 0;
    void operator()(bool is_measured) {
      const uint64_t before_ns = thread_cpu_now_ns();
      sum += hash_all_chained<16>(tokens);
      if (is_measured) cpu_ns += thread_cpu_now_ns() - before_ns;
    }
    void measured_alone() {}
  };
  const uint32_t calls = stage.quick ? 500 : 10'000;
  std::vector<double> rounds;
  for (uint32_t round = 0; round < stage.rounds(); ++round) {
    std::vector<Worker> workers(2, Worker{tokens});
    const uint64_t before_ns = monotonic_now_ns();
    if (const Status ran = run_together(workers, calls, calls); !ran) return ran;
    const double wall_ns = static_cast<double>(monotonic_now_ns() - before_ns);
    rounds.push_back(static_cast<double>(workers[0].cpu_ns + workers[1].cpu_ns) / wall_ns);
    stage.progress.step();
  }
  stage.report.figure("two_threads_cpus", median(rounds));
  return {};
}

}  // namespace

Status run_index_kernels(IndexStage& stage) {
  stage.progress.begin("hashes, processors and memory", 6 * stage.rounds());
  std::vector<Token> tokens(kTokens);
  stage.tokens.fill(tokens, 1);
  measure_hashes<16>(stage, tokens);
  measure_hashes<64>(stage, tokens);
  measure_hashes<256>(stage, tokens);
  measure_lookup_over_kernel(stage, tokens);
  if (const Status status = measure_processors(stage, tokens); !status) return status;
  return measure_memory_load(stage);
}

}  // namespace rhizome::bench
