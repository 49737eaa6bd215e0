#include "residency/load_model.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

constexpr uint64_t kSecond = 1000000000;

double line(uint64_t bytes) {
  return 0.002 + static_cast<double>(bytes) / 1e9;
}

double prefill(uint64_t n, uint64_t p) {
  return 0.004 + 0.001 * static_cast<double>(n) +
         2e-7 * static_cast<double>(n) * (static_cast<double>(p) + static_cast<double>(n) / 2);
}

TEST(LoadCost, LearnsLatencyAndBandwidth) {
  LoadCost cost;
  EXPECT_FALSE(cost.is_known());
  std::mt19937_64 random(5);
  for (uint64_t i = 0; i < 200; ++i) {
    const uint64_t bytes = 10000 + random() % 4000000;
    const double noise = 0.9 + 0.2 * static_cast<double>(random() % 1000) / 1000;
    cost.observe(bytes, line(bytes) * noise, i * kSecond / 100);
  }
  EXPECT_NEAR(cost.bytes_per_second(), 1e9, 1.5e8);
  EXPECT_NEAR(cost.latency_seconds(), 0.002, 0.0008);
  EXPECT_NEAR(cost.seconds(2000000), line(2000000), 0.0004);
}

TEST(LoadCost, LoadsOfOneSizeAreEnoughForThatSize) {
  LoadCost cost;
  for (uint64_t i = 0; i < 10; ++i)
    cost.observe(1000000, 0.003, i * kSecond);
  EXPECT_NEAR(cost.seconds(1000000), 0.003, 1e-6);
  EXPECT_NEAR(cost.seconds(2000000), 0.006, 1e-6);
}

TEST(LoadCost, FollowsADeviceThatBecomesSlow) {
  LoadCost cost;
  for (uint64_t i = 0; i < 1000; ++i)
    cost.observe(1000000, 0.001, i * kSecond / 10);
  for (uint64_t i = 0; i < 300; ++i)
    cost.observe(1000000, 0.1, 100 * kSecond + i * kSecond);
  EXPECT_GT(cost.seconds(1000000), 0.08);
}

TEST(LoadCost, ForgetsWhatIsOld) {
  LoadCost cost;
  cost.observe(1000000, 10, kSecond);
  cost.forget_old(100 * kSecond);
  EXPECT_TRUE(cost.is_known());
  cost.forget_old(200 * kSecond);
  EXPECT_FALSE(cost.is_known());
  EXPECT_EQ(cost.seconds(1000000), 0);
  for (uint64_t i = 0; i < 1000; ++i)
    cost.observe(1000000, 10, 200 * kSecond + i);
  cost.forget_old(400 * kSecond);
  EXPECT_TRUE(cost.is_known()) << "what was seen often is believed longer";
  cost.forget_old(800 * kSecond);
  EXPECT_FALSE(cost.is_known());
}

TEST(ComputeCost, LearnsAllThreeTerms) {
  ComputeCost cost;
  std::mt19937_64 random(6);
  for (uint64_t i = 0; i < 300; ++i) {
    const uint64_t n = 16 + random() % 2000;
    const uint64_t p = random() % 8000;
    const double noise = 0.95 + 0.1 * static_cast<double>(random() % 1000) / 1000;
    cost.observe(n, p, prefill(n, p) * noise, i * kSecond / 10);
  }
  for (const auto& [n, p] : {std::pair<uint64_t, uint64_t>{64, 0}, {1024, 0}, {512, 4096}, {2048, 8192}})
    EXPECT_NEAR(cost.seconds(n, p) / prefill(n, p), 1, 0.1) << n << " behind " << p;
}

TEST(ComputeCost, OneObservationIsAFirstGuess) {
  ComputeCost cost;
  cost.observe(1000, 0, 2.0, 1);
  EXPECT_NEAR(cost.seconds(1000, 0), 2.0, 1e-6);
  EXPECT_GE(cost.seconds(10, 0), 0.0);
  EXPECT_LE(cost.seconds(10, 0), 2.0);
  cost.observe(0, 0, 1.0, 2);
  cost.observe(10, 0, -1.0, 3);
  EXPECT_NEAR(cost.seconds(1000, 0), 2.0, 1e-6) << "nonsense is no observation";
}

// After a restart an engine is seen to compute short tails only, which cost about the same whatever their length.
TEST(ComputeCost, ShortPromptsSayNothingAboutLongOnes) {
  ComputeCost cost;
  for (uint64_t i = 1; i <= 10; ++i)
    cost.observe(4 + i % 5, 1000, 0.02, i * kSecond);
  EXPECT_NEAR(cost.seconds(8, 1000), 0.02, 0.004);
  EXPECT_GT(cost.seconds(1024, 0), 1.0);
  cost.observe(1024, 0, 0.3, 11 * kSecond);
  EXPECT_NEAR(cost.seconds(1024, 0), 0.3, 0.06) << "and one long one says it all";
}

class LoadModelTest : public testing::Test {
 protected:
  // A tier of that bandwidth and an engine of that many tokens a second.
  void learn(double bytes_per_second, double tokens_per_second) {
    for (uint64_t i = 1; i <= 20; ++i) {
      model_.observe_load(i * 100000, 0.001 + static_cast<double>(i) * 100000 / bytes_per_second, i * kSecond / 10);
      model_.observe_compute(i * 64, 0, static_cast<double>(i) * 64 / tokens_per_second, i * kSecond / 10);
    }
  }

  LoadModel model_{0};
  const LoadQuestion question_{.tokens = 1024, .before = 0, .stored_bytes = 1024 * 23040, .block_tokens = 16};
};

TEST_F(LoadModelTest, LoadsWhileNothingIsKnown) {
  EXPECT_TRUE(model_.plan(question_).load);
}

TEST_F(LoadModelTest, AFastTierIsLoadedFrom) {
  learn(1e9, 500);
  const LoadPlan plan = model_.plan(question_);
  EXPECT_TRUE(plan.load);
  EXPECT_NEAR(plan.load_seconds, 0.0246, 0.003);
  EXPECT_NEAR(plan.compute_seconds, 2.048, 0.1);
  EXPECT_LE(plan.split_compute_tokens, 16u);
}

TEST_F(LoadModelTest, AThrottledTierIsNot) {
  learn(2e6, 500);
  const LoadPlan plan = model_.plan(question_);
  EXPECT_FALSE(plan.load);
  EXPECT_GT(plan.load_seconds, plan.compute_seconds);
}

// 12 MB/s is where the two cost the same for this model: half is computed, half is loaded, in half of the time.
TEST_F(LoadModelTest, TheSplitIsWhereTheTwoMeet) {
  learn(11.6e6, 500);
  const LoadPlan plan = model_.plan(question_);
  EXPECT_NEAR(static_cast<double>(plan.split_compute_tokens), 512, 48);
  EXPECT_EQ(plan.split_compute_tokens % 16, 0u);
  EXPECT_LT(plan.split_seconds, 0.6 * std::min(plan.load_seconds, plan.compute_seconds));
}

TEST_F(LoadModelTest, WhatIsOnItsWayCountsToo) {
  learn(1e8, 1000);
  LoadQuestion question = question_;
  EXPECT_TRUE(model_.plan(question).load);
  question.bytes_in_flight = 200000000;
  EXPECT_FALSE(model_.plan(question).load);
}

TEST_F(LoadModelTest, TheSplitIsTheBestOfAll) {
  std::mt19937_64 random(9);
  for (int round = 0; round < 50; ++round) {
    LoadModel model(0);
    const double bandwidth = 1e6 * static_cast<double>(1 + random() % 1000);
    const double speed = static_cast<double>(100 + random() % 5000);
    for (uint64_t i = 1; i <= 20; ++i) {
      model.observe_load(i * 100000, 0.002 + static_cast<double>(i) * 100000 / bandwidth, i * kSecond / 10);
      model.observe_compute(i * 64, 0, static_cast<double>(i) * 64 / speed, i * kSecond / 10);
    }
    const LoadPlan plan = model.plan(question_);
    double best = 1e9;
    for (uint64_t tokens = 0; tokens <= 1024; tokens += 16) {
      const double compute = tokens == 0 ? 0 : model.compute_cost().seconds(tokens, 0);
      const double load = tokens == 1024 ? 0 : model.load_cost().seconds((1024 - tokens) * 23040);
      best = std::min(best, std::max(compute, load));
    }
    EXPECT_NEAR(plan.split_seconds, best, 1e-6);
  }
}

TEST(LoadModel, NowAndThenItTriesATierItDoesNotBelieveIn) {
  LoadModel model(64);
  model.observe_load(1000000, 10.0, 1);
  model.observe_compute(1000, 0, 1.0, 1);
  int loads = 0;
  for (int i = 0; i < 640; ++i)
    loads += model.plan({.tokens = 1000, .stored_bytes = 1000000}).load ? 1 : 0;
  EXPECT_EQ(loads, 10);
}

}  // namespace
}  // namespace rhizome
