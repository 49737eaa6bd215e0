// Single flight between engines that share a node: each with a client of its own, as in processes of their own.
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "engine/llama/test_connector.h"
#include "engine/llama/test_node.h"
#include "machine/clock.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint32_t kStep = 64;  // of what the engine computes at once

struct Kind {
  const char* name;
  bool windowed;
  bool unified;
  bool exact;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class ConnectorHostFlight : public testing::TestWithParam<Kind> {
 protected:
  ConnectorHostFlight() : model_(GetParam().windowed ? window_model(96) : dense_model()) {
    set_log_level(LogLevel::kError);
    node_ = std::make_unique<TestNode>(socket(), uint64_t{64} << 20);
    for (size_t i = 0; i < caches_.size(); ++i)
      start(i);
  }

  static TestEngineOptions options() {
    TestEngineOptions options;
    options.params = one_thread_params(4096, 2, GetParam().unified);
    options.params.n_ubatch = kStep;
    options.exact = GetParam().exact;
    return options;
  }
  std::string socket() const { return folder_.path("run/node.sock"); }
  void start(size_t i) {
    auto counters = Counters::local();
    auto client = make_attached_client({.socket_path = socket()}, *counters);
    ASSERT_TRUE(client) << client.error().reason;
    caches_[i] = std::make_unique<TestCache>(std::move(counters), std::move(*client));
    engines_[i] = std::make_unique<TestEngine>(model_, *caches_[i], options());
  }
  // As its process would end.
  void end(size_t i) {
    engines_[i].reset();
    caches_[i].reset();
  }

  // What a server does that has nothing else to do; returns how many tokens it had not to compute.
  int32_t ask(size_t i, std::span<const Token> prompt) {
    TestEngine& engine = *engines_[i];
    const int32_t had = engine.keep(0, prompt);
    int32_t have = Connector::kAskAgain;
    for (int rounds = 0; have == Connector::kAskAgain; ++rounds) {
      have = engine.restore(0, prompt, had);
      if (rounds == 3) break;  // the server gives up
    }
    EXPECT_GE(have, 0);
    if (have >= 0) {
      EXPECT_EQ(engine.compute(0, prompt, have, true), 0);
    }
    return have;
  }
  uint64_t computed(size_t i) const { return caches_[i]->count(Counter::kTokensComputedPrompt); }
  // The rows that an engine that restores all of a prompt computes nevertheless.
  static uint64_t rest_of(size_t tokens) {
    const uint32_t unit = GetParam().exact ? 64 : 16;
    return tokens - (tokens - 1) / unit * unit;
  }

  TemporaryFolder folder_;
  const TestModel model_;
  std::unique_ptr<TestNode> node_;
  std::array<std::unique_ptr<TestCache>, 2> caches_;
  std::array<std::unique_ptr<TestEngine>, 2> engines_;
  const std::vector<Token> prompt_ = random_tokens(1, 600);
};

TEST_P(ConnectorHostFlight, TheSecondWaitsAndComputesTheRest) {
  EXPECT_EQ(engines_[0]->restore(0, prompt_, 0), 0);
  std::atomic<int32_t> got{-1};
  Thread second = *start_thread("second", [&] { got = ask(1, prompt_); });
  EXPECT_EQ(engines_[0]->compute(0, prompt_, 0, true), 0);
  second.join();
  EXPECT_EQ(static_cast<uint64_t>(600 - got), rest_of(600));
  EXPECT_EQ(computed(0), 600u);
  EXPECT_EQ(computed(1), rest_of(600));
  TestCache empty;
  TestEngine alone(model_, empty, options());
  EXPECT_EQ(best_token(engines_[1]->logits()), best_token(alone.ask(0, prompt_)));
}

TEST_P(ConnectorHostFlight, WithoutTheHookItWaitsInsideOfTheBatch) {
  EXPECT_EQ(engines_[0]->restore(0, prompt_, 0), 0);
  Thread second = *start_thread("second", [&] {
    TestEngine::Request request;
    request.hook = false;
    engines_[1]->ask(0, prompt_, request);
  });
  EXPECT_EQ(engines_[0]->compute(0, prompt_, 0, true), 0);
  second.join();
  EXPECT_EQ(computed(1), rest_of(600));
}

// The server has something else to do: it is not kept from it.
TEST_P(ConnectorHostFlight, WhoHasOtherWorkDoesIt) {
  EXPECT_EQ(engines_[0]->restore(0, prompt_, 0), 0);
  TestEngine& busy = *engines_[1];
  const auto other = random_tokens(7, 40);
  EXPECT_GE(busy.restore(1, other, 0), 0);
  EXPECT_EQ(busy.compute(1, other, 0, true), 0);
  for (Token i = 0; i < 5; ++i) {
    EXPECT_EQ(busy.restore(0, prompt_, 0), Connector::kAskAgain);
    busy.step(1, i + 1);
  }
  EXPECT_EQ(engines_[0]->compute(0, prompt_, 0, true), 0);
  EXPECT_EQ(static_cast<uint64_t>(600 - busy.restore(0, prompt_, 0)), rest_of(600));
  EXPECT_GE(caches_[1]->count(Counter::kWaits), 5u);
}

TEST_P(ConnectorHostFlight, TheFirstEndsAndTheSecondTakesOver) {
  EXPECT_EQ(engines_[0]->restore(0, prompt_, 0), 0);
  std::atomic<int32_t> got{-1};
  Thread second = *start_thread("second", [&] { got = ask(1, prompt_); });
  // Two thirds of it in a batch, and then it is gone.
  EXPECT_EQ(engines_[0]->compute(0, head(prompt_, 400), 0, false), 0);
  end(0);
  second.join();
  EXPECT_GE(got, 384) << "what is there is taken";
  EXPECT_LE(got, 400);
  start(0);
  EXPECT_EQ(static_cast<uint64_t>(600 - ask(0, prompt_)), rest_of(600)) << "and the second one has stored the rest";
}

TEST_P(ConnectorHostFlight, TheFirstGivesItUp) {
  EXPECT_EQ(engines_[0]->restore(0, prompt_, 0), 0);
  EXPECT_EQ(engines_[0]->compute(0, head(prompt_, 200), 0, false), 0);
  const uint64_t began_ns = monotonic_now_ns();
  Thread second = *start_thread("second", [&] { EXPECT_GE(ask(1, prompt_), 192); });
  engines_[0]->empty(0);  // its client went away
  second.join();
  EXPECT_LT(monotonic_now_ns(), began_ns + 20'000'000'000);
}

// Each has two sequences, and the second one wants what the other engine's first one is to compute.
TEST_P(ConnectorHostFlight, NobodyWaitsInACircle) {
  const auto other = random_tokens(2, 600);
  EXPECT_EQ(engines_[0]->restore(0, prompt_, 0), 0);
  EXPECT_EQ(engines_[1]->restore(0, other, 0), 0);
  const auto serve = [this](size_t i, std::span<const Token> first, std::span<const Token> second) {
    int32_t have = Connector::kAskAgain;
    for (int rounds = 0; have == Connector::kAskAgain && rounds < 3; ++rounds)
      have = engines_[i]->restore(1, second, 0);
    ASSERT_GE(have, 0);
    EXPECT_EQ(engines_[i]->compute(1, second, have, true), 0);
    EXPECT_EQ(engines_[i]->compute(0, first, 0, true), 0);
  };
  const uint64_t began_ns = monotonic_now_ns();
  Thread second = *start_thread("second", [&] { serve(1, other, prompt_); });
  serve(0, prompt_, other);
  second.join();
  EXPECT_LT(monotonic_now_ns(), began_ns + 20'000'000'000);
}

// Pieces are there before the batch is over.
TEST_P(ConnectorHostFlight, BlocksComeWhileTheRestIsComputed) {
  EXPECT_EQ(engines_[0]->restore(0, prompt_, 0), 0);
  std::atomic<size_t> seen{0};
  std::vector<size_t> pieces;
  std::atomic<bool> is_done{false};
  Thread second = *start_thread("second", [&] {
    for (;;) {
      const bool was_done = is_done;
      const Arrival arrival = caches_[1]->client->wait(kOnlyKeyspace, prompt_, seen, monotonic_now_ns() + 100'000'000);
      if (arrival.blocks > seen) pieces.push_back(arrival.blocks);
      seen = arrival.blocks;
      if (was_done) return;
    }
  });
  // The keyspace must be known to that client.
  EXPECT_EQ(engines_[1]->restore(0, head(prompt_, 30), 0), 0);
  EXPECT_EQ(engines_[0]->compute(0, prompt_, 0, true), 0);
  is_done = true;
  second.join();
  EXPECT_EQ(seen, (GetParam().exact ? 576u : 592u) / 16);
  EXPECT_GT(pieces.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, ConnectorHostFlight,
                         testing::Values(Kind{"dense", false, true, false}, Kind{"streams", false, false, false},
                                         Kind{"window", true, true, false}, Kind{"exact", false, false, true}),
                         [](const testing::TestParamInfo<Kind>& each) { return std::string(each.param.name); });

class DenseHostFlight : public ConnectorHostFlight {};

TEST_P(DenseHostFlight, WhoStopsIsNotWaitedForLong) {
  // By this it knows how long computing takes.
  engines_[0]->ask(1, random_tokens(8, 100));
  EXPECT_EQ(engines_[0]->restore(0, prompt_, 0), 0);
  const uint64_t began_ns = monotonic_now_ns();
  EXPECT_EQ(ask(1, prompt_), 0);
  EXPECT_GT(monotonic_now_ns(), began_ns + 1'000'000'000);
  EXPECT_LT(monotonic_now_ns(), began_ns + 20'000'000'000);
  // It goes on after all: what is stored meanwhile it stores no second time.
  EXPECT_EQ(engines_[0]->compute(0, prompt_, 0, true), 0);
  EXPECT_EQ(caches_[0]->client->peek(kOnlyKeyspace, prompt_) / 16, 37u);
}

INSTANTIATE_TEST_SUITE_P(One, DenseHostFlight, testing::Values(Kind{"dense", false, true, false}),
                         [](const testing::TestParamInfo<Kind>& each) { return std::string(each.param.name); });

// Four engines at once on one prompt of 2,048 tokens that nobody has: it is computed about once.
TEST(HostFlightOfFour, ComputesOnePromptOnce) {
  set_log_level(LogLevel::kError);
  const TemporaryFolder folder;
  const std::string socket = folder.path("run/node.sock");
  const TestNode node(socket, uint64_t{64} << 20);
  const TestModel model{dense_model()};
  const auto prompt = random_tokens(11, 2048);
  TestEngineOptions options;
  options.params = one_thread_params(4096, 2, true);
  std::vector<std::unique_ptr<TestCache>> caches;
  std::vector<std::unique_ptr<TestEngine>> engines;
  for (int i = 0; i < 4; ++i) {
    auto own = Counters::local();
    auto client = std::move(*make_attached_client({.socket_path = socket}, *own));
    caches.push_back(std::make_unique<TestCache>(std::move(own), std::move(client)));
    engines.push_back(std::make_unique<TestEngine>(model, *caches.back(), options));
  }
  std::vector<Thread> threads;
  for (auto& engine : engines) {
    threads.push_back(std::move(*start_thread("engine", [&prompt, &engine] {
      int32_t have = Connector::kAskAgain;
      for (int rounds = 0; have == Connector::kAskAgain && rounds < 3; ++rounds)
        have = engine->restore(0, prompt, 0);
      EXPECT_GE(have, 0);
      EXPECT_EQ(engine->compute(0, prompt, have, true), 0);
    })));
  }
  for (Thread& thread : threads)
    thread.join();
  uint64_t computed = 0;
  for (const auto& cache : caches)
    computed += cache->count(Counter::kTokensComputedPrompt);
  const double over_one = static_cast<double>(computed) / 2048;
  RecordProperty("computed_over_one_prompt_4_engines", std::to_string(over_one));
  EXPECT_LE(over_one, 1.15);
}

}  // namespace
}  // namespace rhizome
