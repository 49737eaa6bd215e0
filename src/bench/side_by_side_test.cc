#include "bench/side_by_side.h"

#include <atomic>

#include <gtest/gtest.h>

namespace rhizome::bench {
namespace {

TEST(MeasureSides, GivesEachSideItsOwn) {
  for (const bool together : {false, true}) {
    const Result<Sides<int>> sides =
        measure_sides<int>(together, [](Side side) -> Result<int> { return side == Side::kStock ? 1 : 2; });
    ASSERT_TRUE(sides) << together;
    EXPECT_EQ(sides->stock, 1);
    EXPECT_EQ(sides->ours, 2);
  }
}

TEST(MeasureSides, AFailureOfEitherIsTheResult) {
  for (const bool together : {false, true}) {
    for (const Side broken : {Side::kStock, Side::kRhizome}) {
      std::atomic<int> calls = 0;
      const Result<Sides<int>> sides = measure_sides<int>(together, [&](Side side) -> Result<int> {
        ++calls;
        if (side == broken) return fail(Code::kUnavailable, "no server");
        return 1;
      });
      ASSERT_FALSE(sides);
      EXPECT_EQ(sides.error().code, Code::kUnavailable);
      const bool spared = !together && broken == Side::kStock;  // one after the other, ours is not begun
      EXPECT_EQ(calls, spared ? 1 : 2);
    }
  }
}

}  // namespace
}  // namespace rhizome::bench
