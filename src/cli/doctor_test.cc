#include "cli/doctor.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace rhizome {
namespace {

TEST(Doctor, FindsWhatEveryMachineThatBuildsThisHas) {
  const std::vector<Check> checks = check_machine();
  for (const char* const name : {"memory", "memfd sealing", "sockets and pidfd"}) {
    const auto found = std::ranges::find(checks, std::string_view(name), &Check::name);
    ASSERT_NE(found, checks.end()) << name;
    EXPECT_EQ(found->offer, Offer::kYes) << name << ": " << found->found;
  }
  for (const Check& check : checks) {
    EXPECT_FALSE(check.found.empty()) << check.name;
    EXPECT_EQ(check.offer != Offer::kYes && check.without.empty(), false) << check.name;
  }
}

TEST(Doctor, SaysWhatHappensWithoutIt) {
  const std::vector<Check> checks = {{"clock", Offer::kYes, "tsc", ""},
                                     {"io_uring", Offer::kNo, "not \"allowed\"", "threads"}};
  EXPECT_EQ(doctor_text(checks),
            "clock              yes   tsc\n"
            "io_uring           no    not \"allowed\"\n"
            "                         then: threads\n");
  const auto json = nlohmann::json::parse(doctor_json(checks));
  EXPECT_EQ(json["io_uring"]["offered"], "no");
  EXPECT_EQ(json["io_uring"]["then"], "threads");
  EXPECT_FALSE(json["clock"].contains("then"));
}

}  // namespace
}  // namespace rhizome
