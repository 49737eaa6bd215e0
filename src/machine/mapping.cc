#include "machine/mapping.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contract/check.h"
#include "machine/files.h"

namespace rhizome {
namespace {

int populate_flag(Mapping::Pages pages) {
  return pages == Mapping::Pages::kPrefault ? MAP_POPULATE : 0;
}

Result<std::span<std::byte>> map(uint64_t bytes, int flags, int descriptor) {
  void* const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (address == MAP_FAILED) return fail(error_from_errno(errno, "cannot map the memory"));
  return std::span(static_cast<std::byte*>(address), bytes);
}

}  // namespace

Result<Mapping> Mapping::anonymous(uint64_t bytes, Pages pages) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "a mapping has no bytes");
  const auto mapped = map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | populate_flag(pages), -1);
  if (!mapped) return fail(mapped.error());
  return Mapping(*mapped);
}

Result<Mapping> Mapping::create_file(const std::string& path, uint64_t bytes, Pages pages) {
  if (bytes == 0) return fail(Code::kInvalidArgument, "a mapping has no bytes");
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

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    reset();
    bytes_ = std::exchange(other.bytes_, {});
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

void Mapping::reset() {
  if (bytes_.empty()) return;
  const int failed = ::munmap(bytes_.data(), bytes_.size());
  RHIZOME_CHECK(failed == 0);
  bytes_ = {};
}

}  // namespace rhizome
