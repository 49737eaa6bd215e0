#include "residency/watermarks.h"

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(Watermarks, AreTwoPercentages) {
  EXPECT_EQ(parse_watermarks("90:70"), (Watermarks{90, 70}));
  EXPECT_EQ(parse_watermarks("100:1"), (Watermarks{100, 1}));
  for (const char* text : {"", "90", "90:", ":70", ":", "90:0", "0:0", "101:70", "70:90", "70:70", "90%:70", "90:70:50",
                           "-1:-2", "9e1:70", " 90:70", "90 :70", "90:70 ", "+90:70", "4294967386:70"}) {
    EXPECT_FALSE(parse_watermarks(text)) << text;
  }
}

}  // namespace
}  // namespace rhizome
