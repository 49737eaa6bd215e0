#include "residency/admission.h"

#include <random>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

constexpr uint64_t kSecond = 1000000000;
constexpr uint64_t kMiB = 1 << 20;

WriteCandidate block(uint32_t uses, uint64_t age_ns) {
  return {.age_ns = age_ns, .uses = uses, .bytes = kMiB, .compute_seconds = 0.1, .load_seconds = 0.002};
}

TEST(Admission, WhatIsUsedAgainIsWrittenAtOnce) {
  Admission admission({});
  EXPECT_EQ(admission.decide(block(0, 0), 0), WriteDecision::kLater);
  EXPECT_EQ(admission.decide(block(1, 0), 0), WriteDecision::kNow);
}

TEST(Admission, WhatIsNotAfterASecond) {
  Admission admission({});
  EXPECT_EQ(admission.decide(block(0, kSecond - 1), 0), WriteDecision::kLater);
  EXPECT_EQ(admission.decide(block(0, kSecond), 0), WriteDecision::kNow);
}

TEST(Admission, SecondSight) {
  Admission admission({});
  WriteCandidate seen = block(0, 0);
  seen.asked_for = 2;
  EXPECT_EQ(admission.decide(seen, 0), WriteDecision::kNow) << "it was here before and was forgotten";
  seen.asked_for = 1;
  EXPECT_EQ(admission.decide(seen, 0), WriteDecision::kLater) << "that was the first sight";
}

// What is left of a short budget goes to blocks that others need, not to ends that nobody has used.
TEST(Admission, WhatOthersNeedGoesBeforeEnds) {
  Admission admission({.bytes_per_second = kMiB});
  admission.wrote(200 * kMiB, 0);
  WriteCandidate end = block(0, 2 * kSecond);
  EXPECT_EQ(admission.decide(end, 0), WriteDecision::kLater);
  WriteCandidate trunk = end;
  trunk.has_children = true;
  EXPECT_EQ(admission.decide(trunk, 0), WriteDecision::kNow);
}

TEST(Admission, NothingThatIsComputedFasterThanLoaded) {
  Admission admission({});
  WriteCandidate cheap = block(3, 10 * kSecond);
  cheap.load_seconds = 0.2;
  EXPECT_EQ(admission.decide(cheap, 0), WriteDecision::kNever);
  cheap.compute_seconds = 0;
  EXPECT_EQ(admission.decide(cheap, 0), WriteDecision::kNow) << "nothing is known yet";
}

// A day of writes at far more than the budget: what is written never exceeds the budget and the bucket.
TEST(Admission, TheBudgetHolds) {
  constexpr uint64_t kRate = 10 * kMiB;
  Admission admission({.bytes_per_second = kRate});
  std::mt19937_64 random(3);
  uint64_t written = 0;
  for (uint64_t now = 0; now < 3600 * kSecond; now += kSecond / 50) {
    if (admission.decide(block(static_cast<uint32_t>(random() % 3), 2 * kSecond), now) == WriteDecision::kNow) {
      admission.wrote(kMiB, now);
      written += kMiB;
    }
    ASSERT_LE(written, 300 * kRate + (now / kSecond + 1) * kRate);
  }
  EXPECT_GE(written, 3600 * kRate * 8 / 10) << "and most of it is used";
}

// Half of the blocks save ten times as much: they get most of what there is.
TEST(Admission, ValueGoesFirst) {
  constexpr uint64_t kRate = 10 * kMiB;
  Admission admission({.bytes_per_second = kRate});
  uint64_t dear = 0;
  uint64_t cheap = 0;
  for (uint64_t now = 0, turn = 0; now < 3600 * kSecond; now += kSecond / 40, ++turn) {
    WriteCandidate candidate = block(1, 0);
    const bool is_cheap = turn % 2 == 0;
    if (is_cheap) candidate.compute_seconds = 0.012;
    if (admission.decide(candidate, now) != WriteDecision::kNow) continue;
    admission.wrote(kMiB, now);
    // The first minutes, in which the bucket is emptied, are anybody's.
    if (now > 1200 * kSecond) (is_cheap ? cheap : dear) += 1;
  }
  EXPECT_GT(dear, 3 * cheap);
}

TEST(Admission, AQuietTimeOpensTheDoorAgain) {
  Admission admission({.bytes_per_second = kMiB});
  uint64_t now = 0;
  for (; now < 2000 * kSecond; now += kSecond / 10) {
    if (admission.decide(block(1, 0), now) == WriteDecision::kNow) admission.wrote(kMiB, now);
  }
  EXPECT_GT(admission.threshold(), 0.0);
  now += 400 * kSecond;
  admission.decide(block(1, 0), now);
  now += 11 * kSecond;
  EXPECT_EQ(admission.decide(block(1, 0), now), WriteDecision::kNow);
}

}  // namespace
}  // namespace rhizome
