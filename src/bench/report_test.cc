#include "bench/report.h"

#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/text.h"

namespace rhizome::bench {
namespace {

TEST(Report, JsonHasTheShapeThatProgramsRead) {
  Report report(nullptr, false, true);
  report.figure("computed_over_ideal_turns", 1.0125);
  report.figure("small_context_answered", 24);
  report.answered("text");
  const std::string line = report.json("agents", {"a \"cpu\"", 2, 1024, "Linux"});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const nlohmann::json parsed = nlohmann::json::parse(line);
  EXPECT_EQ(parsed["bench"], "agents");
  EXPECT_EQ(parsed["figures"]["computed_over_ideal_turns"], 1.0125);
  EXPECT_TRUE(parsed["figures"]["small_context_answered"].is_number_integer());
  EXPECT_EQ(parsed["checksum"].get<std::string>().size(), 64u);
  EXPECT_EQ(parsed["machine"]["cpu"], "a \"cpu\"");
  EXPECT_EQ(parsed["machine"]["cpus"], 2);
}

TEST(Report, ChecksumDependsOnEveryAnswerAndItsEnd) {
  const auto checksum = [](const std::vector<std::string>& answers) {
    Report report(nullptr, false, true);
    for (const std::string& answer : answers)
      report.answered(answer);
    return nlohmann::json::parse(report.json("agents", {}))["checksum"].get<std::string>();
  };
  EXPECT_EQ(checksum({"a", "b"}), checksum({"b", "a"}));
  EXPECT_NE(checksum({"a", "b"}), checksum({"a", "b", "b"}));
  EXPECT_NE(checksum({"a", "b"}), checksum({"ab"}));
  EXPECT_NE(checksum({"a", "b"}), checksum({"a", "c"}));
}

TEST(Report, FiguresAreJudgedByTheirBounds) {
  std::ostringstream table;
  Report report(&table, false, true);
  report.figure("computed_over_ideal_turns", 1.01);
  report.figure("restore_gb_per_s", 1.5);
  report.figure("only_reported", 3);
  report.print_figures();
  std::istringstream lines(table.str());
  for (std::string line; std::getline(lines, line);) {
    if (line.find("computed_over_ideal_turns") != std::string::npos) {
      EXPECT_NE(line.find("met"), std::string::npos) << line;
    }
    if (line.find("restore_gb_per_s") != std::string::npos) {
      EXPECT_NE(line.find("SHORT"), std::string::npos) << line;
    }
    if (line.find("only_reported") != std::string::npos) {
      EXPECT_EQ(line.find("met"), std::string::npos) << line;
    }
  }
  EXPECT_FALSE(report.failed());  // a bound that is missed is said, an answer that differs fails the run
}

TEST(Report, OnAnotherModelNothingIsJudged) {
  std::ostringstream table;
  Report report(&table, false, false);
  report.figure("restore_gb_per_s", 1.5);
  report.print_figures();
  EXPECT_EQ(table.str().find("SHORT"), std::string::npos);
}

TEST(Report, RowsStandInColumns) {
  std::ostringstream table;
  Report report(&table, false, true);
  report.section("title", "how");
  report.row("computed", "7,357", "3,377");
  EXPECT_NE(table.str().find("(how)"), std::string::npos);
  EXPECT_NE(table.str().find("7,357           3,377"), std::string::npos);
}

TEST(Text, Numbers) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(31093), "31,093");
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(fixed(0.0401, 3), "0.040");
  EXPECT_EQ(milliseconds(3.6742), "3,674 ms");
}

}  // namespace
}  // namespace rhizome::bench
