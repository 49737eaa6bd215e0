#include "cli/runtime_dir.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/files.h"
#include "machine/host.h"
#include "machine/process.h"

namespace rhizome {
namespace {

class RuntimeDirTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "runtime_dir_test_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    base_ = name;
    directory_ = base_ + "/rhizome";
  }
  void TearDown() override {
    if (const auto names = list_directory(directory_)) {
      for (const auto& name : *names)
        (void)remove_file(directory_ + "/" + name);
    }
    ::rmdir(directory_.c_str());
    ::rmdir(base_.c_str());
  }
  bool has(const std::string& name) const { return stamp_file(directory_ + "/" + name).has_value(); }
  void make(const std::string& name) const { std::ofstream(directory_ + "/" + name) << "x"; }

  std::string base_;
  std::string directory_;
};

TEST(RuntimeDirectory, FollowsTheEnvironment) {
  const auto with = [](const std::string& name, const std::string& value) {
    return [=](const std::string& asked) -> std::optional<std::string> {
      if (asked != name) return std::nullopt;
      return value;
    };
  };
  EXPECT_EQ(runtime_directory(with("XDG_RUNTIME_DIR", "/run/user/7"), 7), "/run/user/7/rhizome");
  EXPECT_EQ(runtime_directory(with("XDG_RUNTIME_DIR", "relative"), 7), "/tmp/rhizome-7");
  EXPECT_EQ(runtime_directory(with("TMPDIR", "/var/tmp"), 7), "/var/tmp/rhizome-7");
  EXPECT_EQ(runtime_directory(with("HOME", "/home/x"), 7), "/tmp/rhizome-7");
}

TEST_F(RuntimeDirTest, MakesAPrivateDirectoryAndAPageThatOthersCanMap) {
  std::string path;
  {
    const auto page = CountersPage::create(directory_);
    ASSERT_TRUE(page) << page.error();
    path = page->path();
    struct stat found{};
    ASSERT_EQ(::stat(directory_.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0700U);
    const auto other = Counters::attach(path);
    ASSERT_TRUE(other);
    (*other)->add(Counter::kLookups, 5);
    EXPECT_EQ(page->counters().get(Counter::kLookups), 5U);
  }
  EXPECT_EQ(stamp_file(path).error().code, Code::kNotFound) << "the page outlived its owner";
}

TEST_F(RuntimeDirTest, RemovesPagesOfTheDeadOnly) {
  ASSERT_TRUE(make_private_directory(directory_));
  auto child = Child::spawn({"/bin/true"});
  ASSERT_TRUE(child);
  child->wait();
  const std::string dead = "counters-" + std::to_string(child->pid());
  const std::string alive = "counters-" + std::to_string(::getppid());
  const std::string own = "counters-" + std::to_string(own_pid());
  const std::string dead_node = "node-" + std::to_string(child->pid()) + ".sock";
  const std::string alive_node = "node-" + std::to_string(::getppid()) + ".sock";
  for (const std::string& name : {dead, alive, own, dead + ".scratch", alive + ".scratch", dead_node, alive_node,
                                  std::string("counters-x"), std::string("node.sock"), std::string("node.pid")}) {
    make(name);
  }
  const auto page = CountersPage::create(directory_);
  ASSERT_TRUE(page) << page.error();
  EXPECT_FALSE(has(dead));
  EXPECT_FALSE(has(dead + ".scratch"));
  EXPECT_TRUE(has(alive));
  EXPECT_TRUE(has(alive + ".scratch"));
  EXPECT_TRUE(has("counters-x"));
  EXPECT_FALSE(has(dead_node));
  EXPECT_TRUE(has(alive_node));
  EXPECT_TRUE(has("node.sock"));
  EXPECT_TRUE(has("node.pid"));
}

TEST(RuntimeDirectory, KnowsPagesOfCounters) {
  EXPECT_EQ(counters_path("/run/rhizome", 12), "/run/rhizome/counters-12");
  const std::string own = "counters-" + std::to_string(::getpid());
  EXPECT_TRUE(is_counters_page(own));
  EXPECT_FALSE(is_counters_page("counters-4194305")) << "no process has that number";
  for (const char* const name : {"counters-x", "counters-", "node-12.sock", "node.sock", "12"})
    EXPECT_FALSE(is_counters_page(name)) << name;
  EXPECT_FALSE(is_counters_page(own + ".scratch"));
}

TEST_F(RuntimeDirTest, RefusesADirectoryThatOthersMayWriteTo) {
  ASSERT_EQ(::mkdir(directory_.c_str(), 0700), 0);
  ASSERT_EQ(::chmod(directory_.c_str(), 0777), 0);
  const auto page = CountersPage::create(directory_);
  ASSERT_FALSE(page);
  EXPECT_NE(page.error().find(directory_), std::string::npos) << page.error();
}

}  // namespace
}  // namespace rhizome
