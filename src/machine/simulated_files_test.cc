#include "machine/simulated_files.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

std::vector<std::byte> pages(size_t count, int value) {
  return std::vector<std::byte>(count * kDirectAlignment, static_cast<std::byte>(value));
}

size_t pages_of(const std::vector<std::byte>& bytes, int value) {
  size_t count = 0;
  for (size_t at = 0; at < bytes.size(); at += kDirectAlignment) {
    const auto first = bytes.begin() + static_cast<ptrdiff_t>(at);
    count += std::all_of(first, first + kDirectAlignment, [&](std::byte one) { return one == std::byte(value); });
  }
  return count;
}

TEST(SimulatedFilesTest, APowerCutTakesWhatWasNotSynced) {
  SimulatedFiles files(4);
  auto file = files.open("/d/a", OpenMode::kCreate);
  ASSERT_TRUE(file);
  ASSERT_TRUE(files.sync_directory("/d"));
  ASSERT_TRUE((*file)->allocate(100 * kDirectAlignment));
  EXPECT_TRUE((*file)->write_at(0, pages(50, 1)));
  EXPECT_TRUE((*file)->sync_data());
  EXPECT_TRUE((*file)->write_at(50 * kDirectAlignment, pages(50, 2)));
  EXPECT_EQ(pages_of(files.contents("/d/a"), 2), 50u) << "until then it is there";
  files.cut_power();
  const std::vector<std::byte> left = files.contents("/d/a");
  EXPECT_EQ(pages_of(left, 1), 50u);
  EXPECT_GT(pages_of(left, 2), 5u);
  EXPECT_LT(pages_of(left, 2), 45u);
  EXPECT_EQ(pages_of(left, 2) + pages_of(left, 0), 50u) << "a page is old or new";
  EXPECT_FALSE((*file)->write_at(0, pages(1, 9))) << "who had it open is dead";
}

TEST(SimulatedFilesTest, AFaultHitsTheCallThatIsMeant) {
  SimulatedFiles files(4);
  auto file = files.open("/a", OpenMode::kCreate);
  files.inject(1, FileFault::kIoError);
  EXPECT_TRUE((*file)->write_at(0, pages(1, 1)));
  EXPECT_EQ((*file)->write_at(0, pages(1, 2)).error().code, Code::kDataLoss);
  EXPECT_TRUE((*file)->write_at(0, pages(1, 3)));
  files.inject(0, FileFault::kNoSpace);
  EXPECT_EQ((*file)->write_at(0, pages(1, 2)).error().code, Code::kResourceExhausted);
  files.inject(0, FileFault::kShort);
  EXPECT_EQ(*(*file)->write_at(0, pages(4, 2)), 2 * kDirectAlignment);
  files.inject(0, FileFault::kLostWrite);
  EXPECT_TRUE((*file)->write_at(0, pages(1, 7)));
  EXPECT_EQ(pages_of(files.contents("/a"), 7), 0u);
  files.inject(0, FileFault::kKill);
  EXPECT_FALSE((*file)->sync_data());
  EXPECT_FALSE((*file)->size());
  EXPECT_FALSE(files.list("/"));
  files.end_process();
  EXPECT_TRUE(files.list(""));
  const std::vector<FileCallLog> log = files.take_log();
  EXPECT_EQ(log.front().call, FileCall::kOpen);
  EXPECT_EQ(log[1].call, FileCall::kWrite);
  EXPECT_EQ(log[1].bytes, kDirectAlignment);
}

TEST(SimulatedFilesTest, NamesLocksRoomAndModes) {
  SimulatedFiles files(4);
  ASSERT_TRUE(files.make_directory("/d"));
  auto lock = files.lock_directory("/d");
  ASSERT_TRUE(lock);
  EXPECT_EQ(files.lock_directory("/d").error().code, Code::kAlreadyExists);
  files.end_process();
  EXPECT_FALSE(files.is_locked("/d")) << "a dead owner keeps nothing";
  auto second = files.lock_directory("/d");
  ASSERT_TRUE(second);
  lock->reset();
  EXPECT_TRUE(files.is_locked("/d")) << "and gives nothing of another's away";
  files.set_room_bytes(10'000);
  auto file = files.open("/d/a", OpenMode::kCreate);
  EXPECT_EQ((*file)->allocate(10'001).error().code, Code::kResourceExhausted);
  EXPECT_TRUE((*file)->allocate(10'000));
  files.set_read_only(true);
  EXPECT_EQ((*file)->write_at(0, pages(1, 1)).error().code, Code::kPermissionDenied);
  EXPECT_EQ(files.open("/d/b", OpenMode::kCreate).error().code, Code::kPermissionDenied);
  EXPECT_TRUE(files.open("/d/a", OpenMode::kRead));
  files.set_read_only(false);
  files.unlink("/d/a");
  EXPECT_TRUE((*file)->write_at(0, pages(1, 1))) << "an open file goes on";
  EXPECT_EQ(files.open("/d/a", OpenMode::kRead).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace rhizome
