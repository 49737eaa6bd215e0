#include "tier/disk/disk_tier.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/temporary_folder.h"
#include "tier/disk/disk_world_fixture.h"
#include "tier/disk/record.h"
#include "tier/disk/segment_header.h"
#include "tier/disk/segment_pool.h"

namespace rhizome {
namespace {

std::string path_of(uint32_t segment) {
  return std::string(DiskWorld::kDirectory) + "/" + segment_name(segment);
}

class DiskTierTest : public testing::Test {
 protected:
  ~DiskTierTest() override {
    EXPECT_EQ(counts_.wrong_bytes, 0u);
    EXPECT_EQ(counts_.lost, 0u);
  }

  // `from` to `end`, each once.
  void write(uint32_t from, uint32_t end) {
    for (uint32_t number = from; number < end; ++number)
      ASSERT_TRUE(world_.write(number));
  }

  DiskTierOptions options() {
    return {.directory = DiskWorld::kDirectory,
            .bytes_max = DiskWorld::kBytesMax,
            .append_bytes = 32 << 10,
            .files = &world_.files(),
            .clock = &world_.clock()};
  }

  WorldCounts counts_;
  DiskWorld world_{7, counts_};
};

TEST_F(DiskTierTest, WhatWasWrittenIsThereAfterARestart) {
  ASSERT_TRUE(world_.open());
  write(0, 20);
  EXPECT_EQ(world_.tier().usage().images, 20u);
  EXPECT_TRUE(world_.tier().recovered_keyspaces().empty());
  world_.close();
  ASSERT_TRUE(world_.open());
  EXPECT_EQ(world_.tier().disk_usage().recovered_images, 20u);
  EXPECT_EQ(world_.tier().recovered_keyspaces(), std::vector<Digest>{world_keyspace()});
  EXPECT_EQ(world_.check_recovered(), 20u);
  EXPECT_EQ(world_.read_all(), 20u);
  world_.tier().bound_recovered(0);
  EXPECT_EQ(world_.tier().recovered_bytes(), 0u);
  EXPECT_EQ(world_.check_recovered(), 0u);
}

TEST_F(DiskTierTest, AStartAfterAnOrderlyEndWritesOn) {
  // So short that each of them would otherwise use up a segment, and all the others after four.
  for (uint32_t life = 0; life < 12; ++life) {
    ASSERT_TRUE(world_.open());
    write(2 * life, 2 * life + 2);
    ASSERT_TRUE(world_.tier().flush());
    EXPECT_EQ(world_.read_all(), 2 * life + 2);
    world_.close();
  }
  ASSERT_TRUE(world_.open());
  EXPECT_EQ(world_.read_all(), 24u);
  EXPECT_EQ(world_.check_recovered(), 24u);
  EXPECT_EQ(world_.tier().disk_usage().reclaimed_segments, 0u);
  // What was written on is found without a footer, too.
  write(30, 32);
  ASSERT_TRUE(world_.tier().flush());
  world_.files().cut_power();
  world_.close();
  ASSERT_TRUE(world_.open());
  EXPECT_EQ(world_.read_all(), 26u);
}

TEST_F(DiskTierTest, AChildWithoutItsParentIsNotRecovered) {
  ASSERT_TRUE(world_.open());
  write(0, 12);
  world_.remove(5);
  world_.close();
  ASSERT_TRUE(world_.open());
  EXPECT_EQ(world_.check_recovered(), 9u) << "without 5, and 6 and 7 that follow it";
  EXPECT_EQ(world_.read_all(), 11u);
}

TEST_F(DiskTierTest, TheOldestIsForgottenFirstAndItsOwnerIsTold) {
  ASSERT_TRUE(world_.open());
  write(0, 200);
  EXPECT_TRUE(world_.tier().contains(key_of(199)));
  EXPECT_FALSE(world_.tier().contains(key_of(0)));
  std::vector<BlockKey> forgotten(1000);
  forgotten.resize(world_.tier().collect_forgotten(forgotten));
  EXPECT_FALSE(world_.tier().forgotten_overflowed());
  EXPECT_EQ(forgotten.size() + world_.tier().usage().images, 200u);
  for (uint32_t number = 0; number < 200; ++number) {
    const bool is_told = std::find(forgotten.begin(), forgotten.end(), key_of(number)) != forgotten.end();
    EXPECT_NE(world_.tier().contains(key_of(number)), is_told) << number;
  }
  EXPECT_GE(world_.tier().usage().images, 30u);
}

TEST_F(DiskTierTest, WhatIsReadIsWrittenAgainAQuarterAtMost) {
  ASSERT_TRUE(world_.open());
  uint64_t image_bytes = 0;
  // A few that are read all the time, and many that are not.
  for (uint32_t number = 0; number < 400; ++number) {
    ASSERT_TRUE(world_.write(number));
    image_bytes += record_bytes(world_image_bytes());
    if (number % 4 == 0) {
      for (uint32_t hot = 0; hot < 3; ++hot)
        world_.read(hot);
    }
  }
  ASSERT_TRUE(world_.tier().flush());
  for (uint32_t hot = 0; hot < 3; ++hot)
    EXPECT_TRUE(world_.tier().contains(key_of(hot)));
  const DiskUsage usage = world_.tier().disk_usage();
  EXPECT_GT(usage.reinserted_images, 20u);
  EXPECT_LE(usage.reinserted_bytes * 4, usage.reclaimed_segments * usage.segment_bytes);
  EXPECT_LE(static_cast<double>(image_bytes + usage.reinserted_bytes) / static_cast<double>(image_bytes), 1.34);
  // All of them read, and still only a quarter is kept.
  for (uint32_t number = 400; number < 800; ++number) {
    ASSERT_TRUE(world_.write(number));
    world_.read(number);
  }
  const DiskUsage later = world_.tier().disk_usage();
  EXPECT_LE(later.reinserted_bytes * 4, later.reclaimed_segments * later.segment_bytes);
  EXPECT_GT(later.reinserted_images, usage.reinserted_images + 40);
}

TEST_F(DiskTierTest, TheWriteBudgetIsKept) {
  DiskTierOptions options = this->options();
  options.write_bytes_per_second = 100;
  Result<std::unique_ptr<DiskTier>> tier = DiskTier::open(options);
  ASSERT_TRUE(tier);
  const auto write_until_refused = [&] {
    uint32_t count = 0;
    for (;; ++count) {
      const std::vector<std::byte> image = image_of(count, 1);
      const TierRequest request{.tag = 1, .operation = TierOperation::kWrite, .key = key_of(count), .from = image};
      TierCompletion done;
      RHIZOME_CHECK((*tier)->submit(std::span(&request, 1)) == 1 &&
                    (*tier)->collect(std::span(&done, 1), kCaseWaitNs) == 1);
      (void)(*tier)->flush();
      if (done.outcome != TierOutcome::kDone) return count;
      RHIZOME_CHECK(count < 1000);
    }
  };
  const uint32_t at_once = write_until_refused();
  // Five minutes of it, of which the headers of two segments are a part.
  EXPECT_EQ(at_once, (30'000 - 2 * kPageBytes) / record_bytes(world_image_bytes()));
  EXPECT_GT((*tier)->disk_usage().refused_by_budget, 0u);
  world_.clock().advance_ns(1000ull * 1'000'000'000);
  const uint32_t later = write_until_refused();
  EXPECT_GE(later, 2u);
  EXPECT_LE(later, 30'000 / record_bytes(world_image_bytes())) << "more than five minutes are not saved up";
}

TEST_F(DiskTierTest, ASecondOneIsToldThatTheDirectoryIsTaken) {
  ASSERT_TRUE(world_.open());
  EXPECT_EQ(DiskTier::open(options()).error().code, Code::kAlreadyExists);
  world_.close();
  EXPECT_TRUE(DiskTier::open(options()));
}

TEST_F(DiskTierTest, NoRoomIsFoundOutAtTheBeginningAndLeavesNothing) {
  world_.files().set_room_bytes(DiskWorld::kBytesMax - 1);
  EXPECT_EQ(DiskTier::open(options()).error().code, Code::kResourceExhausted);
  EXPECT_TRUE(world_.files().paths().empty());
  for (const FileCallLog& call : world_.files().take_log())
    EXPECT_NE(call.call, FileCall::kAllocate) << "what is there is not taken from others for a moment";
  world_.files().set_room_bytes(DiskWorld::kBytesMax);
  ASSERT_TRUE(world_.open());
  write(0, 300);
  EXPECT_EQ(world_.tier().disk_usage().mode, DiskMode::kGood);
}

TEST_F(DiskTierTest, AnotherVersionIsLeftAlone) {
  ASSERT_TRUE(world_.open());
  write(0, 40);
  world_.close();
  std::vector<std::byte> theirs = world_.files().contents(path_of(1));
  const SegmentHeader header{.version = 2, .segment = 1, .generation = 9, .segment_bytes = theirs.size()};
  write_segment_header(header, std::span(theirs).first(kPageBytes));
  world_.files().set_contents(path_of(1), theirs);
  ASSERT_TRUE(world_.open());
  EXPECT_EQ(world_.tier().disk_usage().segments_left_alone, 1u);
  EXPECT_EQ(world_.tier().disk_usage().segments, 4u) << "its own are beside it";
  write(100, 300);
  world_.close();
  EXPECT_EQ(world_.files().contents(path_of(1)), theirs);
}

// One thing that cannot be opened shall not cost the whole disk.
TEST(DiskTierPlaces, WhatIsNoFileIsLeftAlone) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("segment-00000").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(folder.path("segment-00002").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("/dev/zero", folder.path("segment-00003").c_str()), 0);
  const auto tier = DiskTier::open({.directory = folder.path(), .bytes_max = 1 << 20});
  ASSERT_TRUE(tier) << tier.error().reason;
  EXPECT_EQ((*tier)->disk_usage().segments_left_alone, 3u);
  EXPECT_EQ((*tier)->disk_usage().segments, 4u);
  EXPECT_EQ((*tier)->disk_usage().mode, DiskMode::kGood);
  EXPECT_EQ(*real_file_system().list(folder.path()),
            (std::vector<std::string>{"lock", "segment-00000", "segment-00001", "segment-00002", "segment-00003",
                                      "segment-00004", "segment-00005", "segment-00006"}));
}

TEST(DiskTierPlaces, ALargeDiskTakesNoMoreFilesThanAProcessMayOpen) {
  for (const uint64_t gibibytes : {1u, 20u, 100u, 300u, 1024u, 20'000u, 1'000'000u}) {
    const uint64_t bytes_max = gibibytes << 30;
    const uint64_t segment_bytes = choose_segment_bytes({.bytes_max = bytes_max});
    EXPECT_LE(bytes_max / segment_bytes, 512u) << gibibytes;
    EXPECT_EQ(segment_bytes % kPageBytes, 0u) << gibibytes;
    EXPECT_TRUE(gibibytes > 100 || segment_bytes <= uint64_t{256} << 20) << gibibytes;
  }
}

TEST_F(DiskTierTest, AnotherSizeKeepsWhatFits) {
  ASSERT_TRUE(world_.open());
  write(0, 40);
  world_.close();
  DiskTierOptions larger = options();
  larger.bytes_max = 4 * DiskWorld::kBytesMax;
  {
    Result<std::unique_ptr<DiskTier>> tier = DiskTier::open(larger);
    ASSERT_TRUE(tier);
    EXPECT_EQ((*tier)->usage().images, 40u);
    EXPECT_EQ((*tier)->disk_usage().segments, 16u);
  }
  ASSERT_TRUE(world_.open());
  EXPECT_EQ(world_.tier().disk_usage().segments, 4u) << "what is not needed is removed";
  EXPECT_EQ(world_.files().paths().size(), 4u);
  EXPECT_GE(world_.read_all(), 30u);
  world_.close();
  DiskTierOptions smaller = options();
  smaller.bytes_max = DiskWorld::kBytesMax / 4;
  Result<std::unique_ptr<DiskTier>> tier = DiskTier::open(smaller);
  ASSERT_TRUE(tier);
  EXPECT_EQ((*tier)->usage().images, 0u) << "so few segments could not be reclaimed";
  uint64_t bytes = 0;
  for (const std::string& path : world_.files().paths())
    bytes += world_.files().contents(path).size();
  EXPECT_LE(bytes, smaller.bytes_max);
}

TEST_F(DiskTierTest, ADeviceThatOftenFailsIsLeftAlone) {
  ASSERT_TRUE(world_.open());
  write(0, 40);
  ASSERT_TRUE(world_.tier().flush());
  world_.files().set_chance(1, FileFault::kIoError);
  uint32_t number = 0;
  for (; number < 8; ++number)
    EXPECT_FALSE(world_.read(number));
  EXPECT_EQ(world_.tier().disk_usage().mode, DiskMode::kReadOnly);
  EXPECT_FALSE(world_.write(50));
  for (; number < 16; ++number)
    EXPECT_FALSE(world_.read(number));
  EXPECT_EQ(world_.tier().disk_usage().mode, DiskMode::kOffline);
  EXPECT_FALSE(world_.tier().contains(key_of(30)));
  EXPECT_EQ(world_.tier().disk_usage().read_errors, 16u);
  const TierRequest find{.operation = TierOperation::kFind, .key = key_of(30)};
  EXPECT_EQ(world_.run(find).outcome, TierOutcome::kMissing);
  world_.files().set_chance(0, FileFault::kNone);
  world_.close();
  ASSERT_TRUE(world_.open());
  EXPECT_EQ(world_.read_all(), 40u) << "an error that passes destroys nothing";
}

TEST_F(DiskTierTest, AFailedWriteIsForgottenAndNotTriedAgain) {
  ASSERT_TRUE(world_.open());
  write(0, 2);
  ASSERT_TRUE(world_.tier().flush());
  world_.files().take_log();
  world_.files().inject(0, FileFault::kIoError);
  write(10, 12);
  EXPECT_FALSE(world_.tier().flush());
  EXPECT_FALSE(world_.read(10));
  EXPECT_TRUE(world_.read(0));
  std::vector<BlockKey> forgotten(10);
  EXPECT_EQ(world_.tier().collect_forgotten(forgotten), 2u);
  EXPECT_FALSE(world_.write(12));
  world_.close();
  const std::vector<FileCallLog> log = world_.files().take_log();
  EXPECT_EQ(std::count_if(log.begin(), log.end(), [](const auto& one) { return one.call == FileCall::kWrite; }), 1);
}

TEST_F(DiskTierTest, ImagesOfAnyLengthUpToTheLongest) {
  DiskTierOptions options = this->options();
  options.bytes_max = 8 << 20;
  Result<std::unique_ptr<DiskTier>> tier = DiskTier::open(options);
  ASSERT_TRUE(tier);
  const uint64_t most = (*tier)->image_bytes_max();
  EXPECT_GT(most, 1u << 20);
  const auto run = [&](TierRequest request) {
    TierCompletion done;
    RHIZOME_CHECK((*tier)->submit(std::span(&request, 1)) == 1 &&
                  (*tier)->collect(std::span(&done, 1), kCaseWaitNs) == 1);
    return done;
  };
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{33 << 10}, most / 2, most}) {
    std::vector<std::byte> image(bytes);
    fill_oracle(image, {}, std::vector<Token>{static_cast<Token>(bytes)});
    ASSERT_EQ(run({.operation = TierOperation::kWrite, .key = key_of(1), .from = image}).outcome, TierOutcome::kDone);
    ASSERT_TRUE((*tier)->flush());
    std::vector<std::byte> into(bytes);
    ASSERT_EQ(run({.operation = TierOperation::kRead, .key = key_of(1), .into = into}).outcome, TierOutcome::kDone);
    EXPECT_EQ(into, image);
  }
  const std::vector<std::byte> longer(most + 1);
  EXPECT_EQ(run({.operation = TierOperation::kWrite, .key = key_of(1), .from = longer}).outcome, TierOutcome::kRefused);
}

}  // namespace
}  // namespace rhizome
