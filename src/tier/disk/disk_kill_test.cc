// A process that writes to a real directory is killed in the middle of it, again and again; whatever it left is opened,
// read and compared.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "machine/files.h"
#include "machine/host.h"
#include "machine/process.h"
#include "machine/temporary_folder.h"
#include "tier/disk/disk_tier.h"
#include "tier/disk/disk_world_fixture.h"
#include "tier/disk/segment_header.h"

namespace rhizome {
namespace {

constexpr const char* kFolderVariable = "RHIZOME_TEST_DISK_CHILD";
constexpr uint32_t kBlocks = 400;
constexpr int kRounds = 20;

DiskTierOptions options_of(const std::string& folder) {
  return {.directory = folder, .bytes_max = 2 << 20, .append_bytes = 64 << 10, .flush_after_ns = 1'000'000};
}

TierOutcome write_one(DiskTier& tier, uint32_t number, uint32_t version) {
  const std::vector<std::byte> image = image_of(number, version);
  const TierRequest request{.tag = 1, .operation = TierOperation::kWrite, .key = key_of(number), .from = image};
  TierCompletion done;
  RHIZOME_CHECK(tier.submit(std::span(&request, 1)) == 1);
  RHIZOME_CHECK(tier.collect(std::span(&done, 1), kCaseWaitNs) == 1);
  return done.outcome;
}

// Not a test of its own: what the one below starts.
TEST(DiskKillChild, WritesUntilItIsKilled) {
  const char* const folder = std::getenv(kFolderVariable);
  if (folder == nullptr) GTEST_SKIP() << "started by DiskKill";
  set_log_level(LogLevel::kSilent);
  Result<std::unique_ptr<DiskTier>> tier = DiskTier::open(options_of(folder));
  ASSERT_TRUE(tier) << tier.error().reason;
  std::mt19937_64 random(static_cast<uint64_t>(own_pid()));
  ASSERT_TRUE(write_file_atomically(std::string(folder) + ".open", "open"));
  for (uint32_t version = 1;; ++version)
    write_one(**tier, static_cast<uint32_t>(random() % kBlocks), version);
}

TEST(DiskKill, WhateverAKilledProcessLeftIsOldOrNew) {
  const TemporaryFolder folder;
  const std::string directory = folder.path("disk");
  const Result<std::string> self = own_executable_path();
  ASSERT_TRUE(self);
  set_log_level(LogLevel::kSilent);
  std::mt19937_64 random(11);
  uint64_t wrong = 0;
  uint64_t found = 0;
  for (int round = 0; round < kRounds; ++round) {
    (void)remove_file(directory + ".open");
    SpawnOptions spawn;
    spawn.environment = {{kFolderVariable, directory}};
    spawn.stdout_path = folder.path("out");
    spawn.die_with_parent = true;
    Result<Child> child = Child::spawn({*self, "--gtest_filter=DiskKillChild.*"}, spawn);
    ASSERT_TRUE(child) << child.error().reason;
    while (!stamp_file(directory + ".open"))
      ASSERT_FALSE(child->wait_for(1'000'000)) << "it ended before it was killed";
    EXPECT_EQ(DiskTier::open(options_of(directory)).error().code, Code::kAlreadyExists) << "it is alive";
    child->wait_for(random() % 60'000'000);
    ASSERT_TRUE(child->signal(SIGKILL));
    child->wait();
    Result<std::unique_ptr<DiskTier>> tier = DiskTier::open(options_of(directory));
    ASSERT_TRUE(tier) << tier.error().reason;
    for (uint32_t number = 0; number < kBlocks; ++number) {
      std::vector<std::byte> into(world_image_bytes());
      const TierRequest request{.tag = 1, .operation = TierOperation::kRead, .key = key_of(number), .into = into};
      TierCompletion done;
      ASSERT_EQ((*tier)->submit(std::span(&request, 1)), 1u);
      ASSERT_EQ((*tier)->collect(std::span(&done, 1), kCaseWaitNs), 1u) << "it hangs";
      if (done.outcome != TierOutcome::kDone) continue;
      ++found;
      wrong += !version_of(number, std::span(into).first(done.bytes));
    }
    EXPECT_EQ(write_one(**tier, 0, 1'000'000), TierOutcome::kDone) << "and it works again";
  }
  std::cout << "kill_rounds " << kRounds << ", found " << found << ", kill_wrong_bytes " << wrong << "\n";
  RecordProperty("counted", "kill_rounds " + std::to_string(kRounds) + ", kill_wrong_bytes " + std::to_string(wrong));
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(found, static_cast<uint64_t>(kRounds) * 20);
  struct stat status{};
  ASSERT_EQ(::stat(directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((directory + "/" + segment_name(0)).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

}  // namespace
}  // namespace rhizome
