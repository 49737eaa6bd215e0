#include "machine/clock.h"

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(RealClock, NeverGoesBackwards) {
  uint64_t before = real_clock().monotonic_ns();
  for (int i = 0; i < 1000; ++i) {
    const uint64_t now = real_clock().monotonic_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(RealClock, IsTheFreeFunctionsClock) {
  const uint64_t first = real_clock().monotonic_ns();
  const uint64_t second = monotonic_now_ns();
  const uint64_t third = real_clock().monotonic_ns();
  EXPECT_LE(first, second);
  EXPECT_LE(second, third);
}

TEST(RealClock, KnowsTheCentury) {
  constexpr uint64_t kYear2020Ns = 1'577'836'800ull * 1'000'000'000;
  EXPECT_GT(real_clock().wall_ns(), kYear2020Ns);
}

TEST(ThreadCpu, GrowsWithWorkAndNeverFasterThanTime) {
  const uint64_t wall_before = monotonic_now_ns();
  const uint64_t before = thread_cpu_now_ns();
  uint64_t after = before;
  // Works until the clock has seen a millisecond of it: the loop is the work.
  while (after - before < 1'000'000)
    after = thread_cpu_now_ns();
  const uint64_t wall_after = monotonic_now_ns();
  // Both clocks are read in order; the processor's may be charged in ticks, hence the slack.
  EXPECT_GE(wall_after - wall_before + 20'000'000, after - before);
}

TEST(ManualClock, MovesOnlyWhenTold) {
  ManualClock clock(5, 100);
  EXPECT_EQ(clock.monotonic_ns(), 5u);
  EXPECT_EQ(clock.monotonic_ns(), 5u);
  clock.advance_ns(7);
  EXPECT_EQ(clock.monotonic_ns(), 12u);
  EXPECT_EQ(clock.wall_ns(), 107u);
  clock.set_wall_ns(3);
  EXPECT_EQ(clock.wall_ns(), 3u);
  EXPECT_EQ(clock.monotonic_ns(), 12u);
}

}  // namespace
}  // namespace rhizome
