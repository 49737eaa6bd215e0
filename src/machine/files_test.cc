#include "machine/files.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

class Files : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

  const TemporaryFolder folder_;
};

TEST_F(Files, ReadsBackWhatWasWrittenAtomically) {
  ASSERT_TRUE(write_file_atomically(path("a"), "first").has_value());
  EXPECT_EQ(read_text_file(path("a"), 100).value(), "first");
  ASSERT_TRUE(write_file_atomically(path("a"), "second, longer").has_value());
  EXPECT_EQ(read_text_file(path("a"), 100).value(), "second, longer");
  ASSERT_TRUE(write_file_atomically(path("a"), "").has_value());
  EXPECT_EQ(read_text_file(path("a"), 100).value(), "");
  // No temporary file is left.
  EXPECT_EQ(list_directory(folder_.path()).value(), std::vector<std::string>{"a"});
}

TEST_F(Files, WritesWithTheModeAskedForWhateverTheUmask) {
  const mode_t before = ::umask(0277);
  const Status written = write_file_atomically(path("a"), "x", 0640);
  ::umask(before);
  ASSERT_TRUE(written.has_value());
  struct stat status{};
  ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(Files, LeavesNothingWhenTheTargetCannotBeReplaced) {
  ASSERT_EQ(::mkdir(path("a").c_str(), 0700), 0);
  const Status written = write_file_atomically(path("a"), "x");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(list_directory(folder_.path()).value(), std::vector<std::string>{"a"});
}

TEST_F(Files, ReadsUpToTheLimitAndNotMore) {
  ASSERT_TRUE(write_file_atomically(path("a"), std::string(200'000, 'x')).has_value());
  EXPECT_EQ(read_file(path("a"), 200'000).value().size(), 200'000u);
  EXPECT_EQ(read_file(path("a"), UINT64_MAX - 1).value().size(), 200'000u);
  const auto cut = read_file(path("a"), 199'999);
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().code, Code::kResourceExhausted);
}

TEST_F(Files, ReadsARangeAsFarAsTheFileGoes) {
  ASSERT_TRUE(write_file_atomically(path("a"), "0123456789").has_value());
  const auto range = [&](uint64_t offset, uint64_t length) {
    const auto bytes = read_file_range(path("a"), offset, length).value();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(range(0, 3), "012");
  EXPECT_EQ(range(7, 3), "789");
  EXPECT_EQ(range(8, UINT64_MAX), "89");
  EXPECT_EQ(range(10, 1), "");
  EXPECT_EQ(range(UINT64_MAX, 1), "");
  EXPECT_EQ(range(3, 0), "");
  EXPECT_EQ(read_file_range(path("none"), 0, 1).error().code, Code::kNotFound);
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(read_file_range(path("pipe"), 0, 1).value().empty()) << "nobody is waited for";
}

TEST_F(Files, SaysWhatIsMissingOrOfAnotherKind) {
  EXPECT_EQ(read_file(path("none"), 10).error().code, Code::kNotFound);
  EXPECT_EQ(read_file(folder_.path(), 10).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(stamp_file(path("none")).error().code, Code::kNotFound);
  EXPECT_EQ(stamp_file(folder_.path()).error().code, Code::kInvalidArgument);
  EXPECT_EQ(remove_file(path("none")).error().code, Code::kNotFound);
  EXPECT_EQ(list_directory(path("none")).error().code, Code::kNotFound);
  EXPECT_EQ(write_file_atomically(path("none/a"), "x").error().code, Code::kNotFound);
}

TEST_F(Files, HasAnotherStampAfterEveryChange) {
  ASSERT_TRUE(write_file_atomically(path("a"), "12345").has_value());
  const FileStamp first = stamp_file(path("a")).value();
  EXPECT_EQ(first.size, 5u);
  EXPECT_EQ(stamp_file(path("a")).value(), first);

  // The same bytes and the same modification time: the inode and the change time still tell.
  const timespec times[2] = {{.tv_sec = first.mtime_ns / 1'000'000'000, .tv_nsec = first.mtime_ns % 1'000'000'000},
                             {.tv_sec = first.mtime_ns / 1'000'000'000, .tv_nsec = first.mtime_ns % 1'000'000'000}};
  ASSERT_TRUE(write_file_atomically(path("a"), "12345").has_value());
  ASSERT_EQ(::utimensat(AT_FDCWD, path("a").c_str(), times, 0), 0);
  const FileStamp second = stamp_file(path("a")).value();
  EXPECT_EQ(second.mtime_ns, first.mtime_ns);
  EXPECT_NE(second, first);

  ASSERT_EQ(::symlink(path("a").c_str(), path("link").c_str()), 0);
  EXPECT_EQ(stamp_file(path("link")).value(), second);
}

TEST_F(Files, GivesChunksInOrderUntilToldToStop) {
  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 7);
  ASSERT_TRUE(write_file_atomically(path("a"), bytes).has_value());

  for (const size_t chunk_bytes : {1u, 100u, 300u, 1000u, 4096u}) {
    std::vector<std::byte> seen;
    ASSERT_TRUE(for_each_chunk(path("a"), chunk_bytes, [&](std::span<const std::byte> chunk) {
                  EXPECT_LE(chunk.size(), chunk_bytes);
                  seen.insert(seen.end(), chunk.begin(), chunk.end());
                  return true;
                }).has_value());
    EXPECT_EQ(seen, bytes) << chunk_bytes;
  }
  int calls = 0;
  ASSERT_TRUE(for_each_chunk(path("a"), 100, [&](std::span<const std::byte>) { return ++calls < 3; }).has_value());
  EXPECT_EQ(calls, 3);
}

TEST_F(Files, GivesNoChunkOfAnEmptyFileAndRefusesEmptyChunks) {
  ASSERT_TRUE(write_file_atomically(path("a"), "").has_value());
  int calls = 0;
  const auto count = [&](std::span<const std::byte>) { return ++calls > 0; };
  EXPECT_TRUE(for_each_chunk(path("a"), 10, count).has_value());
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(for_each_chunk(path("a"), 0, count).error().code, Code::kInvalidArgument);
  EXPECT_EQ(for_each_chunk(path("none"), 10, count).error().code, Code::kNotFound);
}

TEST_F(Files, MakesPrivateDirectories) {
  const mode_t before = ::umask(0);
  const Status made = make_private_directory(path("a/b/c"));
  ::umask(before);
  ASSERT_TRUE(made.has_value());
  struct stat status{};
  ASSERT_EQ(::stat(path("a/b/c").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_TRUE(make_private_directory(path("a/b/c")).has_value());
  EXPECT_TRUE(make_private_directory(path("a/b/c/")).has_value());
  EXPECT_TRUE(make_private_directory(path("a//d")).has_value());
}

TEST_F(Files, RefusesDirectoriesThatOthersMayWriteTo) {
  for (const mode_t mode : {0720u, 0702u, 0777u}) {
    ASSERT_TRUE(make_private_directory(path("a")).has_value());
    ASSERT_EQ(::chmod(path("a").c_str(), mode), 0);
    const Status made = make_private_directory(path("a"));
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, Code::kPermissionDenied);
    ASSERT_EQ(::chmod(path("a").c_str(), 0755), 0);
    EXPECT_TRUE(make_private_directory(path("a")).has_value());
  }
}

TEST_F(Files, RefusesADirectoryOfSomebodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_TRUE(make_private_directory(path("a")).has_value());
  ASSERT_EQ(::chown(path("a").c_str(), 12345, 12345), 0);
  EXPECT_EQ(make_private_directory(path("a")).error().code, Code::kPermissionDenied);
}

TEST_F(Files, RefusesAFileWhereADirectoryShouldBe) {
  ASSERT_TRUE(write_file_atomically(path("a"), "x").has_value());
  EXPECT_EQ(make_private_directory(path("a")).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(make_private_directory(path("a/b")).error().code, Code::kNotFound);
  EXPECT_EQ(make_private_directory("").error().code, Code::kInvalidArgument);
}

TEST_F(Files, ListsNamesSorted) {
  for (const char* const name : {"b", "a", ".hidden", "c"}) {
    ASSERT_TRUE(write_file_atomically(path(name), "").has_value());
  }
  EXPECT_EQ(list_directory(folder_.path()).value(), (std::vector<std::string>{".hidden", "a", "b", "c"}));
}

TEST(ErrorFromErrno, MapsWhatPeopleMeet) {
  const std::pair<int, Code> rows[] = {
      {ENOENT, Code::kNotFound},
      {EACCES, Code::kPermissionDenied},
      {EEXIST, Code::kAlreadyExists},
      {ENOSPC, Code::kResourceExhausted},
      {ENOMEM, Code::kResourceExhausted},
      {EINVAL, Code::kInvalidArgument},
      {ENOTEMPTY, Code::kFailedPrecondition},
      {EAGAIN, Code::kUnavailable},
      {EIO, Code::kDataLoss},
      {ENOSYS, Code::kUnimplemented},
      {ETIMEDOUT, Code::kDeadlineExceeded},
      {54321, Code::kUnknown},
  };
  for (const auto& [number, code] : rows) {
    const Error error = error_from_errno(number, "why");
    EXPECT_EQ(error.code, code) << number;
    EXPECT_STREQ(error.reason, "why");
  }
}

TEST(SecretFile, IsReadOnlyWhereNobodyElseCan) {
  const TemporaryFolder folder;
  const std::string path = folder.path("secret");
  ASSERT_TRUE(write_file_atomically(path, std::string_view("words"), 0600));
  EXPECT_EQ(read_secret_file(path, 100).value_or(""), "words");
  EXPECT_EQ(read_secret_file(path, 4).error().code, Code::kResourceExhausted);
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(read_secret_file(path, 100).error().code, Code::kPermissionDenied) << mode;
  }
  EXPECT_EQ(read_secret_file(folder.path(), 100).error().code, Code::kInvalidArgument);
  EXPECT_EQ(read_secret_file(folder.path("none"), 100).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace rhizome
