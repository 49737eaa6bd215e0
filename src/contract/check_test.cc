#include "contract/check.h"

#include <string>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(Check, LetsWhatIsTruePass) {
  int evaluated = 0;
  RHIZOME_CHECK(++evaluated == 1);
  EXPECT_EQ(evaluated, 1);
}

TEST(CheckDeathTest, AbortsAndNamesThePlaceAndTheCondition) {
  const int zero = 0;
  EXPECT_DEATH(RHIZOME_CHECK(zero == 1), "rhizome: .*check_test\\.cc:[0-9]+: check failed: zero == 1");
}

TEST(CheckDeathTest, CutsALongMessageInsteadOfOverrunning) {
  const std::string what(5000, 'x');
  EXPECT_DEATH(check_failed("file.cc", 7, what.c_str()), "rhizome: file\\.cc:7: check failed: x{400}");
}

#ifdef NDEBUG
TEST(DebugCheck, DoesNotEvaluateInReleaseBuilds) {
  int evaluated = 0;
  RHIZOME_DCHECK(++evaluated == 5);
  EXPECT_EQ(evaluated, 0);
}
#else
TEST(DebugCheckDeathTest, AbortsInDebugBuilds) {
  const int zero = 0;
  EXPECT_DEATH(RHIZOME_DCHECK(zero == 1), "check failed: zero == 1");
}
#endif

}  // namespace
}  // namespace rhizome
