#include "bench/agents_run.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "machine/clock.h"
#include "machine/thread.h"

namespace rhizome::bench {
namespace {

// What the chat template adds around a user text of one word and the answer's beginning.
constexpr uint64_t kTokensAroundUserWord = 6;
constexpr double kCountsDisagreeMax = 0.005;

void sum_up(AgentsRun& run) {
  for (const auto& round : run.rounds) {
    uint64_t computed = 0;
    for (const ChatAnswer& answer : round) {
      if (!answer.ok()) continue;
      ++run.answered;
      computed += answer.computed_tokens;
      run.prompt_tokens += answer.prompt_tokens;
      run.generated_tokens += answer.generated_tokens;
    }
    run.computed_by_round.push_back(computed);
    run.computed_tokens += computed;
  }
}

std::vector<std::vector<AnswerTokens>> token_counts(const AgentsRun& run) {
  std::vector<std::vector<AnswerTokens>> counts;
  for (const auto& round : run.rounds) {
    std::vector<AnswerTokens>& row = counts.emplace_back();
    for (const ChatAnswer& answer : round)
      row.push_back({answer.prompt_tokens, answer.generated_tokens});
  }
  return counts;
}

}  // namespace

double AgentsRun::computed_over_ideal() const {
  return ideal_tokens == 0 ? NAN : static_cast<double>(computed_rows) / static_cast<double>(ideal_tokens);
}

std::vector<double> AgentsRun::first_token_s() const {
  std::vector<double> times;
  for (const auto& round : rounds) {
    for (const ChatAnswer& answer : round) {
      if (answer.ok()) times.push_back(answer.first_token_s);
    }
  }
  return times;
}

std::vector<ChatAnswer> ask_together(const Server& server, const std::vector<ChatRequest>& requests,
                                     const std::function<void()>& step) {
  std::vector<ChatAnswer> answers(requests.size());
  std::vector<Thread> threads;
  for (size_t i = 0; i < requests.size(); ++i) {
    Result<Thread> thread = start_thread("bench-agent", [&, i] {
      answers[i] = server.chat(requests[i]);
      step();
    });
    if (thread) {
      threads.push_back(std::move(*thread));
    } else {
      answers[i].error = thread.error().reason;
    }
  }
  for (Thread& thread : threads)
    thread.join();
  return answers;
}

AgentsRun run_agents(const Server& server, const AgentsShape& shape, const std::function<void()>& step) {
  AgentsRun run;
  AgentHistories histories(shape);
  const Metrics before = server.metrics();
  const double cpu_before = server.cpu_seconds();
  const uint64_t start_ns = monotonic_now_ns();
  for (uint32_t round = 0; round < shape.rounds; ++round) {
    std::vector<ChatRequest> requests;
    for (uint32_t agent = 0; agent < shape.agents; ++agent) {
      ChatRequest& request = requests.emplace_back();
      request.conversation = histories.of(agent);
      request.max_tokens = shape.generated_tokens;
    }
    std::vector<ChatAnswer> answers;
    if (shape.at_once) {
      answers = ask_together(server, requests, step);
    } else {
      for (const ChatRequest& request : requests) {
        answers.push_back(server.chat(request));
        step();
      }
    }
    for (uint32_t agent = 0; agent < shape.agents; ++agent)
      histories.extend(agent, round, answers[agent].text);
    run.rounds.push_back(std::move(answers));
  }
  run.wall_s = static_cast<double>(monotonic_now_ns() - start_ns) / 1e9;
  run.cpu_s = server.cpu_seconds() - cpu_before;
  sum_up(run);
  const MetricsDelta metrics{before, server.metrics()};
  run.computed_rows = server.side() == Side::kStock ? run.computed_tokens : prompt_rows(metrics);
  if (run.answered == shape.agents * shape.rounds) {
    run.ideal_tokens = ideal_tokens(system_text_tokens(server, shape.shared_words), token_counts(run));
  }
  return run;
}

uint64_t system_text_tokens(const Server& server, uint32_t words) {
  ChatRequest probe;
  probe.conversation = opening(seeded_words(words, "probe"), seeded_words(1, "x"));
  probe.max_tokens = 1;
  const uint64_t prompt = server.chat(probe).prompt_tokens;
  return prompt - std::min(prompt, kTokensAroundUserWord);
}

uint64_t prompt_rows(const MetricsDelta& metrics) {
  return static_cast<uint64_t>(metrics.of(Counter::kTokensComputedPrompt) +
                               metrics.of(Counter::kTokensComputedRebuilt));
}

bool counts_agree(uint64_t reported, uint64_t counted) {
  const double difference = std::abs(static_cast<double>(reported) - static_cast<double>(counted));
  return difference <= kCountsDisagreeMax * static_cast<double>(std::max(reported, counted));
}

}  // namespace rhizome::bench
