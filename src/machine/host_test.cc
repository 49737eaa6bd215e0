#include "machine/host.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/files.h"
#include "machine/process.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

class ControlGroups : public testing::Test {
 protected:
  void put(const std::string& folder, const std::string& file, const std::string& text) {
    ASSERT_TRUE(make_private_directory(root_ + folder).has_value());
    ASSERT_TRUE(write_file_atomically(root_ + folder + "/" + file, text).has_value());
  }

  const TemporaryFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(ControlGroups, FindsTheLowestLimitOnTheWayUp) {
  put("/a/b", "memory.max", "3000\n");
  put("/a", "memory.max", "2000\n");
  EXPECT_EQ(cgroup_memory_limit_bytes("0::/a/b\n", root_), 2000u);
  EXPECT_EQ(cgroup_memory_limit_bytes("0::/a\n", root_), 2000u);
  put("/a", "memory.max", "max\n");
  EXPECT_EQ(cgroup_memory_limit_bytes("0::/a/b\n", root_), 3000u);
  EXPECT_EQ(cgroup_memory_limit_bytes("0::/a\n", root_), UINT64_MAX);
}

TEST_F(ControlGroups, FindsALimitAtTheRootOfANamespace) {
  put("", "memory.max", "4096\n");
  EXPECT_EQ(cgroup_memory_limit_bytes("0::/\n", root_), 4096u);
  // The path is the host's and means nothing here.
  EXPECT_EQ(cgroup_memory_limit_bytes("0::/pods/xyz\n", root_), 4096u);
}

TEST_F(ControlGroups, UnderstandsVersion1AndMixedMounts) {
  put("/memory/docker/xyz", "memory.limit_in_bytes", "5000\n");
  put("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
  const char* const membership =
      "12:cpu,cpuacct:/docker/xyz\n7:hugetlb,memory:/docker/xyz\n1:name=systemd:/init\n0::/u\n";
  EXPECT_EQ(cgroup_memory_limit_bytes(membership, root_), 5000u);
  EXPECT_EQ(cgroup_memory_limit_bytes("7:memoryx:/docker/xyz\n", root_), UINT64_MAX);
  put("/unified/u", "memory.max", "4000\n");
  EXPECT_EQ(cgroup_memory_limit_bytes(membership, root_), 4000u);
}

TEST_F(ControlGroups, TakesGarbageForNoLimit) {
  put("", "memory.max", "lots\n");
  for (const char* const membership : {"", "\n", "0", "0:", "::", "0::/", "a:b:c:d\nx", "0::///"}) {
    EXPECT_EQ(cgroup_memory_limit_bytes(membership, root_), UINT64_MAX) << membership;
  }
}

TEST(Host, HasMemoryAndProcessors) {
  EXPECT_GT(total_memory_bytes(), 64u << 20);
  EXPECT_LE(total_memory_bytes(),
            static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_GE(cpu_count(), 1u);
}

TEST(Host, MeasuresThisProcess) {
  const uint64_t rss = process_rss_bytes(own_pid()).value();
  EXPECT_GT(rss, 500'000u);
  EXPECT_LT(rss, total_memory_bytes());
  // CPU seconds are counted in ticks: work until one has passed.
  const double before = process_cpu_seconds(own_pid()).value();
  while (process_cpu_seconds(own_pid()).value() < before + 0.05) {
  }
  EXPECT_TRUE(is_process_alive(own_pid()));
}

TEST(Host, TellsTheLivingFromTheDead) {
  Child child = Child::spawn({"sleep", "1000"}).value();
  EXPECT_TRUE(is_process_alive(child.pid()));
  EXPECT_TRUE(process_rss_bytes(child.pid()).has_value());
  ASSERT_TRUE(child.signal(SIGKILL).has_value());
  // Dead but not reaped is dead. The kernel may take a moment to get there; the loop ends with it.
  while (is_process_alive(child.pid())) {
  }
  EXPECT_TRUE(child.wait().signalled);
  EXPECT_FALSE(is_process_alive(child.pid()));
  EXPECT_EQ(process_rss_bytes(child.pid()).error().code, Code::kNotFound);
  EXPECT_EQ(process_cpu_seconds(child.pid()).error().code, Code::kNotFound);
}

TEST(Host, RefusesWhatIsNoProcess) {
  EXPECT_FALSE(is_process_alive(0));
  EXPECT_FALSE(is_process_alive(-1));
  EXPECT_EQ(process_rss_bytes(0).error().code, Code::kInvalidArgument);
}

TEST(Host, KnowsItsOwnProgram) {
  const std::string path = own_executable_path().value();
  EXPECT_EQ(path.front(), '/');
  EXPECT_NE(path.find("machine_test"), std::string::npos);
}

}  // namespace
}  // namespace rhizome
