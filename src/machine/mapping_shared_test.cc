// Memory that processes share: what its owner seals, and what is refused of what others hand over.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/files.h"
#include "machine/forked_child.h"
#include "machine/mapping.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

using Access = Mapping::Access;
using Sharing = Mapping::Sharing;

constexpr uint64_t kHuge = Mapping::kHugePageBytes;
constexpr uint64_t kBytes = 100'000;
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

Descriptor copy_of(const Mapping& mapping) {
  return Descriptor(::fcntl(mapping.descriptor(), F_DUPFD_CLOEXEC, 0));
}

// A memory file as a stranger may make one.
Descriptor memory_file(uint64_t bytes, int seals, bool is_allocated = true, unsigned int flags = 0) {
  Descriptor made(::memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  EXPECT_TRUE(made.is_open());
  EXPECT_EQ(::ftruncate(made.number(), static_cast<off_t>(bytes)), 0);
  if (is_allocated) {
    EXPECT_EQ(::fallocate(made.number(), 0, 0, static_cast<off_t>(bytes)), 0);
  }
  if (seals != 0) {
    EXPECT_EQ(::fcntl(made.number(), F_ADD_SEALS, seals), 0);
  }
  return made;
}

void expect_refused(const Descriptor& descriptor, uint64_t bytes, Access access, Code code, std::string_view reason) {
  const Result<Mapping> refused = Mapping::attach_shared(descriptor, bytes, access);
  ASSERT_FALSE(refused.has_value()) << reason;
  EXPECT_EQ(refused.error().code, code) << refused.error().reason;
  EXPECT_NE(std::string_view(refused.error().reason).find(reason), std::string_view::npos) << refused.error().reason;
}

// How a process ends that does `action`: 0, or the signal that ended it.
template <class Action>
int end_of_child(Action action) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int fatal : {SIGSEGV, SIGBUS})
      ::signal(fatal, SIG_DFL);
    action();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

void touch(std::byte* at, bool is_write) {
  volatile std::byte* const place = at;
  const std::byte seen = *place;
  if (is_write) *place = seen;
}

// A size that smaps gives for the mapping that begins at `first`, in bytes.
uint64_t mapped_as(const std::byte* first, const char* field) {
  const std::string text = read_text_file("/proc/self/smaps", 16 << 20).value();
  char head[32];
  std::snprintf(head, sizeof head, "%lx-", reinterpret_cast<unsigned long>(first));
  const size_t entry = text.find(head);
  if (entry == std::string::npos) return 0;
  const size_t at = text.find(field, entry);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + std::strlen(field) + 1, nullptr, 10) * 1024;
}

TEST(SharedMapping, IsReadByThoseWhoAttach) {
  for (const uint64_t bytes : {kBytes, 2 * kHuge, 2 * kHuge + 8192}) {
    const Mapping own = Mapping::shareable(bytes).value();
    own.bytes()[0] = std::byte{1};
    Descriptor handed = copy_of(own);
    const Mapping other = Mapping::attach_shared(handed, bytes, Access::kRead).value();
    handed.reset();
    ASSERT_EQ(other.bytes().size(), bytes);
    EXPECT_EQ(other.descriptor(), -1);
    EXPECT_NE(other.bytes().data(), own.bytes().data());
    if (bytes >= kHuge) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(other.bytes().data()) % kHuge, 0u);
    }
    own.bytes()[bytes - 1] = std::byte{7};
    EXPECT_EQ(other.bytes()[0], std::byte{1});
    EXPECT_EQ(other.bytes()[bytes - 1], std::byte{7});
  }
}

TEST(SharedMapping, IsWrittenByBothWhenItsOwnerLetsThem) {
  const Mapping own = Mapping::shareable(kBytes, Sharing::kWritable).value();
  const Descriptor handed = copy_of(own);
  const Mapping writer = Mapping::attach_shared(handed, kBytes, Access::kWrite).value();
  const Mapping reader = Mapping::attach_shared(handed, kBytes, Access::kReadWritable).value();
  writer.bytes()[99] = std::byte{9};
  EXPECT_EQ(own.bytes()[99], std::byte{9});
  EXPECT_EQ(reader.bytes()[99], std::byte{9});
  own.bytes()[99] = std::byte{8};
  EXPECT_EQ(writer.bytes()[99], std::byte{8});
}

TEST(SharedMapping, LiesInHugePagesWhereTheKernelCanCollapse) {
  const Descriptor probe = memory_file(kHuge, 0);
  std::byte* const room = static_cast<std::byte*>(
      ::mmap(nullptr, 2 * kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  std::byte* const aligned = room + (kHuge - reinterpret_cast<uintptr_t>(room) % kHuge) % kHuge;
  ASSERT_EQ(::mmap(aligned, kHuge, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, probe.number(), 0), aligned);
  touch(aligned, true);
  constexpr int kCollapse = 25;  // MADV_COLLAPSE
  const bool is_offered = ::madvise(aligned, kHuge, kCollapse) == 0;
  ::munmap(room, 2 * kHuge);
  if (!is_offered) GTEST_SKIP() << "the kernel collapses nothing here";
  const Mapping own = Mapping::shareable(4 * kHuge).value();
  EXPECT_EQ(mapped_as(own.bytes().data(), "ShmemPmdMapped:"), 4 * kHuge);
  const Mapping other = Mapping::attach_shared(copy_of(own), 4 * kHuge, Access::kRead).value();
  touch(other.bytes().data(), false);
  EXPECT_GE(mapped_as(other.bytes().data(), "ShmemPmdMapped:"), kHuge);
}

TEST(SharedMapping, CannotBeWrittenByThoseWhoOnlyRead) {
  const Mapping own = Mapping::shareable(kBytes).value();
  const Descriptor handed = copy_of(own);
  const Mapping other = Mapping::attach_shared(handed, kBytes, Access::kRead).value();
  EXPECT_NE(::mprotect(other.bytes().data(), kBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, handed.number(), 0), MAP_FAILED);
  EXPECT_EQ(::pwrite(handed.number(), "x", 1, 0), -1);
  EXPECT_NE(::fallocate(handed.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  EXPECT_NE(::madvise(other.bytes().data(), 4096, MADV_REMOVE), 0);
  // The file opened anew is as sealed as before.
  const std::string name = "/proc/self/fd/" + std::to_string(handed.number());
  const Descriptor again(::open(name.c_str(), O_RDWR | O_CLOEXEC));
  if (again.is_open()) {
    EXPECT_EQ(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.number(), 0), MAP_FAILED);
    EXPECT_EQ(::pwrite(again.number(), "x", 1, 0), -1);
  }
  EXPECT_EQ(Mapping::attach_shared(handed, kBytes, Access::kWrite).error().code, Code::kPermissionDenied);
  own.bytes()[5] = std::byte{3};
  EXPECT_EQ(other.bytes()[5], std::byte{3});
}

TEST(SharedMapping, CannotBePulledAway) {
  for (const Sharing sharing : {Sharing::kReadOnly, Sharing::kWritable}) {
    const Mapping own = Mapping::shareable(kBytes, sharing).value();
    EXPECT_NE(::ftruncate(own.descriptor(), 0), 0);
    EXPECT_NE(::ftruncate(own.descriptor(), 2 * kBytes), 0);
    EXPECT_NE(::fcntl(own.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
    const int want = kSizeSeals | F_SEAL_SEAL | (sharing == Sharing::kReadOnly ? F_SEAL_FUTURE_WRITE : 0);
    EXPECT_EQ(::fcntl(own.descriptor(), F_GET_SEALS), want);
  }
  const Descriptor strange = memory_file(kBytes, kSizeSeals);
  const Mapping mapping = Mapping::attach_shared(strange, kBytes, Access::kReadWritable).value();
  EXPECT_NE(::ftruncate(strange.number(), 0), 0);
  EXPECT_NE(::truncate(("/proc/self/fd/" + std::to_string(strange.number())).c_str(), 0), 0);
  // Holes are all that is left to a hostile owner, and they are harmless.
  EXPECT_EQ(::fallocate(strange.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes), 0);
  for (const std::byte byte : mapping.bytes())
    ASSERT_EQ(byte, std::byte{0});
}

TEST(SharedMapping, IsAbsentInAForkedChild) {
  const Mapping own = Mapping::shareable(kBytes).value();
  const Mapping other = Mapping::attach_shared(copy_of(own), kBytes, Access::kRead).value();
  EXPECT_EQ(end_of_child([&] { touch(own.bytes().data(), true); }), SIGSEGV);
  EXPECT_EQ(end_of_child([&] { touch(other.bytes().data(), false); }), SIGSEGV);
  touch(own.bytes().data(), true);
}

TEST(SharedMapping, IsFatalToWriteForThoseWhoOnlyRead) {
  const Mapping own = Mapping::shareable(kBytes, Sharing::kWritable).value();
  // Attached in the child, which a mapping of this process would not reach.
  EXPECT_EQ(end_of_child([&] {
              const auto other = Mapping::attach_shared(copy_of(own), kBytes, Access::kReadWritable);
              if (other) touch(other->bytes().data(), true);
            }),
            SIGSEGV);
}

// In a child: a limit that was lowered stays so.
TEST(SharedMapping, IsRefusedPastTheLimitForFiles) {
  const TemporaryFolder folder;
  ForkedChild child([&] {
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    limit.rlim_cur = kHuge - 1;
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    const auto shared = Mapping::shareable(kHuge);
    if (shared || shared.error().code != Code::kResourceExhausted) return 3;
    const auto named = Mapping::create_file(folder.path("file"), kHuge);
    if (named || named.error().code != Code::kResourceExhausted) return 4;
    return Mapping::shareable(kBytes) ? 0 : 5;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(SharedMapping, RefusesWhatIsNoMemoryFile) {
  const TemporaryFolder folder;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const Descriptor read_end(ends[0]);
  const Descriptor write_end(ends[1]);
  const Descriptor event(::eventfd(0, EFD_CLOEXEC));
  const Descriptor directory(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Descriptor null_device(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Descriptor zero_device(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  const Descriptor none;
  for (const Descriptor* const wrong : {&read_end, &write_end, &event, &directory, &null_device, &zero_device, &none}) {
    for (const Access access : {Access::kRead, Access::kReadWritable, Access::kWrite})
      expect_refused(*wrong, 4096, access, Code::kInvalidArgument, "no memory file");
  }
}

TEST(SharedMapping, RefusesFilesWithANameWhereverTheyLie) {
  // On a disk there are no seals; in /dev/shm nobody can add one.
  const TemporaryFolder folder;
  for (const std::string& path : {folder.path("a"), std::string("/dev/shm/rhizome_mapping_shared_test")}) {
    const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file.is_open()) continue;
    ASSERT_EQ(::posix_fallocate(file.number(), 0, 4096), 0);
    EXPECT_FALSE(Mapping::attach_shared(file, 4096, Access::kReadWritable).has_value()) << path;
    EXPECT_FALSE(Mapping::attach_shared(file, 4096, Access::kRead).has_value()) << path;
    EXPECT_EQ(::unlink(path.c_str()), 0);
  }
}

TEST(SharedMapping, RefusesEachMissingSeal) {
  for (const Access access : {Access::kRead, Access::kReadWritable, Access::kWrite}) {
    expect_refused(memory_file(kBytes, 0), kBytes, access, Code::kFailedPrecondition, "can shrink");
    expect_refused(memory_file(kBytes, F_SEAL_GROW), kBytes, access, Code::kFailedPrecondition, "can shrink");
    expect_refused(memory_file(kBytes, F_SEAL_SHRINK), kBytes, access, Code::kFailedPrecondition, "can grow");
  }
  expect_refused(memory_file(kBytes, kSizeSeals), kBytes, Access::kRead, Code::kFailedPrecondition, "written to");
  for (const int seal : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE}) {
    EXPECT_TRUE(Mapping::attach_shared(memory_file(kBytes, kSizeSeals | seal), kBytes, Access::kRead).has_value());
    expect_refused(memory_file(kBytes, kSizeSeals | seal), kBytes, Access::kWrite, Code::kPermissionDenied, "map");
  }
}

TEST(SharedMapping, RefusesAnotherSize) {
  const Descriptor file = memory_file(kBytes, kSizeSeals);
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1}, kBytes - 1, kBytes + 1, uint64_t{1} << 63, UINT64_MAX})
    expect_refused(file, bytes, Access::kReadWritable, Code::kInvalidArgument, "another size");
  expect_refused(memory_file(0, kSizeSeals, false), 0, Access::kReadWritable, Code::kInvalidArgument, "another size");
}

TEST(SharedMapping, RefusesMemoryThatIsNotAllocated) {
  expect_refused(memory_file(kBytes, kSizeSeals, false), kBytes, Access::kReadWritable, Code::kFailedPrecondition,
                 "not allocated");
  const Descriptor holed = memory_file(kBytes, 0);
  ASSERT_EQ(::fallocate(holed.number(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 4096), 0);
  ASSERT_EQ(::fcntl(holed.number(), F_ADD_SEALS, kSizeSeals), 0);
  expect_refused(holed, kBytes, Access::kReadWritable, Code::kFailedPrecondition, "not allocated");
}

TEST(SharedMapping, RefusesHugePagesThatAreNotThere) {
  const Descriptor file(::memfd_create("stranger", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB));
  if (!file.is_open()) GTEST_SKIP() << "no huge page pool in this kernel";
  ASSERT_EQ(::ftruncate(file.number(), static_cast<off_t>(kHuge)), 0);
  ASSERT_EQ(::fcntl(file.number(), F_ADD_SEALS, kSizeSeals | F_SEAL_FUTURE_WRITE), 0);
  expect_refused(file, kHuge, Access::kRead, Code::kFailedPrecondition, "not allocated");
  expect_refused(file, kHuge, Access::kReadWritable, Code::kFailedPrecondition, "pool");
}

TEST(SharedMapping, RefusesToWriteThroughADescriptorForReading) {
  const Descriptor file = memory_file(kBytes, kSizeSeals);
  const std::string name = "/proc/self/fd/" + std::to_string(file.number());
  const Descriptor reading(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(reading.is_open());
  expect_refused(reading, kBytes, Access::kWrite, Code::kPermissionDenied, "map");
  EXPECT_TRUE(Mapping::attach_shared(reading, kBytes, Access::kReadWritable).has_value());
}

}  // namespace
}  // namespace rhizome
