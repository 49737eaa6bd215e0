#include "bench/exact_compare.h"

#include <algorithm>
#include <atomic>
#include <iostream>

#include "bench/agents_compare.h"
#include "bench/text.h"
#include "machine/thread.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kOtherConversations = 20;
constexpr uint32_t kOthersDecoding = 3;
constexpr uint32_t kEngineSlots = 4;
constexpr uint32_t kContextTokens = 4096;
constexpr const char* kSituations[] = {"fresh server", "after 20 other conversations", "while three others decode"};

struct Asked {
  ChatRequest request;
  ChatAnswer cold;
};
using Situation = std::vector<Asked>;

ChatRequest small_request(const std::string& seed, uint32_t words, uint32_t generated) {
  ChatRequest request;
  request.conversation = opening(seeded_words(words, seed), seeded_words(16, seed + "-tail"));
  request.max_tokens = generated;
  request.ignore_end = true;
  return request;
}

Result<Situation> ask_cold(Stage& stage, const Server& server, const AgentsShape& shape) {
  Situation asked;
  AgentHistories histories(shape);
  for (uint32_t round = 0; round < shape.rounds; ++round) {
    for (uint32_t agent = 0; agent < shape.agents; ++agent) {
      ChatRequest request;
      request.conversation = histories.of(agent);
      request.max_tokens = shape.generated_tokens;
      request.ignore_end = true;
      request.with_log_probabilities = true;
      ChatAnswer answer = server.chat(request);
      stage.progress.step();
      if (!answer.ok()) return fail(Code::kUnavailable, "a request was not answered");
      stage.report.answered(answer.printed_probabilities);
      if (answer.computed_tokens != answer.prompt_tokens) {
        stage.report.failure("exact, cold: the server computed " + std::to_string(answer.computed_tokens) + " of " +
                             std::to_string(answer.prompt_tokens) + " prompt tokens");
      }
      histories.extend(agent, round, answer.text);
      asked.push_back({std::move(request), std::move(answer)});
    }
  }
  return asked;
}

uint32_t situations_of(const ExactPlan& plan) {
  return plan.all_situations ? 3 : 1;
}

Result<std::vector<Situation>> run_cold(Stage& stage, const ExactPlan& plan) {
  stage.progress.begin("exact, " + plan.name + ", cold", situations_of(plan) * plan.shape.agents * plan.shape.rounds);
  ServerPlan server_plan{Side::kRhizome,
                         plan.model,
                         exact_arguments(stage.threads(), kEngineSlots, kContextTokens),
                         {"--exact", "--no-restore"}};
  Result<std::unique_ptr<Server>> server = stage.fleet.start(server_plan);
  if (!server) return fail(server.error());
  const Metrics before = (*server)->metrics();
  std::vector<Situation> situations;
  for (uint32_t i = 0; i < situations_of(plan); ++i) {
    AgentsShape shape = plan.shape;
    shape.seed += "-" + std::to_string(i);
    Result<Situation> asked = ask_cold(stage, **server, shape);
    if (!asked) return fail(asked.error());
    situations.push_back(std::move(*asked));
  }
  const MetricsDelta metrics{before, (*server)->metrics()};
  const double restored = metrics.of(Counter::kTokensRestoredSlab) + metrics.of(Counter::kTokensRestoredDisk) +
                          metrics.of(Counter::kTokensRestoredLive) + metrics.of(Counter::kTokensKept);
  if (restored != 0) {
    stage.report.failure("exact, " + plan.name + ": the cold side restored " + fixed(restored, 0) + " tokens");
  }
  return situations;
}

// Three threads that keep an answer in the making each, until they are told to stop.
class OthersDecoding {
 public:
  explicit OthersDecoding(const Server& server) {
    for (uint32_t i = 0; i < kOthersDecoding; ++i) {
      Result<Thread> thread =
          start_thread("bench-other", [this, &server, i](const std::stop_token& stop) { run(server, i, stop); });
      if (thread) threads_.push_back(std::move(*thread));
    }
  }

  // How many tokens they were given; 0 when any of them was refused.
  uint64_t stop() {
    for (Thread& thread : threads_)
      thread.request_stop();
    for (Thread& thread : threads_)
      thread.join();
    threads_.clear();
    return refused_ ? 0 : generated_.load();
  }

 private:
  void run(const Server& server, uint32_t other, const std::stop_token& stop) {
    for (uint32_t turn = 0; !stop.stop_requested(); ++turn) {
      const std::string seed = "other-" + std::to_string(other) + "-" + std::to_string(turn);
      const ChatAnswer answer = server.chat(small_request(seed, 40, 96));
      generated_ += answer.generated_tokens;
      if (answer.ok()) continue;
      refused_ = true;
      return;
    }
  }

  std::atomic<uint64_t> generated_ = 0;
  std::atomic<bool> refused_ = false;
  std::vector<Thread> threads_;
};

void compare_one(Stage& stage, const std::string& where, const Asked& asked, const ChatAnswer& warm,
                 ExactOutcome& outcome) {
  ++outcome.compared;
  outcome.prompt_tokens += asked.cold.prompt_tokens;
  outcome.cold_computed += asked.cold.computed_tokens;
  outcome.warm_computed += warm.computed_tokens;
  outcome.cold_first_to_last_s += asked.cold.total_s;
  outcome.warm_first_to_last_s += warm.total_s;
  stage.report.answered(warm.printed_probabilities);
  if (same_answer(asked.cold, warm)) return;
  ++outcome.different;
  size_t at = 0;
  const auto& cold_tokens = asked.cold.probabilities;
  while (at < std::min(cold_tokens.size(), warm.probabilities.size()) && cold_tokens[at] == warm.probabilities[at])
    ++at;
  stage.report.failure(where + ": an answer differs from the computed one at token " + std::to_string(at) + " of " +
                       std::to_string(cold_tokens.size()) + " (" +
                       std::to_string(warm.prompt_tokens - warm.computed_tokens) + " of " +
                       std::to_string(warm.prompt_tokens) + " prompt tokens restored)");
}

Status ask_warm(Stage& stage, const Server& server, const std::string& where, const Situation& situation,
                ExactOutcome& outcome) {
  for (const Asked& asked : situation) {
    const ChatAnswer warm = server.chat(asked.request);
    stage.progress.step();
    if (!warm.ok()) return fail(Code::kUnavailable, "a request was not answered");
    compare_one(stage, where, asked, warm, outcome);
  }
  return {};
}

Status run_warm(Stage& stage, const ExactPlan& plan, const std::vector<Situation>& situations, ExactOutcome& outcome) {
  stage.progress.begin("exact, " + plan.name + ", warm", situations_of(plan) * plan.shape.agents * plan.shape.rounds);
  ServerPlan server_plan{
      Side::kRhizome, plan.model, exact_arguments(stage.threads(), kEngineSlots, kContextTokens), {"--exact"}};
  Result<std::unique_ptr<Server>> server = stage.fleet.start(server_plan);
  if (!server) return fail(server.error());
  for (uint32_t i = 0; i < situations.size(); ++i) {
    const std::string where = "exact, " + plan.name + ", " + kSituations[i];
    if (i == 1) {
      for (uint32_t other = 0; other < kOtherConversations; ++other) {
        const ChatAnswer answer = (*server)->chat(small_request("before-" + std::to_string(other), 100, 4));
        if (!answer.ok()) return fail(Code::kUnavailable, "a request was not answered");
      }
    }
    if (i != 2) {
      if (const Status done = ask_warm(stage, **server, where, situations[i], outcome); !done) return done;
      continue;
    }
    OthersDecoding others(**server);
    const Status done = ask_warm(stage, **server, where, situations[i], outcome);
    const uint64_t generated = others.stop();
    if (!done) return done;
    if (generated == 0) stage.report.failure(where + ": the others were not served");
  }
  stage.progress.pause();
  return {};
}

}  // namespace

double ExactOutcome::restored_share() const {
  return prompt_tokens == 0 ? 0 : 1.0 - static_cast<double>(warm_computed) / static_cast<double>(prompt_tokens);
}

bool same_answer(const ChatAnswer& a, const ChatAnswer& b) {
  return !a.probabilities.empty() && a.probabilities == b.probabilities &&
         a.printed_probabilities == b.printed_probabilities && a.text == b.text && a.prompt_tokens == b.prompt_tokens;
}

Result<ExactOutcome> compare_exactly(Stage& stage, const ExactPlan& plan) {
  const Result<std::vector<Situation>> situations = run_cold(stage, plan);
  if (!situations) return fail(situations.error());
  ExactOutcome outcome;
  if (const Status done = run_warm(stage, plan, *situations, outcome); !done) return fail(done.error());
  return outcome;
}

}  // namespace rhizome::bench
