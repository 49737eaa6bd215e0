#include "concurrency/race_point.h"

#include <atomic>

#include <gtest/gtest.h>

#include "machine/thread.h"

namespace rhizome {
namespace {

#if defined(RHIZOME_RACE_POINTS) && RHIZOME_RACE_POINTS

// Reads, can be overtaken at the point, writes: what a lost update is made of.
void add_carelessly(std::atomic<int>& value) {
  const int seen = value.load();
  RHIZOME_RACE_POINT("between read and write");
  value.store(seen + 1);
}

TEST(RacePoint, StagesALostUpdate) {
  std::atomic<int> value{0};
  RaceHold hold("between read and write");
  EXPECT_FALSE(hold.reached());
  Thread held = start_thread("held", [&value] { add_carelessly(value); }).value();
  hold.wait_reached();
  EXPECT_TRUE(hold.reached());
  // Only the first is held: this thread passes the same point.
  add_carelessly(value);
  add_carelessly(value);
  EXPECT_EQ(value, 2);
  hold.let_go();
  held.join();
  EXPECT_EQ(value, 1);
}

TEST(RacePoint, HoldsOnlyTheNameAskedFor) {
  std::atomic<int> value{0};
  const RaceHold hold("somewhere else");
  add_carelessly(value);
  EXPECT_EQ(value, 1);
  EXPECT_FALSE(hold.reached());
}

TEST(RacePoint, LetsGoOnDestruction) {
  std::atomic<int> value{0};
  Thread held;
  {
    RaceHold hold("between read and write");
    held = start_thread("held", [&value] { add_carelessly(value); }).value();
    hold.wait_reached();
    EXPECT_EQ(value, 0);
  }
  held.join();
  EXPECT_EQ(value, 1);
}

TEST(RacePoint, HoldsOneThreadForEachHoldOfAName) {
  std::atomic<int> value{0};
  RaceHold first("between read and write");
  RaceHold second("between read and write");
  Thread one = start_thread("one", [&value] { add_carelessly(value); }).value();
  first.wait_reached();
  Thread two = start_thread("two", [&value] { add_carelessly(value); }).value();
  second.wait_reached();
  EXPECT_EQ(value, 0);
  second.let_go();
  two.join();
  EXPECT_EQ(value, 1);
  first.let_go();
  one.join();
  EXPECT_EQ(value, 1);
}

TEST(RacePoint, HoldsNobodyOnceLetGo) {
  std::atomic<int> value{0};
  RaceHold hold("between read and write");
  hold.let_go();
  add_carelessly(value);
  EXPECT_EQ(value, 1);
  EXPECT_FALSE(hold.reached());
}

#else

TEST(RacePoint, IsNothingInReleaseBuilds) {
  constexpr auto pass = [] {
    RHIZOME_RACE_POINT("anywhere");
    return true;
  };
  static_assert(pass());
}

#endif

}  // namespace
}  // namespace rhizome
