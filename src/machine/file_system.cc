#include "machine/file_system.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "machine/files.h"

namespace rhizome {
namespace {

tl::unexpected<Error> fail_errno(const char* reason) {
  return fail(error_from_errno(errno, reason));
}

int open_retrying(const char* path, int flags, mode_t mode = 0) {
  int descriptor = -1;
  do {
    descriptor = ::open(path, flags | O_CLOEXEC | O_NOFOLLOW, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

class RealFile final : public File {
 public:
  RealFile(int descriptor, bool is_direct) : descriptor_(descriptor), is_direct_(is_direct) {}
  ~RealFile() override { ::close(descriptor_); }

  Result<size_t> read_at(uint64_t offset, std::span<std::byte> into) override {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t got =
          ::pread(descriptor_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail_errno("cannot read the file");
      if (got == 0) break;
      done += static_cast<size_t>(got);
      // What follows a part of a page is the end of the file, and no offset that a direct read may have.
      if (is_direct_ && got % static_cast<ssize_t>(kDirectAlignment) != 0) break;
    }
    return done;
  }

  Result<size_t> write_at(uint64_t offset, std::span<const std::byte> from) override {
    for (;;) {
      const ssize_t put = ::pwrite(descriptor_, from.data(), from.size(), static_cast<off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return fail_errno("cannot write the file");
      return static_cast<size_t>(put);
    }
  }

  Status sync_data() override {
    if (::fdatasync(descriptor_) != 0) return fail_errno("cannot write the file to disk");
    return {};
  }

  Status truncate(uint64_t bytes) override {
    if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) return fail_errno("cannot cut the file");
    return {};
  }

  Status allocate(uint64_t bytes) override {
    if (bytes == 0) return fail(Code::kInvalidArgument, "a file of no bytes");
    const int failed = ::posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes));
    if (failed != 0) return fail(error_from_errno(failed, "no room for the file"));
    return {};
  }

  Result<uint64_t> size() override {
    struct stat found{};
    if (::fstat(descriptor_, &found) != 0) return fail_errno("cannot look at the file");
    return static_cast<uint64_t>(found.st_size);
  }

  bool is_direct() const override { return is_direct_; }
  int descriptor() const override { return descriptor_; }

 private:
  const int descriptor_;
  const bool is_direct_;
};

class RealLock final : public DirectoryLock {
 public:
  explicit RealLock(int descriptor) : descriptor_(descriptor) {}
  ~RealLock() override { ::close(descriptor_); }

 private:
  const int descriptor_;
};

// An open file description's lock: a second one of the same process does not get it, and a query takes nothing.
struct flock whole_file(short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

int flags_of(OpenMode mode) {
  switch (mode) {
    case OpenMode::kRead:
    case OpenMode::kReadDirect:
      return O_RDONLY;
    case OpenMode::kReadWrite:
    case OpenMode::kReadWriteDirect:
      return O_RDWR;
    case OpenMode::kCreate:
    case OpenMode::kCreateDirect:
      return O_RDWR | O_CREAT | O_EXCL;
  }
  return O_RDONLY;
}

class RealFileSystem final : public FileSystem {
 public:
  Status make_directory(const std::string& path) override { return make_private_directory(path); }

  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    const bool is_direct = mode >= OpenMode::kReadDirect;
    // A pipe would be waited for until somebody else opens it.
    const int descriptor = open_retrying(path.c_str(), flags_of(mode) | O_NONBLOCK, 0600);
    if (descriptor < 0)
      return fail_errno(errno == EMFILE ? "more files than this process may have open" : "cannot open the file");
    struct stat found{};
    if (::fstat(descriptor, &found) != 0 || !S_ISREG(found.st_mode)) {
      ::close(descriptor);
      return fail(Code::kFailedPrecondition, "not a regular file");
    }
    // Not as a flag of open(): a file system that cannot would have made the file and then refused.
    const bool got_direct = is_direct && ::fcntl(descriptor, F_SETFL, O_DIRECT) == 0;
    // Kept, it would make the kernel's ring give up where it has to wait.
    if (!got_direct) (void)::fcntl(descriptor, F_SETFL, 0);
    return std::make_unique<RealFile>(descriptor, got_direct);
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return fail_errno("cannot rename the file");
    return {};
  }

  Status remove(const std::string& path) override { return remove_file(path); }
  Result<std::vector<std::string>> list(const std::string& path) override { return list_directory(path); }

  Status sync_directory(const std::string& path) override {
    const int descriptor = open_retrying(path.c_str(), O_RDONLY | O_DIRECTORY);
    if (descriptor < 0) return fail_errno("cannot open the directory");
    const bool is_done = ::fsync(descriptor) == 0;
    const int failed = errno;
    ::close(descriptor);
    if (!is_done) return fail(error_from_errno(failed, "cannot write the directory to disk"));
    return {};
  }

  Result<uint64_t> room_bytes(const std::string& directory) override {
    struct statvfs found{};
    if (::statvfs(directory.c_str(), &found) != 0) return fail_errno("cannot look at the file system");
    return uint64_t{found.f_bavail} * found.f_frsize;
  }

  Result<std::unique_ptr<DirectoryLock>> lock_directory(const std::string& path) override {
    const int descriptor = open_retrying((path + "/lock").c_str(), O_RDWR | O_CREAT | O_NONBLOCK, 0600);
    if (descriptor < 0) return fail_errno("cannot open the directory's lock");
    struct flock lock = whole_file(F_WRLCK);
    if (::fcntl(descriptor, F_OFD_SETLK, &lock) != 0) {
      const int failed = errno;
      ::close(descriptor);
      if (failed == EAGAIN || failed == EACCES) return fail(Code::kAlreadyExists, "a living process has the directory");
      return fail(error_from_errno(failed, "cannot lock the directory"));
    }
    return std::make_unique<RealLock>(descriptor);
  }

  bool is_locked(const std::string& path) override {
    const int descriptor = open_retrying((path + "/lock").c_str(), O_RDONLY | O_NONBLOCK);
    if (descriptor < 0) return false;
    struct flock lock = whole_file(F_WRLCK);
    const bool is_held = ::fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    ::close(descriptor);
    return is_held;
  }
};

}  // namespace

FileSystem& real_file_system() {
  static RealFileSystem* const kFiles = new RealFileSystem;
  return *kFiles;
}

}  // namespace rhizome
