#include "machine/file_system.h"

#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

std::vector<std::byte> bytes_of(size_t count, int value) {
  return std::vector<std::byte>(count, static_cast<std::byte>(value));
}

TEST(FileSystemTest, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  FileSystem& files = real_file_system();
  EXPECT_EQ(files.open(folder.path("a"), OpenMode::kReadWrite).error().code, Code::kNotFound);
  auto file = files.open(folder.path("a"), OpenMode::kCreate);
  ASSERT_TRUE(file);
  EXPECT_EQ(files.open(folder.path("a"), OpenMode::kCreate).error().code, Code::kAlreadyExists);
  struct stat found{};
  ASSERT_EQ(::stat(folder.path("a").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  ASSERT_TRUE((*file)->allocate(10'000));
  EXPECT_EQ(*(*file)->size(), 10'000u);
  EXPECT_EQ(*(*file)->write_at(5000, bytes_of(100, 7)), 100u);
  EXPECT_TRUE((*file)->sync_data());
  std::vector<std::byte> into(200);
  EXPECT_EQ(*(*file)->read_at(5000, into), 200u);
  EXPECT_EQ(into[99], std::byte{7});
  EXPECT_EQ(into[100], std::byte{0});
  EXPECT_EQ(*(*file)->read_at(9900, into), 100u) << "the file ends";
  EXPECT_TRUE((*file)->truncate(20));
  EXPECT_EQ(*(*file)->read_at(5000, into), 0u);
  EXPECT_TRUE(files.rename(folder.path("a"), folder.path("b")));
  EXPECT_EQ(*files.list(folder.path()), std::vector<std::string>{"b"});
  EXPECT_TRUE(files.sync_directory(folder.path()));
  EXPECT_TRUE(files.remove(folder.path("b")));
  EXPECT_EQ(files.remove(folder.path("b")).error().code, Code::kNotFound);
}

TEST(FileSystemTest, SaysWhenTooManyAreOpen) {
  const TemporaryFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto file = real_file_system().open(folder.path("a"), OpenMode::kCreate);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kResourceExhausted);
  EXPECT_STREQ(file.error().reason, "more files than this process may have open");
}

TEST(FileSystemTest, RoomIsWhatTheDeviceHas) {
  const TemporaryFolder folder;
  FileSystem& files = real_file_system();
  const Result<uint64_t> room = files.room_bytes(folder.path());
  ASSERT_TRUE(room);
  EXPECT_GT(*room, 0u);
  auto file = files.open(folder.path("a"), OpenMode::kCreate);
  ASSERT_TRUE(file);
  EXPECT_FALSE((*file)->allocate(*room + (uint64_t{1} << 40)));
  EXPECT_EQ(files.room_bytes(folder.path("none")).error().code, Code::kNotFound);
}

TEST(FileSystemTest, ALockIsHeldOnce) {
  const TemporaryFolder folder;
  FileSystem& files = real_file_system();
  EXPECT_FALSE(files.is_locked(folder.path()));
  auto lock = files.lock_directory(folder.path());
  ASSERT_TRUE(lock);
  EXPECT_TRUE(files.is_locked(folder.path()));
  EXPECT_EQ(files.lock_directory(folder.path()).error().code, Code::kAlreadyExists);
  EXPECT_TRUE(files.is_locked(folder.path())) << "who looks takes nothing";
  lock->reset();
  EXPECT_FALSE(files.is_locked(folder.path()));
  EXPECT_TRUE(files.lock_directory(folder.path()));
}

TEST(FileSystemTest, ALinkIsNotFollowed) {
  const TemporaryFolder folder;
  ASSERT_EQ(::symlink("/etc/passwd", folder.path("a").c_str()), 0);
  EXPECT_FALSE(real_file_system().open(folder.path("a"), OpenMode::kRead));
}

TEST(FileSystemTest, WhatIsNoRegularFileIsRefusedAtOnce) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(folder.path("below").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("below", folder.path("link").c_str()), 0);
  for (const char* const name : {"pipe", "below", "link"}) {
    for (const OpenMode mode : {OpenMode::kRead, OpenMode::kReadWrite, OpenMode::kReadDirect}) {
      const auto opened = real_file_system().open(folder.path(name), mode);
      ASSERT_FALSE(opened) << name;
      EXPECT_EQ(opened.error().code, Code::kFailedPrecondition) << name;
    }
  }
  ASSERT_EQ(::mkfifo(folder.path("lock").c_str(), 0600), 0);
  EXPECT_FALSE(real_file_system().is_locked(folder.path())) << "nor is one waited for";
  EXPECT_EQ(real_file_system().open("/dev/null", OpenMode::kRead).error().code, Code::kFailedPrecondition);
}

}  // namespace
}  // namespace rhizome
