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

// One server's share of a run.
class UnderWay {
 public:
  UnderWay(const Server& server, const AgentsShape& shape)
      : server_(server),
        shape_(shape),
        histories_(shape),
        before_(server.metrics()),
        cpu_before_(server.cpu_seconds()) {}

  // Requests of the agents [first, end) of a round; all of its agents come in ascending order.
  void ask(uint32_t round, uint32_t first, uint32_t end, const std::function<void()>& step) {
    std::vector<ChatRequest> requests;
    for (uint32_t agent = first; agent < end; ++agent) {
      ChatRequest& request = requests.emplace_back();
      request.conversation = histories_.of(agent);
      request.max_tokens = shape_.generated_tokens;
    }
    const uint64_t start_ns = monotonic_now_ns();
    std::vector<ChatAnswer> answers = ask_together(server_, requests, step);
    run_.wall_s += static_cast<double>(monotonic_now_ns() - start_ns) / 1e9;
    if (first == 0) run_.rounds.emplace_back();
    for (uint32_t agent = first; agent < end; ++agent) {
      histories_.extend(agent, round, answers[agent - first].text);
      run_.rounds.back().push_back(std::move(answers[agent - first]));
    }
  }

  AgentsRun finish() {
    run_.cpu_s = server_.cpu_seconds() - cpu_before_;
    sum_up(run_);
    const MetricsDelta metrics{before_, server_.metrics()};
    run_.computed_rows = server_.side() == Side::kStock ? run_.computed_tokens : prompt_rows(metrics);
    if (run_.answered == shape_.agents * shape_.rounds) {
      run_.ideal_tokens = ideal_tokens(system_text_tokens(server_, shape_.shared_words), token_counts(run_));
    }
    return std::move(run_);
  }

 private:
  const Server& server_;
  const AgentsShape& shape_;
  AgentHistories histories_;
  Metrics before_;
  double cpu_before_;
  AgentsRun run_;
};

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

std::vector<AgentsRun> run_agents(std::span<const Server* const> servers, const AgentsShape& shape,
                                  const std::function<void()>& step) {
  std::vector<UnderWay> all;
  for (const Server* server : servers)
    all.emplace_back(*server, shape);
  for (uint32_t round = 0; round < shape.rounds; ++round) {
    const uint32_t parts = shape.at_once ? 1 : shape.agents;
    for (uint32_t part = 0; part < parts; ++part) {
      const uint32_t first = shape.at_once ? 0 : part;
      const uint32_t end = shape.at_once ? shape.agents : part + 1;
      // Another server first each time.
      for (size_t i = 0; i < all.size(); ++i)
        all[(part + i) % all.size()].ask(round, first, end, step);
    }
  }
  std::vector<AgentsRun> runs;
  for (UnderWay& one : all)
    runs.push_back(one.finish());
  return runs;
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
