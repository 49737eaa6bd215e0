#include "machine/mapping.h"

#include <atomic>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "contract/check.h"
#include "machine/files.h"

namespace rhizome {
namespace {

#if !defined(MADV_POPULATE_WRITE)
constexpr int MADV_POPULATE_WRITE = 23;  // <linux/mman.h> since 5.14
#endif
constexpr int kMadviseCollapse = 25;  // MADV_COLLAPSE of <linux/mman.h> since 6.1

int populate_flag(Mapping::Pages pages) {
  return pages == Mapping::Pages::kPrefault ? MAP_POPULATE : 0;
}

constexpr int kReadAndWrite = PROT_READ | PROT_WRITE;

Result<std::span<std::byte>> map(uint64_t bytes, int flags, int descriptor, int protection = kReadAndWrite) {
  void* const address = ::mmap(nullptr, bytes, protection, flags, descriptor, 0);
  if (address == MAP_FAILED) return fail(error_from_errno(errno, "cannot map the memory"));
  return std::span(static_cast<std::byte*>(address), bytes);
}

// Maps at a multiple of kHugePageBytes, so that the kernel can use huge pages from the first byte on.
Result<std::span<std::byte>> map_aligned(uint64_t bytes, int flags, int descriptor, int protection = kReadAndWrite) {
  constexpr uint64_t kUnit = Mapping::kHugePageBytes;
  if (bytes < kUnit || bytes > UINT64_MAX - kUnit) return map(bytes, flags, descriptor, protection);
  void* const room = ::mmap(nullptr, bytes + kUnit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return fail(error_from_errno(errno, "cannot map the memory"));
  std::byte* const first = static_cast<std::byte*>(room);
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t before = (kUnit - reinterpret_cast<uintptr_t>(first) % kUnit) % kUnit;
  const uint64_t end = (before + bytes + page - 1) / page * page;
  if (before > 0) ::munmap(first, before);
  if (end < bytes + kUnit) ::munmap(first + end, bytes + kUnit - end);
  void* const mapped = ::mmap(first + before, bytes, protection, flags | MAP_FIXED, descriptor, 0);
  if (mapped == MAP_FAILED) {
    const int failed = errno;
    ::munmap(first + before, end - before);
    return fail(error_from_errno(failed, "cannot map the memory"));
  }
  return std::span(first + before, bytes);
}

// Touches every page as a writer does. A page that cannot be had is an error here, and would be the end of the process
// at a touch of our own.
Status populate(std::span<std::byte> bytes) {
  int failed = 0;
  do {
    failed = ::madvise(bytes.data(), bytes.size(), MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  } while (failed == EINTR || failed == EAGAIN);
  if (failed == 0) return {};
  if (failed != EINVAL) return fail(Code::kResourceExhausted, "the system has no memory");
  // Kernels before 5.14 do not know the call.
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  for (uint64_t offset = 0; offset < bytes.size(); offset += page) {
    std::atomic_ref(reinterpret_cast<unsigned char&>(bytes[offset])).fetch_or(0, std::memory_order_relaxed);
  }
  return {};
}

// Makes huge pages of what a shared mapping has in small ones, whatever the system's setting for shared memory is,
// where the kernel knows the call. It fills an extent that has one page already; collapsing all of them after they were
// populated takes ten times as long, for their copying.
void collapse(std::span<std::byte> bytes) {
  constexpr uint64_t kUnit = Mapping::kHugePageBytes;
  for (uint64_t offset = 0; offset + kUnit <= bytes.size(); offset += kUnit) {
    if (!populate(bytes.subspan(offset, 1))) return;
  }
  static_cast<void>(::madvise(bytes.data(), bytes.size() / kUnit * kUnit, kMadviseCollapse));
}

// A copy in a forked child would be a writer, or a reader, that nobody counts.
Status keep_from_children(std::span<std::byte> bytes) {
  if (::madvise(bytes.data(), bytes.size(), MADV_DONTFORK) == 0) return {};
  return fail(error_from_errno(errno, "cannot keep memory from child processes"));
}

// The rules that memory of another process is taken by; see the header.
Status check_memory_file(int descriptor, uint64_t bytes, Mapping::Access access) {
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  struct stat status{};
  struct statfs system{};
  if (seals < 0 || ::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
      ::fstatfs(descriptor, &system) != 0) {
    return fail(Code::kInvalidArgument, "the descriptor is no memory file");
  }
  if ((seals & F_SEAL_SHRINK) == 0) return fail(Code::kFailedPrecondition, "the memory file can shrink");
  if ((seals & F_SEAL_GROW) == 0) return fail(Code::kFailedPrecondition, "the memory file can grow");
  if (access == Mapping::Access::kRead) {
    if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == 0) {
      return fail(Code::kFailedPrecondition, "the memory file can be written to");
    }
  } else if (system.f_type == HUGETLBFS_MAGIC) {
    return fail(Code::kFailedPrecondition, "the memory file takes its pages from a pool");
  }
  // What cannot shrink or grow has this size for good.
  if (bytes == 0 || static_cast<uint64_t>(status.st_size) != bytes) {
    return fail(Code::kInvalidArgument, "the memory file has another size");
  }
  if (static_cast<uint64_t>(status.st_blocks) < (bytes + 511) / 512) {
    return fail(Code::kFailedPrecondition, "the memory file is not allocated");
  }
  return {};
}

// Past its limit for files, memory files too, a process is not refused but ended.
Status check_file_limit(uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    return fail(Code::kResourceExhausted, "a file of this process may not be so long (ulimit -f)");
  }
  return {};
}

Status allocate(int descriptor, uint64_t bytes) {
  int failed = 0;
  do {
    failed = ::fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  } while (failed == EINTR);
  if (failed != 0) return fail(error_from_errno(failed, "the system has no memory"));
  return {};
}

}  // namespace

Result<Mapping> Mapping::resident(uint64_t bytes) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "a mapping has no bytes");
  const auto mapped = map_aligned(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  if (!mapped) return fail(mapped.error());
  Mapping mapping(*mapped);
  if (bytes >= kHugePageBytes) mapping.prefer_huge_pages();
  const Status there = populate(mapping.bytes_);
  if (!there) return fail(there.error());
  return mapping;
}

Result<Mapping> Mapping::shareable(uint64_t bytes, Sharing sharing) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "a mapping has no bytes");
  if (bytes > static_cast<uint64_t>(INT64_MAX)) return fail(Code::kResourceExhausted, "the system has no memory");
  // Others may punch holes into writable memory; in the pool's pages that could be fatal.
  if (bytes % kHugePageBytes == 0 && sharing == Sharing::kReadOnly) {
    Result<Mapping> pooled = memory_file(bytes, sharing, MFD_HUGETLB | MFD_HUGE_2MB);
    if (pooled) return pooled;
  }
  return memory_file(bytes, sharing, 0);
}

Result<Mapping> Mapping::memory_file(uint64_t bytes, Sharing sharing, unsigned int flags) {
  const Status within_limit = check_file_limit(bytes);
  if (!within_limit) return fail(within_limit.error());
  Mapping mapping;
  mapping.descriptor_ = ::memfd_create("rhizome", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (mapping.descriptor_ < 0) return fail(error_from_errno(errno, "cannot create a memory file"));
  if (::ftruncate(mapping.descriptor_, static_cast<off_t>(bytes)) != 0) {
    return fail(error_from_errno(errno, "the system has no memory"));
  }
  const auto mapped = map_aligned(bytes, MAP_SHARED, mapping.descriptor_);
  if (!mapped) return fail(mapped.error());
  mapping.bytes_ = *mapped;
  // A pool gives all or nothing by fallocate() alone. Elsewhere pages are huge only when they come through a mapping
  // that asks for them, or are collapsed, and fallocate() then finds them there; it alone says whether all of them are.
  if (flags == 0) {
    if (bytes >= kHugePageBytes) {
      mapping.prefer_huge_pages();
      collapse(mapping.bytes_);
    }
    const Status there = populate(mapping.bytes_);
    if (!there) return fail(there.error());
  }
  const Status allocated = allocate(mapping.descriptor_, bytes);
  if (!allocated) return fail(allocated.error());
  if (flags != 0) {
    const Status there = populate(mapping.bytes_);
    if (!there) return fail(there.error());
  }
  const Status kept = keep_from_children(mapping.bytes_);
  if (!kept) return fail(kept.error());
  const int against_writers = sharing == Sharing::kReadOnly ? F_SEAL_FUTURE_WRITE : 0;
  if (::fcntl(mapping.descriptor_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | against_writers | F_SEAL_SEAL) != 0) {
    return fail(error_from_errno(errno, "cannot seal a memory file"));
  }
  return mapping;
}

Result<Mapping> Mapping::attach_shared(const Descriptor& descriptor, uint64_t bytes, Access access) {
  const Status checked = check_memory_file(descriptor.number(), bytes, access);
  if (!checked) return fail(checked.error());
  const int protection = access == Access::kWrite ? kReadAndWrite : PROT_READ;
  const auto mapped = map_aligned(bytes, MAP_SHARED, descriptor.number(), protection);
  if (!mapped) return fail(mapped.error());
  Mapping mapping(*mapped);
  const Status kept = keep_from_children(mapping.bytes_);
  if (!kept) return fail(kept.error());
  return mapping;
}

Result<Mapping> Mapping::adopt_shared(Descriptor descriptor, uint64_t bytes) {
  Result<Mapping> mapping = attach_shared(descriptor, bytes, Access::kRead);
  if (mapping) mapping->descriptor_ = descriptor.release();
  return mapping;
}

Mapping::FileNumber Mapping::file_number() const {
  struct stat status{};
  if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

Result<Mapping> Mapping::anonymous(uint64_t bytes, Pages pages) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "a mapping has no bytes");
  const auto mapped = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | populate_flag(pages), -1);
  if (!mapped) return fail(mapped.error());
  return Mapping(*mapped);
}

Result<Mapping> Mapping::create_file(const std::string& path, uint64_t bytes, Pages pages) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "a mapping has no bytes");
  const Status within_limit = check_file_limit(bytes);
  if (!within_limit) return fail(within_limit.error());
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return fail(error_from_errno(errno, "cannot create the file to map"));
  // A file without its space would end the process at a later touch, when the disk is full.
  const int failed = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  Result<std::span<std::byte>> mapped = fail(error_from_errno(failed, "no space for the file to map"));
  if (failed == 0) mapped = map(bytes, MAP_SHARED | populate_flag(pages), descriptor);
  ::close(descriptor);
  if (!mapped) {
    ::unlink(path.c_str());
    return fail(mapped.error());
  }
  return Mapping(*mapped);
}

Result<Mapping> Mapping::attach_file(const std::string& path) {
  // O_NONBLOCK: opening a FIFO of that name must not wait for a writer.
  const int descriptor = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return fail(error_from_errno(errno, "cannot open the file to map"));
  struct stat status{};
  Result<std::span<std::byte>> mapped = fail(Code::kFailedPrecondition, "not a file that can be mapped");
  if (::fstat(descriptor, &status) != 0) {
    mapped = fail(error_from_errno(errno, "cannot look at the file to map"));
  } else if (S_ISREG(status.st_mode) && status.st_uid != ::geteuid()) {
    mapped = fail(Code::kPermissionDenied, "the file to map belongs to another user");
  } else if (S_ISREG(status.st_mode) && status.st_size > 0) {
    mapped = map(static_cast<uint64_t>(status.st_size), MAP_SHARED, descriptor);
  }
  ::close(descriptor);
  if (!mapped) return fail(mapped.error());
  return Mapping(*mapped);
}

Mapping::Mapping(Mapping&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), descriptor_(std::exchange(other.descriptor_, -1)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    bytes_ = std::exchange(other.bytes_, {});
    descriptor_ = std::exchange(other.descriptor_, -1);
  }
  return *this;
}

void Mapping::discard(uint64_t offset, uint64_t length) const {
  RHIZOME_CHECK(offset <= bytes_.size() && length <= bytes_.size() - offset);
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = (offset + page - 1) / page * page;
  const uint64_t end = (offset + length) / page * page;
  if (first >= end) return;
  const int failed = ::madvise(bytes_.data() + first, end - first, MADV_DONTNEED);
  RHIZOME_CHECK(failed == 0);
}

void Mapping::prefer_huge_pages() const {
  static_cast<void>(::madvise(bytes_.data(), bytes_.size(), MADV_HUGEPAGE));
}

void Mapping::prefer_small_pages() const {
  static_cast<void>(::madvise(bytes_.data(), bytes_.size(), MADV_NOHUGEPAGE));
}

void Mapping::reset() {
  if (const int descriptor = std::exchange(descriptor_, -1); descriptor >= 0) ::close(descriptor);
  if (bytes_.empty()) return;
  const int failed = ::munmap(bytes_.data(), bytes_.size());
  RHIZOME_CHECK(failed == 0);
  bytes_ = {};
}

}  // namespace rhizome
