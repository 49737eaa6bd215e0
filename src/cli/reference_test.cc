#include "cli/reference.h"

#include <string>

#include <gtest/gtest.h>

#include "cli/command_text.h"
#include "cli/flag_table.h"
#include "cli/program.h"
#include "telemetry/counters.h"

namespace rhizome {
namespace {

bool holds(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(ReferencePage, NamesEveryCommandFlagAndMetric) {
  const std::string page = reference_page();
  for (const CommandText& command : commands())
    EXPECT_TRUE(holds(page, command.usage)) << command.usage;
  for (const Flag& flag : cache_flags()) {
    EXPECT_TRUE(holds(page, "`--" + std::string(flag.name))) << flag.name;
    EXPECT_TRUE(holds(page, environment_name(flag.name))) << flag.name;
  }
  for (uint32_t i = 0; i < kCountersCount; ++i) {
    const CounterInfo& described = counter_info(static_cast<Counter>(i));
    EXPECT_TRUE(holds(page, "| `" + std::string(described.name) + "` |")) << described.name;
    EXPECT_TRUE(holds(page, described.labels)) << described.labels;
  }
  EXPECT_TRUE(holds(page, "`phantom_blocks_total`"));
}

TEST(ManPage, NamesEveryCommandAndFlag) {
  const std::string page = man_page();
  for (const CommandText& command : commands()) {
    EXPECT_TRUE(holds(page, ".SH RHIZOME " + std::string(command.name)));
  }
  EXPECT_TRUE(holds(page, ".B \\-\\-block\\-tokens N\n"));
}

TEST(BashCompletion, OffersEveryCommandAndFlag) {
  const std::string script = bash_completion();
  for (const CommandText& command : commands())
    EXPECT_TRUE(holds(script, std::string(command.name) + " "));
  for (const Flag& flag : cache_flags())
    EXPECT_TRUE(holds(script, " --" + std::string(flag.name)));
}

TEST(Version, NamesProgramEngineAndFormats) {
  const std::string text = version_text();
  EXPECT_EQ(text.rfind("rhizome ", 0), 0U);
  EXPECT_TRUE(holds(text, "llama.cpp v")) << text;
  EXPECT_TRUE(holds(text, "formats"));
}

}  // namespace
}  // namespace rhizome
