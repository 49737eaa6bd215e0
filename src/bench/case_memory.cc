// How quickly blocks come back from memory, and how much memory holding them takes.
#include <algorithm>
#include <cstring>

#include "bench/agents_compare.h"
#include "bench/cases.h"
#include "bench/side_by_side.h"
#include "bench/text.h"
#include "machine/clock.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kRestoredWords = 1024;
constexpr size_t kCopiedBytes = 24'000'000;  // as many as one restore on the full model
constexpr double kGigabyte = 1e9;
constexpr double kMebibyte = 1024.0 * 1024.0;

struct Budget {
  uint64_t mebibytes;
  uint32_t prompts;
};
constexpr Budget kBudget = {256, 500};
constexpr Budget kQuickBudget = {32, 70};
constexpr uint32_t kPromptWords = 370;  // about 400 tokens with the template around them

ChatRequest short_request(const std::string& system_seed, uint32_t words, const std::string& tail_seed) {
  ChatRequest request;
  request.conversation = opening(seeded_words(words, system_seed), seeded_words(16, tail_seed));
  request.max_tokens = 1;
  return request;
}

// Many prompts, one after another; what the server's processes hold when it is done.
Result<uint64_t> resident_after(Stage& stage, Side side, const Budget& budget) {
  const bool ours = side == Side::kRhizome;
  stage.progress.begin(std::string("memory for many prompts, ") + (ours ? "rhizome" : "stock"), budget.prompts);
  ServerPlan plan{side, stage.where.quick_model, server_arguments(stage.threads(), 4, 8192), {}};
  if (ours) plan.cache_arguments = {"--memory", std::to_string(budget.mebibytes) + "MiB"};
  // Stock would keep up to 8 GiB of prompts itself; Rhizome takes that cache out, so stock runs without it here.
  if (!ours) plan.arguments.insert(plan.arguments.end(), {"--cache-ram", "0", "--ctx-checkpoints", "0"});
  Result<std::unique_ptr<Server>> server = stage.fleet.start(plan);
  if (!server) return fail(server.error());
  for (uint32_t i = 0; i < budget.prompts; ++i) {
    const std::string seed = "memory-" + std::to_string(i);
    const ChatAnswer answer = (*server)->chat(short_request(seed, kPromptWords, seed + "-tail"));
    if (!answer.ok()) return fail(Code::kUnavailable, "a request was not answered");
    stage.report.answered(answer.text);
    stage.progress.step();
  }
  stage.progress.pause();
  return (*server)->resident_bytes();
}

// Copies bytes once from place to place, as a restore does three times: what memory gives at this moment.
class CopySpeed {
 public:
  explicit CopySpeed(size_t bytes) : from_(bytes, std::byte{1}), to_(bytes) {}

  double gigabytes_per_s() {
    const uint64_t start_ns = monotonic_now_ns();
    std::memcpy(to_.data(), from_.data(), from_.size());
    const double seconds = static_cast<double>(monotonic_now_ns() - start_ns) / 1e9;
    from_.swap(to_);
    return static_cast<double>(from_.size()) / seconds / kGigabyte;
  }

 private:
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

std::string mebibytes(double bytes) {
  return fixed(bytes / kMebibyte, 1) + " MiB";
}

}  // namespace

// One engine slot and two prompts that take it from one another: each comes back from the store every time.
Status run_restore(Stage& stage) {
  const uint32_t rounds = stage.quick ? 4 : 11;
  stage.progress.begin("restoring from memory", rounds + 2);
  Result<std::unique_ptr<Server>> server =
      stage.fleet.start({Side::kRhizome, stage.model(), server_arguments(stage.threads(), 1, 4096), {}});
  if (!server) return fail(server.error());
  std::vector<double> gigabytes_per_s;
  std::vector<double> copied_gigabytes_per_s;
  CopySpeed copy(kCopiedBytes);
  double bytes_last = 0;
  for (uint32_t round = 0; round < rounds + 2; ++round) {
    const Metrics before = (*server)->metrics();
    const std::string system_seed = "restore-" + std::to_string(round % 2);
    const ChatAnswer answer =
        (*server)->chat(short_request(system_seed, kRestoredWords, "tail-" + std::to_string(round)));
    if (!answer.ok()) return fail(Code::kUnavailable, "a request was not answered");
    stage.report.answered(answer.text);
    stage.progress.step();
    const MetricsDelta metrics{before, (*server)->metrics()};
    if (round < 2) continue;  // nobody has seen these
    bytes_last = metrics.of(Counter::kBytesRestored);
    const double seconds = metrics.of(Counter::kRestoreTime);
    copied_gigabytes_per_s.push_back(copy.gigabytes_per_s());
    gigabytes_per_s.push_back(seconds > 0 ? bytes_last / seconds / kGigabyte : 0);
  }
  stage.progress.pause();
  if (bytes_last == 0) stage.report.failure("restore: nothing came back from the store");
  const double rate = median(gigabytes_per_s);
  stage.report.section("restoring from memory",
                       "1,024 words, one engine slot; median of " + std::to_string(rounds) + " restores");
  stage.report.row("bytes of one restore", "-", with_commas(static_cast<uint64_t>(bytes_last)));
  stage.report.row("restored", "-", fixed(rate, 2) + " GB/s");
  const auto [slowest, fastest] = std::minmax_element(gigabytes_per_s.begin(), gigabytes_per_s.end());
  stage.report.row("slowest, fastest", "-", fixed(*slowest, 2) + "-" + fixed(*fastest, 2));
  stage.report.row("a plain copy at the same time", "-", fixed(median(copied_gigabytes_per_s), 2) + " GB/s");
  stage.report.figure("restore_gb_per_s", rate);
  stage.report.figure("copy_gb_per_s", median(copied_gigabytes_per_s));
  return {};
}

Status run_memory(Stage& stage) {
  const Budget budget = stage.quick ? kQuickBudget : kBudget;
  const Result<Sides<uint64_t>> resident =
      measure_sides<uint64_t>(stage.quick, [&](Side side) { return resident_after(stage, side, budget); });
  if (!resident) return fail(resident.error());
  const auto off = static_cast<double>(resident->stock);
  const auto on = static_cast<double>(resident->ours);
  const double added = on - off;
  const double ratio = added / (static_cast<double>(budget.mebibytes) * kMebibyte);
  stage.report.section("memory for many prompts",
                       std::to_string(budget.prompts) +
                           " distinct prompts of about 400 tokens, two-layer model, --memory " +
                           std::to_string(budget.mebibytes) + "MiB; stock with --cache-ram 0");
  stage.report.row("resident memory afterwards", mebibytes(off), mebibytes(on));
  stage.report.row("added by Rhizome", "-", mebibytes(added));
  stage.report.row("added / budget", "-", fixed(ratio, 3));
  stage.report.figure("rss_over_budget_ratio", ratio);
  return {};
}

}  // namespace rhizome::bench
