// examples/engine.c, compiled as C99 and run.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "machine/files.h"
#include "machine/process.h"
#include "machine/temporary_folder.h"
#include "node/node.h"
#include "telemetry/counters.h"

namespace rhizome {
namespace {

constexpr const char* kCold =
    "prompt of 330 tokens: 0 restored, 330 computed (never_stored)\n"
    "prompt of 420 tokens: 320 restored, 100 computed (never_stored)\n";
constexpr const char* kWarm =
    "prompt of 330 tokens: 320 restored, 10 computed (partial_block)\n"
    "prompt of 420 tokens: 416 restored, 4 computed (partial_block)\n";

class EngineExample : public testing::Test {
 protected:
  // What it wrote, when its status is `expected`.
  std::string run(const std::vector<std::string>& arguments, int expected = 0) {
    std::vector<std::string> command = {RHIZOME_ENGINE_EXAMPLE};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const std::string number = std::to_string(++runs_);
    const std::string said = folder_.path("said" + number);
    const std::string complained = folder_.path("complained" + number);
    SpawnOptions options;
    options.stdout_path = said;
    options.stderr_path = complained;
    Result<Child> child = Child::spawn(command, options);
    EXPECT_TRUE(child);
    if (!child) return "";
    EXPECT_EQ(child->wait().shell_status(), expected) << *read_text_file(complained, 10'000);
    return *read_text_file(expected == 0 ? said : complained, 10'000);
  }

  const TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_F(EngineExample, WithACacheOfItsOwn) {
  EXPECT_EQ(run({}), kCold);
  EXPECT_EQ(run({}), kCold) << "it is gone with the process";
}

TEST_F(EngineExample, WithADisk) {
  EXPECT_EQ(run({"--disk", folder_.path("blocks")}), kCold);
  const std::string second = run({"--disk", folder_.path("blocks")});
  EXPECT_EQ(second, kWarm);
}

TEST_F(EngineExample, AttachedToANode) {
  const auto counters = Counters::local();
  const std::string socket = folder_.path("run/node.sock");
  const auto node = Node::start({.socket_path = socket, .memory_bytes = 64 << 20}, *counters);
  ASSERT_TRUE(node);
  EXPECT_EQ(run({"--attach", socket}), kCold);
  EXPECT_EQ(run({"--attach", socket}), kWarm);
  EXPECT_EQ((*node)->store().index_usage().blocks, 26u);
}

TEST_F(EngineExample, SaysWhatIsWrong) {
  EXPECT_EQ(run({"--attach", folder_.path("none.sock")}, 1).find("engine: attach: "), 0u);
  EXPECT_EQ(run({"--what"}, 2), "usage: engine [--disk DIRECTORY | --attach SOCKET]\n");
}

}  // namespace
}  // namespace rhizome
