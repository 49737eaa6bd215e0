#include "engine/llama/settings.h"

#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include "machine/host.h"

namespace rhizome {
namespace {

// The variables that settings come from, restored afterwards.
class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    for (const char* name : kNames) {
      if (const char* value = std::getenv(name); value != nullptr) saved_[name] = value;
      ::unsetenv(name);
    }
    ::setenv("HOME", "/home/somebody", 1);
  }
  ~SettingsTest() override {
    for (const char* name : kNames)
      ::unsetenv(name);
    for (const auto& [name, value] : saved_)
      ::setenv(name.c_str(), value.c_str(), 1);
  }

  Result<Settings> read() { return settings_from_environment(problem_); }

  void expect_refused(const char* name, const char* value) {
    ::setenv(name, value, 1);
    const auto settings = read();
    ASSERT_FALSE(settings) << name << "=" << value;
    EXPECT_EQ(settings.error().code, Code::kInvalidArgument);
    EXPECT_EQ(problem_.rfind(std::string(name) + "=" + value + " ", 0), 0U) << problem_;
    ::unsetenv(name);
  }

  static constexpr const char* kNames[] = {"RHIZOME_OFF",       "RHIZOME_ATTACH",
                                           "RHIZOME_EXACT",     "RHIZOME_NO_RESTORE",
                                           "RHIZOME_MEMORY",    "RHIZOME_TENANT",
                                           "RHIZOME_COUNTERS",  "RHIZOME_BLOCK_TOKENS",
                                           "RHIZOME_EXCLUSIVE", "RHIZOME_WATERMARKS",
                                           "RHIZOME_LOG",       "RHIZOME_CACHE_DIR",
                                           "XDG_CACHE_HOME",    "HOME"};
  std::map<std::string, std::string> saved_;
  std::string problem_;
};

TEST_F(SettingsTest, HaveDefaults) {
  const auto settings = read();
  ASSERT_TRUE(settings);
  EXPECT_FALSE(settings->off);
  EXPECT_FALSE(settings->exact);
  EXPECT_TRUE(settings->restore);
  EXPECT_EQ(settings->memory_bytes, std::min(total_memory_bytes() / 4, uint64_t{8} << 30));
  EXPECT_EQ(settings->block_tokens, 16U);
  EXPECT_EQ(settings->cache_directory, "/home/somebody/.cache/rhizome");
  EXPECT_EQ(settings->tenant, "");
  EXPECT_EQ(settings->counters_path, "");
}

TEST_F(SettingsTest, SayHowMemoryAndDiskShareBlocks) {
  EXPECT_FALSE(read()->exclusive || read()->watermarks);
  ::setenv("RHIZOME_EXCLUSIVE", "1", 1);
  ::setenv("RHIZOME_WATERMARKS", "90:70", 1);
  EXPECT_TRUE(read()->exclusive);
  EXPECT_EQ(read()->watermarks, (Watermarks{90, 70}));
  expect_refused("RHIZOME_WATERMARKS", "70:90");
}

TEST_F(SettingsTest, AreWhatTheVariablesSay) {
  ::setenv("RHIZOME_OFF", "1", 1);
  ::setenv("RHIZOME_EXACT", "true", 1);
  ::setenv("RHIZOME_NO_RESTORE", "1", 1);
  ::setenv("RHIZOME_MEMORY", "64MiB", 1);
  ::setenv("RHIZOME_BLOCK_TOKENS", "128", 1);
  ::setenv("RHIZOME_TENANT", "me", 1);
  ::setenv("RHIZOME_COUNTERS", "/run/c", 1);
  ::setenv("RHIZOME_LOG", "debug", 1);
  ::setenv("RHIZOME_CACHE_DIR", "/cache", 1);
  const auto settings = read();
  ASSERT_TRUE(settings);
  EXPECT_TRUE(settings->off);
  EXPECT_TRUE(settings->exact);
  EXPECT_FALSE(settings->restore);
  EXPECT_EQ(settings->memory_bytes, uint64_t{64} << 20);
  EXPECT_EQ(settings->block_tokens, 128U);
  EXPECT_EQ(settings->tenant, "me");
  EXPECT_EQ(settings->counters_path, "/run/c");
  EXPECT_EQ(settings->log, "debug");
  EXPECT_EQ(settings->cache_directory, "/cache");
  ::setenv("RHIZOME_MEMORY", "1048576", 1);
  EXPECT_EQ(read()->memory_bytes, uint64_t{1} << 20);
}

TEST_F(SettingsTest, SwitchesAreOffWhenEmptyOrZero) {
  for (const char* off : {"", "0", "false"}) {
    ::setenv("RHIZOME_OFF", off, 1);
    ::setenv("RHIZOME_EXACT", off, 1);
    ::setenv("RHIZOME_NO_RESTORE", off, 1);
    const auto settings = read();
    ASSERT_TRUE(settings);
    EXPECT_FALSE(settings->off);
    EXPECT_FALSE(settings->exact);
    EXPECT_TRUE(settings->restore);
  }
}

TEST_F(SettingsTest, TheCacheDirectoryFollowsTheHome) {
  ::setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(read()->cache_directory, "/xdg/rhizome");
  ::unsetenv("XDG_CACHE_HOME");
  ::unsetenv("HOME");
  EXPECT_EQ(read()->cache_directory, "") << "nowhere to keep anything: not an error";
}

TEST_F(SettingsTest, NameTheNode) {
  for (const char* const none : {"", "none"}) {
    ::setenv("RHIZOME_ATTACH", none, 1);
    const auto settings = read();
    ASSERT_TRUE(settings);
    EXPECT_EQ(settings->node_socket, "");
  }
  ::setenv("RHIZOME_ATTACH", "/run/node.sock", 1);
  const auto settings = read();
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->node_socket, "/run/node.sock");
}

TEST_F(SettingsTest, RefuseWhatIsNoSizeAndSayWhich) {
  for (const char* bad :
       {"0", "-1", "64MB?", "much", "0GiB", " ", "1e9", "99999999999999999999", "18446744073709551615GiB"}) {
    expect_refused("RHIZOME_MEMORY", bad);
  }
  EXPECT_TRUE(read());
}

TEST_F(SettingsTest, RefuseBlocksThatAreNotOffered) {
  for (const char* bad : {"0", "-16", "15", "17", "512", "lots", "16x", "16 ", "0x10", "4294967312"}) {
    expect_refused("RHIZOME_BLOCK_TOKENS", bad);
  }
  for (const char* good : {"16", "32", "64", "128", "256"}) {
    ::setenv("RHIZOME_BLOCK_TOKENS", good, 1);
    EXPECT_TRUE(read()) << good;
  }
}

}  // namespace
}  // namespace rhizome
