#include "machine/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <optional>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/descriptor.h"
#include "machine/random.h"

namespace rhizome {
namespace {

tl::unexpected<Error> fail_errno(const char* reason) {
  return fail(error_from_errno(errno, reason));
}

int open_retrying(const char* path, int flags, mode_t mode = 0) {
  int descriptor = -1;
  do {
    descriptor = ::open(path, flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// Fills `out` as far as the file goes; nothing on an error.
std::optional<size_t> read_up_to(int descriptor, std::span<std::byte> out) {
  size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t got = ::read(descriptor, out.data() + filled, out.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  return filled;
}

bool write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * 1'000'000'000ll + time.tv_nsec;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

template <class Bytes>
Result<Bytes> read_whole(const std::string& path, uint64_t limit_bytes) {
  const Descriptor file(open_retrying(path.c_str(), O_RDONLY));
  if (!file.is_open()) return fail_errno("cannot open the file");
  // Sizes in /proc are zero and files grow, so it is read until it ends and not as long as stat says.
  constexpr size_t kStepBytes = 64 * 1024;
  Bytes bytes;
  for (;;) {
    const size_t filled = bytes.size();
    const size_t step = static_cast<size_t>(std::min<uint64_t>(kStepBytes + filled, limit_bytes + 1 - filled));
    try {
      bytes.resize(filled + step);
    } catch (const std::bad_alloc&) {
      return fail(Code::kResourceExhausted, "no memory for the file");
    }
    const std::optional<size_t> got =
        read_up_to(file.number(), std::as_writable_bytes(std::span(bytes.data() + filled, step)));
    if (!got) return fail_errno("cannot read the file");
    bytes.resize(filled + *got);
    if (bytes.size() > limit_bytes) return fail(Code::kResourceExhausted, "the file is longer than allowed");
    if (*got < step) return bytes;
  }
}

}  // namespace

Error error_from_errno(int error_number, const char* reason) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
    case ENXIO:
    case ENODEV:
      return {Code::kNotFound, reason};
    case EEXIST:
      return {Code::kAlreadyExists, reason};
    case EACCES:
    case EPERM:
    case EROFS:
      return {Code::kPermissionDenied, reason};
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EFBIG:
      return {Code::kResourceExhausted, reason};
    case EINVAL:
    case ENAMETOOLONG:
    case EBADF:
    case EFAULT:
    case E2BIG:
      return {Code::kInvalidArgument, reason};
    case EISDIR:
    case ENOTEMPTY:
    case ELOOP:
    case ENOEXEC:
    case ETXTBSY:
    case EXDEV:
      return {Code::kFailedPrecondition, reason};
    case EAGAIN:
    case EBUSY:
    case EINTR:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return {Code::kUnavailable, reason};
    case ETIMEDOUT:
      return {Code::kDeadlineExceeded, reason};
    case ECANCELED:
      return {Code::kCancelled, reason};
    case ENOSYS:
    case EOPNOTSUPP:
      return {Code::kUnimplemented, reason};
    case EIO:
      return {Code::kDataLoss, reason};
    case ERANGE:
    case EOVERFLOW:
      return {Code::kOutOfRange, reason};
    default:
      return {Code::kUnknown, reason};
  }
}

Result<FileStamp> stamp_file(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fail_errno("cannot look at the file");
  if (!S_ISREG(status.st_mode)) return fail(Code::kInvalidArgument, "not a regular file");
  return FileStamp{.device = status.st_dev,
                   .inode = status.st_ino,
                   .size = static_cast<uint64_t>(status.st_size),
                   .mtime_ns = nanoseconds(status.st_mtim),
                   .ctime_ns = nanoseconds(status.st_ctim)};
}

Result<std::vector<std::byte>> read_file(const std::string& path, uint64_t limit_bytes) {
  return read_whole<std::vector<std::byte>>(path, limit_bytes);
}

Result<std::string> read_text_file(const std::string& path, uint64_t limit_bytes) {
  return read_whole<std::string>(path, limit_bytes);
}

Result<std::string> read_secret_file(const std::string& path, uint64_t limit_bytes) {
  const Descriptor file(open_retrying(path.c_str(), O_RDONLY | O_NONBLOCK));
  if (!file.is_open()) return fail_errno("cannot open the file");
  struct stat found{};
  if (::fstat(file.number(), &found) != 0) return fail_errno("cannot look at the file");
  if (!S_ISREG(found.st_mode)) return fail(Code::kInvalidArgument, "not a regular file");
  if (found.st_uid != ::geteuid()) return fail(Code::kPermissionDenied, "the file of secrets belongs to somebody else");
  if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return fail(Code::kPermissionDenied, "others may read or write the file of secrets: chmod 600");
  if (found.st_size < 0 || static_cast<uint64_t>(found.st_size) > limit_bytes)
    return fail(Code::kResourceExhausted, "the file is longer than allowed");
  std::string text(static_cast<size_t>(found.st_size), '\0');
  const std::optional<size_t> got = read_up_to(file.number(), std::as_writable_bytes(std::span(text)));
  if (!got) return fail_errno("cannot read the file");
  text.resize(*got);
  return text;
}

Result<std::vector<std::byte>> read_file_range(const std::string& path, uint64_t offset, uint64_t length) {
  const Descriptor file(open_retrying(path.c_str(), O_RDONLY | O_NONBLOCK));
  if (!file.is_open()) return fail_errno("cannot open the file");
  struct stat found{};
  if (::fstat(file.number(), &found) != 0) return fail_errno("cannot look at the file");
  const uint64_t size = found.st_size < 0 ? 0 : static_cast<uint64_t>(found.st_size);
  if (offset >= size) return std::vector<std::byte>();
  if (::lseek(file.number(), static_cast<off_t>(offset), SEEK_SET) < 0) return fail_errno("cannot read the file");
  std::vector<std::byte> bytes;
  try {
    bytes.resize(std::min(length, size - offset));
  } catch (const std::bad_alloc&) {
    return fail(Code::kResourceExhausted, "no memory for the file");
  }
  const std::optional<size_t> got = read_up_to(file.number(), bytes);
  if (!got) return fail_errno("cannot read the file");
  bytes.resize(*got);
  return bytes;
}

Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes, mode_t mode) {
  char suffix[32];
  std::snprintf(suffix, sizeof suffix, ".%016llx.tmp", static_cast<unsigned long long>(random_u64()));
  const std::string temporary = path + suffix;
  const auto give_up = [&temporary](const char* reason) {
    const Error error = error_from_errno(errno, reason);
    ::unlink(temporary.c_str());
    return fail(error);
  };
  {
    const Descriptor file(open_retrying(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode));
    if (!file.is_open()) return fail_errno("cannot create the file");
    // The process's umask must not decide who may read it.
    if (::fchmod(file.number(), mode) != 0) return give_up("cannot set the file's mode");
    if (!write_all(file.number(), bytes)) return give_up("cannot write the file");
    if (::fsync(file.number()) != 0) return give_up("cannot write the file to disk");
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up("cannot put the file in its place");
  // Without this the new name may be gone after a crash; the contents are whole either way.
  const Descriptor folder(open_retrying(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY));
  if (folder.is_open()) ::fsync(folder.number());
  return {};
}

Status write_file_atomically(const std::string& path, std::string_view text, mode_t mode) {
  return write_file_atomically(path, std::as_bytes(std::span(text)), mode);
}

Status for_each_chunk(const std::string& path, size_t chunk_bytes,
                      const std::function<bool(std::span<const std::byte>)>& take) {
  if (chunk_bytes == 0) return fail(Code::kInvalidArgument, "a chunk has no bytes");
  const Descriptor file(open_retrying(path.c_str(), O_RDONLY));
  if (!file.is_open()) return fail_errno("cannot open the file");
  ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
  const std::unique_ptr<std::byte[]> chunk(new (std::nothrow) std::byte[chunk_bytes]);
  if (!chunk) return fail(Code::kResourceExhausted, "no memory for a chunk of the file");
  for (;;) {
    const std::optional<size_t> got = read_up_to(file.number(), {chunk.get(), chunk_bytes});
    if (!got) return fail_errno("cannot read the file");
    if (*got != 0 && !take({chunk.get(), *got})) return {};
    if (*got < chunk_bytes) return {};
  }
}

Status make_private_directory(const std::string& path) {
  if (path.empty()) return fail(Code::kInvalidArgument, "the directory has no name");
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    if (::mkdir(path.substr(0, end).c_str(), 0700) != 0 && errno != EEXIST) {
      return fail_errno("cannot make the directory's parent");
    }
  }
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("cannot make the directory");
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fail_errno("cannot look at the directory");
  if (!S_ISDIR(status.st_mode)) return fail(Code::kFailedPrecondition, "there is something else of that name");
  if (status.st_uid != ::geteuid()) return fail(Code::kPermissionDenied, "the directory belongs to another user");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return fail(Code::kPermissionDenied, "other users may write to the directory");
  }
  return {};
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0) return fail_errno("cannot remove the file");
  return {};
}

Result<std::vector<std::string>> list_directory(const std::string& path) {
  struct Close {
    void operator()(DIR* directory) const { ::closedir(directory); }
  };
  const std::unique_ptr<DIR, Close> directory(::opendir(path.c_str()));
  if (!directory) return fail_errno("cannot open the directory");
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return fail_errno("cannot read the directory");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rhizome
