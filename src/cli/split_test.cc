#include "cli/split.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

using Words = std::vector<std::string>;

TEST(SplitServe, LeavesTheServersFlagsAsTheyAreAndInOrder) {
  const auto split = split_serve({"-m", "a.gguf", "--memory", "1GiB", "-c", "4096", "--exact", "--port", "80",
                                  "--block-tokens=32", "-hf", "x/y", "--temp", "-1", "a.gguf"});
  ASSERT_TRUE(split);
  EXPECT_EQ(split->ours, (Words{"--memory=1GiB", "--exact", "--block-tokens=32"}));
  EXPECT_EQ(split->theirs,
            (Words{"-m", "a.gguf", "-c", "4096", "--port", "80", "-hf", "x/y", "--temp", "-1", "a.gguf"}));
  EXPECT_FALSE(split->help);
}

TEST(SplitServe, GivesTheServerAllThatFollowsTheDashes) {
  const auto split = split_serve({"--off", "--", "--memory", "x", "--help", "--", "--disk"});
  ASSERT_TRUE(split);
  EXPECT_EQ(split->ours, (Words{"--off"}));
  EXPECT_EQ(split->theirs, (Words{"--memory", "x", "--help", "--", "--disk"}));
  EXPECT_FALSE(split->help);
}

TEST(SplitServe, KeepsAValueThatLooksLikeAFlag) {
  const auto split = split_serve({"--tenant", "--exact"});
  ASSERT_TRUE(split);
  EXPECT_EQ(split->ours, (Words{"--tenant=--exact"}));
}

TEST(SplitServe, ComplainsAboutAValueThatIsMissing) {
  EXPECT_EQ(split_serve({"--memory"}).error(), "--memory needs a value: --memory SIZE");
  EXPECT_EQ(split_serve({"--memory", "--", "-c"}).error(), "--memory needs a value: --memory SIZE");
}

TEST(SplitServe, NamesFlagsThatThisVersionDoesNotHave) {
  for (const std::string flag : {"--redis", "--s3"}) {
    EXPECT_NE(split_serve({flag, "x"}).error().find(flag + ": this version has no"), std::string::npos);
    EXPECT_FALSE(split_serve({flag + "=x"}));
    EXPECT_FALSE(split_run({flag, "x", "--", "true"}));
  }
  EXPECT_TRUE(split_serve({"--disks"}));
}

TEST(SplitServe, SeesHelp) {
  EXPECT_TRUE(split_serve({"-h"})->help);
  EXPECT_TRUE(split_serve({"-m", "x", "--help"})->help);
  EXPECT_FALSE(split_serve({"-hf", "x"})->help);
}

TEST(SplitRun, EndsAtTheProgram) {
  for (const Words& call : {Words{"--memory", "1GiB", "--", "prog", "--exact", "--", "-h"},
                            Words{"--memory", "1GiB", "prog", "--exact", "--", "-h"}}) {
    const auto split = split_run(call);
    ASSERT_TRUE(split);
    EXPECT_EQ(split->ours, (Words{"--memory=1GiB"}));
    EXPECT_EQ(split->theirs, (Words{"prog", "--exact", "--", "-h"}));
    EXPECT_FALSE(split->help);
  }
}

TEST(SplitRun, ComplainsAboutWhatIsNotOurs) {
  EXPECT_NE(split_run({"-c", "4096", "--", "prog"}).error().find("there is no flag -c"), std::string::npos);
  EXPECT_NE(split_run({}).error().find("run needs a program"), std::string::npos);
  EXPECT_NE(split_run({"--exact", "--"}).error().find("run needs a program"), std::string::npos);
  EXPECT_TRUE(split_run({"--help"})->help);
}

}  // namespace
}  // namespace rhizome
