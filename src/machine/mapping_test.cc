#include "machine/mapping.h"

#include <algorithm>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/files.h"
#include "machine/host.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

class FileMapping : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

  const TemporaryFolder folder_;
};

TEST(Mapping, IsZeroedAndWritable) {
  const Mapping mapping = Mapping::anonymous(100'000).value();
  ASSERT_EQ(mapping.bytes().size(), 100'000u);
  EXPECT_TRUE(all_zero(mapping.bytes()));
  mapping.bytes()[99'999] = std::byte{7};
  EXPECT_EQ(mapping.bytes()[99'999], std::byte{7});
}

TEST(Mapping, RefusesNothingAndTooMuch) {
  EXPECT_EQ(Mapping::anonymous(0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Mapping::anonymous(1ull << 60).error().code, Code::kResourceExhausted);
}

TEST(Mapping, MovesAndEndsEmpty) {
  Result<Mapping> first = Mapping::anonymous(4096);
  ASSERT_TRUE(first) << first.error().reason;
  std::byte* const address = first->bytes().data();
  Mapping second = std::move(*first);
  EXPECT_TRUE(first->bytes().empty());
  EXPECT_EQ(second.bytes().data(), address);
  second = Mapping::anonymous(8192).value();
  EXPECT_EQ(second.bytes().size(), 8192u);
  second.reset();
  EXPECT_TRUE(second.bytes().empty());
  second.reset();
}

TEST(Mapping, GivesItsMemoryBackWhenDestroyed) {
  void* address = nullptr;
  {
    const Mapping mapping = Mapping::anonymous(4096).value();
    address = mapping.bytes().data();
    EXPECT_EQ(::msync(address, 4096, MS_ASYNC), 0);
  }
  EXPECT_NE(::msync(address, 4096, MS_ASYNC), 0);
}

TEST(Mapping, SpendsMemoryOnTouchOrAtOnce) {
  constexpr uint64_t kBytes = 64 << 20;
  const uint64_t before = process_rss_bytes(own_pid()).value();
  const Mapping on_touch = Mapping::anonymous(kBytes).value();
  const uint64_t untouched = process_rss_bytes(own_pid()).value();
  EXPECT_LT(untouched, before + kBytes / 2);
  const Mapping prefault = Mapping::anonymous(kBytes, Mapping::Pages::kPrefault).value();
  EXPECT_GT(process_rss_bytes(own_pid()).value(), untouched + kBytes / 2);
}

TEST(Mapping, DiscardsOnlyWholePagesInsideTheRange) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const Mapping mapping = Mapping::anonymous(4 * page).value();
  std::fill(mapping.bytes().begin(), mapping.bytes().end(), std::byte{9});
  // From inside page 0 to inside page 3: only pages 1 and 2 are whole.
  mapping.discard(page / 2, 3 * page);
  const auto is_nine = [](std::byte byte) { return byte == std::byte{9}; };
  EXPECT_TRUE(std::all_of(mapping.bytes().begin(), mapping.bytes().begin() + page, is_nine));
  EXPECT_TRUE(all_zero(mapping.bytes().subspan(page, 2 * page)));
  EXPECT_TRUE(std::all_of(mapping.bytes().begin() + 3 * page, mapping.bytes().end(), is_nine));
  mapping.discard(1, page - 1);
  EXPECT_EQ(mapping.bytes()[1], std::byte{9});
}

TEST(MappingDeathTest, AbortsOnARangeOutside) {
  const Mapping mapping = Mapping::anonymous(4096).value();
  EXPECT_DEATH(mapping.discard(0, 4097), "check failed");
  EXPECT_DEATH(mapping.discard(4097, 0), "check failed");
  EXPECT_DEATH(mapping.discard(1, UINT64_MAX), "check failed");
}

TEST_F(FileMapping, IsSharedByAllWhoMapTheFile) {
  const Mapping first = Mapping::create_file(path("a"), 10'000, Mapping::Pages::kPrefault).value();
  EXPECT_TRUE(all_zero(first.bytes()));
  const Mapping second = Mapping::attach_file(path("a")).value();
  ASSERT_EQ(second.bytes().size(), 10'000u);
  EXPECT_NE(second.bytes().data(), first.bytes().data());
  first.bytes()[9'999] = std::byte{5};
  EXPECT_EQ(second.bytes()[9'999], std::byte{5});
}

TEST_F(FileMapping, IsReadableByTheOwnerAloneAndHasItsSpace) {
  const mode_t before = ::umask(0);
  const auto mapping = Mapping::create_file(path("a"), 1 << 20);
  ::umask(before);
  ASSERT_TRUE(mapping.has_value());
  struct stat status{};
  ASSERT_EQ(::stat(path("a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, 1u << 20);
}

TEST_F(FileMapping, DoesNotCreateOverWhatIsThere) {
  ASSERT_TRUE(write_file_atomically(path("a"), "x").has_value());
  EXPECT_EQ(Mapping::create_file(path("a"), 100).error().code, Code::kAlreadyExists);
  EXPECT_EQ(read_text_file(path("a"), 10).value(), "x");
  ASSERT_EQ(::symlink(path("b").c_str(), path("dangling").c_str()), 0);
  EXPECT_EQ(Mapping::create_file(path("dangling"), 100).error().code, Code::kAlreadyExists);
  EXPECT_EQ(Mapping::create_file(path("none/a"), 100).error().code, Code::kNotFound);
  EXPECT_EQ(Mapping::create_file(path("c"), 0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(list_directory(folder_.path()).value(), (std::vector<std::string>{"a", "dangling"}));
}

TEST_F(FileMapping, AttachesOnlyToARegularFileOfItsOwner) {
  EXPECT_EQ(Mapping::attach_file(path("none")).error().code, Code::kNotFound);
  ASSERT_TRUE(write_file_atomically(path("empty"), "").has_value());
  EXPECT_EQ(Mapping::attach_file(path("empty")).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(Mapping::attach_file(folder_.path()).error().code, Code::kFailedPrecondition);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(Mapping::attach_file(path("fifo")).error().code, Code::kFailedPrecondition);
  ASSERT_TRUE(write_file_atomically(path("a"), "12345678").has_value());
  ASSERT_EQ(::symlink(path("a").c_str(), path("link").c_str()), 0);
  EXPECT_EQ(Mapping::attach_file(path("link")).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(Mapping::attach_file(path("a")).value().bytes().size(), 8u);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(path("a").c_str(), 12345, 12345), 0);
    EXPECT_EQ(Mapping::attach_file(path("a")).error().code, Code::kPermissionDenied);
  }
}

}  // namespace
}  // namespace rhizome
