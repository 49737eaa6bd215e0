// Eight agents arrive while the engine computes another, long prompt in one batch. When it is done, all of them are
// there, and none has anything that the others could take: what they share must still be computed only once.
#include <algorithm>

#include "bench/agents_compare.h"
#include "bench/cases.h"
#include "bench/side_by_side.h"
#include "bench/text.h"
#include "concurrency/mutex.h"
#include "machine/clock.h"
#include "machine/thread.h"

namespace rhizome::bench {
namespace {

constexpr uint32_t kAgents = 8;
constexpr uint32_t kSharedWords = 1024;
constexpr uint32_t kOwnWords = 200;
constexpr uint32_t kLongWords = 1800;
constexpr uint32_t kGenerated = 4;
constexpr double kComputingCpuSeconds = 0.05;  // CPU time after which the long prompt is surely being computed
constexpr uint64_t kComputingPause = 10'000'000;
constexpr uint64_t kComputingPatience = 10'000'000'000;

struct Flight {
  std::vector<ChatAnswer> agents;
  uint64_t computed_tokens = 0;  // as reported, of the agents
  uint64_t computed_rows = 0;    // as counted, less those of the long prompt
  uint64_t ideal_tokens = 0;
  double first_token_longest_s = 0;
};

ChatRequest request_for(Conversation conversation) {
  ChatRequest request;
  request.conversation = std::move(conversation);
  request.max_tokens = kGenerated;
  return request;
}

std::vector<ChatRequest> agents_requests() {
  const std::string shared = seeded_words(kSharedWords, "single-flight");
  std::vector<ChatRequest> requests;
  for (uint32_t agent = 0; agent < kAgents; ++agent) {
    requests.push_back(request_for(opening(shared, seeded_words(kOwnWords, "single-flight-" + std::to_string(agent)))));
  }
  return requests;
}

// In batches of 4,096 tokens the long prompt is computed in one go, and then all agents' together.
std::vector<std::string> flight_arguments(const Stage& stage) {
  std::vector<std::string> arguments = server_arguments(stage.threads(), 8, 16384);
  arguments.insert(arguments.end(), {"-b", "4096"});
  return arguments;
}

void wait_until_computing(const Server& server, double cpu_before) {
  const uint64_t give_up_ns = monotonic_now_ns() + kComputingPatience;
  Mutex mutex;
  CondVar nobody_notifies;
  MutexLock lock(mutex);
  while (server.cpu_seconds() - cpu_before < kComputingCpuSeconds && monotonic_now_ns() < give_up_ns) {
    nobody_notifies.wait_for(mutex, kComputingPause);
  }
}

Result<Flight> fly(Stage& stage, Side side) {
  stage.progress.begin(
      std::string("agents arrive while a long prompt is computed, ") + (side == Side::kStock ? "stock" : "rhizome"),
      kAgents + 1);
  Result<std::unique_ptr<Server>> started = stage.fleet.start({side, stage.model(), flight_arguments(stage), {}});
  if (!started) return fail(started.error());
  const Server& server = **started;
  const Metrics before = server.metrics();
  const double cpu_before = server.cpu_seconds();
  ChatAnswer long_answer;
  Result<Thread> long_request = start_thread("bench-long", [&] {
    long_answer = server.chat(request_for(opening(seeded_words(kLongWords, "long"), "x")));
    stage.progress.step();
  });
  if (!long_request) return fail(long_request.error());
  wait_until_computing(server, cpu_before);
  Flight flight;
  flight.agents = ask_together(server, agents_requests(), stage.step());
  long_request->join();
  const MetricsDelta metrics{before, server.metrics()};
  if (!long_answer.ok()) return fail(Code::kUnavailable, "the long request was not answered");
  const uint64_t shared_tokens = system_text_tokens(server, kSharedWords);
  flight.ideal_tokens = shared_tokens;
  for (const ChatAnswer& answer : flight.agents) {
    if (!answer.ok()) return fail(Code::kUnavailable, "an agent's request was not answered");
    stage.report.answered(answer.text);
    flight.computed_tokens += answer.computed_tokens;
    flight.ideal_tokens += answer.prompt_tokens - shared_tokens;
    flight.first_token_longest_s = std::max(flight.first_token_longest_s, answer.first_token_s);
  }
  flight.computed_rows = flight.computed_tokens;
  if (side == Side::kRhizome) {
    const uint64_t rows = prompt_rows(metrics);
    check_counts(stage, "single flight", flight.computed_tokens + long_answer.computed_tokens, rows);
    flight.computed_rows = rows - std::min(rows, long_answer.computed_tokens);
  }
  stage.progress.pause();
  return flight;
}

double over_ideal(const Flight& flight) {
  return static_cast<double>(flight.computed_rows) / static_cast<double>(flight.ideal_tokens);
}

}  // namespace

Status run_single_flight(Stage& stage) {
  const Result<Sides<Flight>> flights = measure_sides<Flight>(stage.quick, [&](Side side) { return fly(stage, side); });
  if (!flights) return fail(flights.error());
  const Flight& stock = flights->stock;
  const Flight& ours = flights->ours;
  Report& report = stage.report;
  report.section("agents arrive while a long prompt is computed",
                 "8 agents, 1,024 words shared, 200 own, behind 1,800 words; " + joined(flight_arguments(stage)));
  report.row("ideal: each distinct token once", with_commas(stock.ideal_tokens), with_commas(ours.ideal_tokens));
  report.row("computed for the agents, as reported", with_commas(stock.computed_tokens),
             with_commas(ours.computed_tokens));
  report.row("computed for the agents, as counted", "-", with_commas(ours.computed_rows));
  report.row("computed / ideal", fixed(over_ideal(stock), 3), fixed(over_ideal(ours), 3));
  report.row("time to first token, longest", milliseconds(stock.first_token_longest_s),
             milliseconds(ours.first_token_longest_s));
  report.figure("computed_over_ideal_single_flight", over_ideal(ours));
  report.figure("stock_computed_over_ideal_single_flight", over_ideal(stock));
  return {};
}

}  // namespace rhizome::bench
