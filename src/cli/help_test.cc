#include "cli/help.h"

#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "cli/flag_table.h"

namespace rhizome {
namespace {

TEST(Wrapped, BreaksAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7, 0), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 13, 0), "one two three");
  EXPECT_EQ(wrapped("one two three", 12, 2), "one two\n  three");
  EXPECT_EQ(wrapped("a b c d", 3, 0), "a b\nc d");
  EXPECT_EQ(wrapped("", 5, 2), "");
}

TEST(Wrapped, LeavesALongWordWhole) {
  EXPECT_EQ(wrapped("abcdefgh", 3, 0), "abcdefgh");
  EXPECT_EQ(wrapped("a abcdefgh b", 4, 2), "a\n  abcdefgh\n  b");
}

TEST(Wrapped, KeepsLineEnds) {
  EXPECT_EQ(wrapped("one\n\ntwo three", 6, 0), "one\n\ntwo\nthree");
}

TEST(CommandHelp, NamesEveryFlagAndAnExample) {
  for (const CommandText& command : commands()) {
    if (!command.takes_cache_flags) continue;
    const std::string help = command_help(command);
    EXPECT_EQ(help.rfind("Usage: rhizome " + std::string(command.usage) + "\n", 0), 0U) << help;
    EXPECT_NE(help.find("Examples:\n  rhizome " + std::string(command.name)), std::string::npos) << help;
    for (const Flag& flag : cache_flags())
      EXPECT_NE(help.find("  --" + std::string(flag.name)), std::string::npos);
    EXPECT_EQ(help.back(), '\n');
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(line.size(), 100U) << line;
  }
}

TEST(ProgramHelp, NamesEveryCommand) {
  for (const CommandText& command : commands()) {
    EXPECT_NE(program_help().find("\n  " + std::string(command.name) + " "), std::string::npos);
  }
}

}  // namespace
}  // namespace rhizome
