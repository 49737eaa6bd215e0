#include "machine/mapping.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fcntl.h>
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

constexpr uint64_t kHuge = Mapping::kHugePageBytes;

TEST(Mapping, ResidentMemoryIsThereZeroedAndAligned) {
  for (const uint64_t bytes : {uint64_t{100}, uint64_t{100'000}, kHuge, 2 * kHuge + 12'288}) {
    const Mapping mapping = Mapping::resident(bytes).value();
    ASSERT_EQ(mapping.bytes().size(), bytes);
    EXPECT_EQ(mapping.descriptor(), -1);
    EXPECT_TRUE(all_zero(mapping.bytes()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(mapping.bytes().data()) % (bytes < kHuge ? 4096 : kHuge), 0u);
    std::vector<unsigned char> there((bytes + 4095) / 4096);
    ASSERT_EQ(::mincore(mapping.bytes().data(), bytes, there.data()), 0);
    EXPECT_TRUE(std::all_of(there.begin(), there.end(), [](unsigned char page) { return (page & 1) != 0; }));
  }
}

TEST(Mapping, ResidentMemoryLeavesNothingBehind) {
  Mapping mapping = Mapping::resident(3 * kHuge + 4096).value();
  std::byte* const first = mapping.bytes().data();
  mapping.reset();
  for (uint64_t offset = 0; offset <= 3 * kHuge; offset += kHuge)
    EXPECT_NE(::msync(first + offset, 4096, MS_ASYNC), 0) << offset;
}

TEST(Mapping, ShareableMemoryIsSeenThroughItsDescriptor) {
  for (const uint64_t bytes : {uint64_t{100'000}, 2 * kHuge}) {
    const Mapping mapping = Mapping::shareable(bytes).value();
    ASSERT_EQ(mapping.bytes().size(), bytes);
    EXPECT_TRUE(all_zero(mapping.bytes()));
    mapping.bytes()[bytes - 1] = std::byte{7};
    void* const other = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, mapping.descriptor(), 0);
    ASSERT_NE(other, MAP_FAILED);
    EXPECT_EQ(static_cast<const std::byte*>(other)[bytes - 1], std::byte{7});
    ::munmap(other, bytes);
  }
}

TEST(Mapping, ShareableMemoryIsAllocatedAndSealed) {
  const Mapping mapping = Mapping::shareable(kHuge).value();
  struct stat status{};
  ASSERT_EQ(::fstat(mapping.descriptor(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), kHuge);
  EXPECT_GE(static_cast<uint64_t>(status.st_blocks) * 512, kHuge);
  EXPECT_NE(::ftruncate(mapping.descriptor(), 4096), 0);
  EXPECT_NE(::ftruncate(mapping.descriptor(), 2 * kHuge), 0);
  EXPECT_NE(::fcntl(mapping.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_NE(::fcntl(mapping.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(Mapping, ShareableMemoryEndsWithItsMapping) {
  Mapping mapping = Mapping::shareable(100'000).value();
  const int descriptor = mapping.descriptor();
  Mapping moved = std::move(mapping);
  EXPECT_EQ(moved.descriptor(), descriptor);
  moved.reset();
  EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1);
}

TEST(Mapping, MemoryThatIsNotThereIsAnError) {
  for (const uint64_t bytes : {uint64_t{1} << 60, uint64_t{1} << 63, UINT64_MAX - 4095, UINT64_MAX}) {
    EXPECT_EQ(Mapping::resident(bytes).error().code, Code::kResourceExhausted) << bytes;
    EXPECT_EQ(Mapping::shareable(bytes).error().code, Code::kResourceExhausted) << bytes;
  }
  EXPECT_EQ(Mapping::resident(0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Mapping::shareable(0).error().code, Code::kInvalidArgument);
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
