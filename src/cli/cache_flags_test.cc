#include "cli/cache_flags.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/command_text.h"
#include "cli/flag_table.h"

namespace rhizome {
namespace {

constexpr uint64_t kMachine = uint64_t{16} << 30;

class Variables {
 public:
  Variables(std::initializer_list<std::pair<const std::string, std::string>> values) : values_(values) {}
  std::optional<std::string> operator()(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::map<std::string, std::string> values_;
};

OrComplaint<CacheFlags> flags_of(const std::vector<std::string>& line, const Variables& variables = {},
                                 const char* command = "serve") {
  const auto given = parse_flags(*find_command(command), line, variables);
  if (!given) return complain(given.error());
  return check_flags(*given, kMachine, variables);
}

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) : path_(testing::TempDir() + "cache_flags_test.toml") {
    std::ofstream(path_) << text;
  }
  ~ConfigFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(CacheFlags, HaveDefaults) {
  const auto flags = flags_of({}, {{"HOME", "/home/x"}});
  ASSERT_TRUE(flags) << flags.error();
  EXPECT_EQ(flags->memory_bytes, uint64_t{4} << 30);
  EXPECT_EQ(flags->block_tokens, 16U);
  EXPECT_EQ(flags->verify, "tier");
  EXPECT_EQ(flags->cache_dir, "/home/x/.cache/rhizome");
  EXPECT_FALSE(flags->off || flags->exact || flags->no_restore || flags->json || flags->metrics_port);
  EXPECT_EQ(default_memory_bytes(uint64_t{256} << 30), uint64_t{8} << 30);
  EXPECT_EQ(flags_of({}, {{"HOME", "/home/x"}, {"XDG_CACHE_HOME", "/c"}})->cache_dir, "/c/rhizome");
}

TEST(CacheFlags, TakeEveryFlag) {
  const auto flags =
      flags_of({"--memory=2GiB", "--block-tokens=64", "--off", "--no-restore", "--exact", "--verify=sample",
                "--tenant=me", "--cache-dir=/d", "--attach=none", "--metrics-port=0", "--json"});
  ASSERT_TRUE(flags) << flags.error();
  EXPECT_EQ(flags->memory_bytes, uint64_t{2} << 30);
  EXPECT_EQ(flags->block_tokens, 64U);
  EXPECT_TRUE(flags->off && flags->no_restore && flags->exact && flags->json);
  EXPECT_EQ(flags->verify, "sample");
  EXPECT_EQ(flags->tenant, "me");
  EXPECT_EQ(flags->cache_dir, "/d");
  EXPECT_EQ(flags->metrics_port, 0);
}

TEST(CacheFlags, GoBeforeEnvironmentBeforeFile) {
  const ConfigFile file("memory = \"1GiB\"\nblock-tokens = 32\nverify = \"always\"\nexact = true\nno-restore = true\n");
  const Variables variables{{"RHIZOME_MEMORY", "2GiB"}, {"RHIZOME_BLOCK_TOKENS", "64"}, {"RHIZOME_EXACT", "0"}};
  const auto flags = flags_of({"--memory=3GiB", "--config=" + file.path()}, variables);
  ASSERT_TRUE(flags) << flags.error();
  EXPECT_EQ(flags->memory_bytes, uint64_t{3} << 30);
  EXPECT_EQ(flags->block_tokens, 64U);
  EXPECT_EQ(flags->verify, "always");
  EXPECT_FALSE(flags->exact);
  EXPECT_TRUE(flags->no_restore);
}

TEST(CacheFlags, SayHowMemoryAndDiskShareBlocks) {
  EXPECT_FALSE(flags_of({"--disk=1GiB"})->exclusive || flags_of({"--disk=1GiB"})->watermarks);
  const auto flags = flags_of({"--disk=1GiB", "--exclusive", "--watermarks=90:70"});
  ASSERT_TRUE(flags) << flags.error();
  EXPECT_TRUE(flags->exclusive);
  EXPECT_EQ(flags->watermarks, (Watermarks{90, 70}));
  const ConfigFile file("exclusive = true\nwatermarks = \"80:60\"\n");
  EXPECT_TRUE(flags_of({"--config=" + file.path()})->exclusive);
  EXPECT_EQ(flags_of({"--config=" + file.path()}, {{"RHIZOME_WATERMARKS", "75:50"}})->watermarks, (Watermarks{75, 50}));
  EXPECT_EQ(flags_of({}, {{"RHIZOME_WATERMARKS", "50:75"}}).error().rfind("RHIZOME_WATERMARKS is '50:75'", 0), 0U);
  // Without a disk they say nothing, as --disk-writes.
  EXPECT_TRUE(flags_of({"--exclusive", "--watermarks=90:70"}));
}

TEST(CacheFlags, LastOfTheSameFlagWins) {
  EXPECT_EQ(flags_of({"--memory=1GiB", "--memory=2GiB"})->memory_bytes, uint64_t{2} << 30);
}

std::string tenants_of(const std::vector<std::string>& line, const Variables& variables = {},
                       const char* command = "daemon") {
  const auto flags = flags_of(line, variables, command);
  if (!flags) return flags.error();
  std::string names;
  for (const TenantShare& share : flags->tenants)
    names += (names.empty() ? "" : " ") + share.name + ":" + std::to_string(share.memory_bytes >> 20);
  return names;
}

TEST(CacheFlags, ADaemonTakesSeveralTenants) {
  EXPECT_EQ(tenants_of({}), ":4096");
  EXPECT_EQ(tenants_of({"--tenant", "a", "--memory=1GiB", "--tenant=b"}), "a:512 b:512");
  EXPECT_EQ(tenants_of({"--tenant=a,b=256MiB,c", "--memory=1GiB"}), "a:384 b:256 c:384");
  const Variables variables{{"RHIZOME_TENANT", "x,y=1GiB"}, {"RHIZOME_MEMORY", "2GiB"}};
  EXPECT_EQ(tenants_of({}, variables), "x:1024 y:1024");
  EXPECT_EQ(tenants_of({"--tenant=a"}, variables), "a:2048") << "what is typed goes first";
  const ConfigFile file("memory = \"1GiB\"\ntenant = [\"f\", \"g=256MiB\"]\n");
  EXPECT_EQ(tenants_of({"--config=" + file.path()}), "f:768 g:256");
  EXPECT_EQ(tenants_of({"--config=" + file.path()}, {{"RHIZOME_TENANT", "x"}}), "x:1024");
  const ConfigFile one("tenant = \"f,g\"\n");
  EXPECT_EQ(tenants_of({"--config=" + one.path()}), "f:2048 g:2048");
  EXPECT_EQ(tenants_of({"--tenant=a", "--tenant=a"}), "--tenant names a twice");
  EXPECT_EQ(tenants_of({}, {{"RHIZOME_TENANT", "a,a"}}), "RHIZOME_TENANT names a twice");
}

TEST(CacheFlags, AListOfNothingNamesNobody) {
  const std::string no_name = " is ''; a tenant is 1 to 64 printable characters";
  for (const char* const text : {",", "a,,b", "a,", ",a", "\n", "a\n"}) {
    EXPECT_EQ(tenants_of({}, {{"RHIZOME_TENANT", text}}).rfind("RHIZOME_TENANT" + no_name, 0), 0U) << text;
    EXPECT_EQ(tenants_of({"--tenant", text, "--memory=1GiB"}).rfind("--tenant" + no_name, 0), 0U) << text;
  }
  for (const char* const text : {"[\",\"]", "[\"a\",\"\"]"}) {
    const ConfigFile file("tenant = " + std::string(text) + "\n");
    EXPECT_EQ(tenants_of({"--config=" + file.path()}).rfind("tenant in " + file.path() + no_name, 0), 0U) << text;
  }
}

TEST(CacheFlags, AnEmptyListInAFileIsAnEmptyValue) {
  for (const char* const command : {"daemon", "serve"}) {
    for (const char* const name : {"tenant", "memory", "cache-dir"}) {
      const ConfigFile file(std::string(name) + " = []\n");
      const std::string said = tenants_of({"--config=" + file.path()}, {}, command);
      EXPECT_EQ(said.rfind(std::string(name) + " in " + file.path() + " is ''", 0), 0U) << said;
    }
  }
  for (const char* const text : {"exclusive = []\n", "[memory]\n", "[memory]\nx = []\n"}) {
    const ConfigFile file(text);
    EXPECT_FALSE(flags_of({"--config=" + file.path()})) << text;
  }
}

TEST(CacheFlags, AnEngineHasOneTenant) {
  EXPECT_EQ(tenants_of({"--tenant=a", "--tenant=b"}, {}, "serve"), "b:4096");
  EXPECT_FALSE(more_than_a_tenant(*flags_of({"--tenant=a"})));
  EXPECT_FALSE(more_than_a_tenant(*flags_of({})));
  EXPECT_EQ(
      more_than_a_tenant(*flags_of({}, {{"RHIZOME_TENANT", "a,b"}})).value_or("").rfind("RHIZOME_TENANT names", 0), 0U);
  EXPECT_EQ(more_than_a_tenant(*flags_of({"--tenant=a=1GiB"})).value_or("").rfind("--tenant has a size", 0), 0U);
}

TEST(CacheFlags, SayInTheirOwnWordsThatAValueIsMissing) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"--disk", ""}, "--disk is ''; it needs a value: --disk SIZE"},
      {{"--disk="}, "--disk is ''; it needs a value: --disk SIZE"},
      {{"--tenant", ""}, "--tenant is ''; it needs a value: --tenant NAME"},
      {{"--memory"}, "--memory needs a value: --memory SIZE"},
      {{"--memory", "--disk", "1GiB"}, "--memory needs a value: --memory SIZE"},
      {{"--exclusive=2"}, "--exclusive is '2'; it must be 1 or 0, or true or false"},
  };
  for (const auto& [line, said] : cases) {
    const auto flags = flags_of(line);
    ASSERT_FALSE(flags) << said;
    EXPECT_EQ(flags.error(), said);
  }
  for (const char* const text : {"2", "maybe", "-1", "TRUE!"}) {
    const auto flags = flags_of({}, {{"RHIZOME_EXCLUSIVE", text}});
    ASSERT_FALSE(flags) << text;
    EXPECT_EQ(flags.error(), "RHIZOME_EXCLUSIVE is '" + std::string(text) + "'; it must be 1 or 0, or true or false");
  }
  EXPECT_TRUE(flags_of({}, {{"RHIZOME_EXCLUSIVE", "1"}})->exclusive);
  EXPECT_FALSE(flags_of({}, {{"RHIZOME_EXCLUSIVE", "0"}})->exclusive);
  const ConfigFile file("exclusive = 2\n");
  EXPECT_EQ(flags_of({"--config=" + file.path()}).error().rfind("exclusive in " + file.path() + " is '2'", 0), 0U);
}

TEST(CacheFlags, FindTheFileInTheEnvironment) {
  const ConfigFile file("memory = \"1GiB\"\n");
  EXPECT_EQ(flags_of({}, {{"RHIZOME_CONFIG", file.path()}})->memory_bytes, uint64_t{1} << 30);
}

TEST(CacheFlags, SayWhichFileOrKeyIsWrong) {
  EXPECT_NE(flags_of({"--config=/no/such/file.toml"}).error().find("/no/such/file.toml"), std::string::npos);
  const ConfigFile unknown("memroy = \"1GiB\"\n");
  const auto flags = flags_of({"--config=" + unknown.path()});
  ASSERT_FALSE(flags);
  EXPECT_NE(flags.error().find("there is no flag 'memroy'"), std::string::npos) << flags.error();
  const ConfigFile wrong("memory = \"0\"\n");
  EXPECT_EQ(flags_of({"--config=" + wrong.path()}).error().find("memory in " + wrong.path() + " is '0'"), 0U);
}

TEST(CacheFlags, SayWhatIsWrongWithAMemorySize) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--memory=0", "--memory is '0'; the cache needs memory for at least one block"},
      {"--memory=0GiB", "--memory is '0GiB'; the cache needs memory for at least one block"},
      {"--memory=64", "--memory is '64'; a size needs a unit, for example 64MiB"},
      {"--memory=17GiB", "--memory is '17GiB'; this machine has 16GiB"},
      {"--memory=lots", "--memory is 'lots'; it must be a size"},
      {"--memory=-1GiB", "--memory is '-1GiB'; it must be a size"},
      {"--memory=99999999999999GiB", "--memory is '99999999999999GiB'; it must be a size"},
  };
  for (const auto& [flag, line] : cases) {
    const auto flags = flags_of({flag});
    ASSERT_FALSE(flags) << flag;
    EXPECT_EQ(flags.error().rfind(line, 0), 0U) << flags.error();
  }
  EXPECT_EQ(flags_of({"--memory=16GiB"})->memory_bytes, kMachine);
}

TEST(CacheFlags, TakeBytesFromTheEnvironmentAsTheLibraryDoes) {
  EXPECT_EQ(flags_of({}, {{"RHIZOME_MEMORY", "1048576"}})->memory_bytes, 1U << 20);
  EXPECT_EQ(flags_of({}, {{"RHIZOME_MEMORY", "0"}}).error().rfind("RHIZOME_MEMORY is '0'", 0), 0U);
}

TEST(CacheFlags, NameANode) {
  EXPECT_EQ(flags_of({})->attach, "");
  EXPECT_EQ(flags_of({"--attach=none"})->attach, "none");
  EXPECT_EQ(flags_of({}, {{"RHIZOME_ATTACH", "/run/node.sock"}})->attach, "/run/node.sock");
  EXPECT_EQ(flags_of({"--disk=1GiB"})->disk_source, "--disk");
  EXPECT_EQ(flags_of({"--disk=0"})->disk_source, "");
}

TEST(CacheFlags, SayWhatIsWrongWithOthers) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--watermarks=70:90", "--watermarks is '70:90'; it must be two percentages of memory, the higher one first"},
      {"--watermarks=70:70", "it must be two percentages of memory"},
      {"--watermarks=90:0", "it must be two percentages of memory"},
      {"--watermarks=101:70", "it must be two percentages of memory"},
      {"--watermarks=many:few", "it must be two percentages of memory"},
      {"--watermarks=90", "it must be two percentages of memory"},
      {"--exclusive=perhaps", "--exclusive"},
      {"--block-tokens=17", "it must be 16, 32, 64, 128 or 256"},
      {"--block-tokens=16x", "it must be 16, 32, 64, 128 or 256"},
      {"--verify=never", "it must be always, tier or sample"},
      {"--metrics-port=65536", "it must be a port"},
      {"--metrics-port=-1", "it must be a port"},
      {"--attach=/" + std::string(200, 'x'), "must be the path of a node's socket"},
      {"--tenant=a b", "a tenant is 1 to 64 printable characters"},
      {"--exact=perhaps", "--exact"},
  };
  for (const auto& [flag, part] : cases) {
    const auto flags = flags_of({flag});
    ASSERT_FALSE(flags) << flag;
    EXPECT_NE(flags.error().find(part), std::string::npos) << flags.error();
    EXPECT_EQ(flags.error().find('\n'), std::string::npos) << flags.error();
  }
}

TEST(ChildEnvironment, SaysEverythingAndTakesOutTheRest) {
  CacheFlags flags;
  flags.memory_bytes = 1 << 20;
  flags.exact = true;
  const ChildEnvironment environment = child_environment(flags, "/run/counters-1", "/run/node.sock");
  const std::vector<std::pair<std::string, std::string>> set = {
      {"RHIZOME_MEMORY", "1048576"}, {"RHIZOME_BLOCK_TOKENS", "16"},          {"RHIZOME_EXACT", "1"},
      {"RHIZOME_VERIFY", "tier"},    {"RHIZOME_COUNTERS", "/run/counters-1"}, {"RHIZOME_ATTACH", "/run/node.sock"}};
  EXPECT_EQ(environment.set, set);
  EXPECT_EQ(environment.removed,
            (std::vector<std::string>{"RHIZOME_DISK", "RHIZOME_DISK_WRITES", "RHIZOME_EXCLUSIVE", "RHIZOME_WATERMARKS",
                                      "RHIZOME_NO_RESTORE", "RHIZOME_OFF", "RHIZOME_TENANT", "RHIZOME_CACHE_DIR"}));
}

TEST(ChildEnvironment, NamesTheDisk) {
  CacheFlags flags;
  flags.disk_bytes = uint64_t{20} << 30;
  flags.disk_bytes_per_day = uint64_t{100} << 30;
  flags.exclusive = true;
  flags.watermarks = {90, 70};
  const ChildEnvironment environment = child_environment(flags, "", "");
  const auto value = [&](std::string_view name) {
    const auto found = std::ranges::find(environment.set, name, [](const auto& entry) { return entry.first; });
    return found == environment.set.end() ? std::string() : found->second;
  };
  EXPECT_EQ(value("RHIZOME_DISK"), "21474836480");
  EXPECT_EQ(value("RHIZOME_DISK_WRITES"), "107374182400");
  EXPECT_EQ(value("RHIZOME_EXCLUSIVE"), "1");
  EXPECT_EQ(value("RHIZOME_WATERMARKS"), "90:70");
}

TEST(FlagTable, NamesEnvironmentVariables) {
  EXPECT_EQ(environment_name("block-tokens"), "RHIZOME_BLOCK_TOKENS");
  EXPECT_EQ(environment_name("--memory"), "RHIZOME_MEMORY");
}

}  // namespace
}  // namespace rhizome
