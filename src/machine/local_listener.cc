#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine/files.h"
#include "machine/local_socket.h"
#include "machine/local_socket_address.h"

namespace rhizome {
namespace {

constexpr int kConnectionsWaitingMax = 128;
constexpr int kLockTriesMax = 100;

// Of those that want to listen at one path at the same time, one goes on: between finding a dead socket and having
// replaced it nobody else may do so. The lock is a file that is there only meanwhile; a killed process leaves an empty
// one, which locks nothing and goes with the next.
class PathLock {
 public:
  static Result<PathLock> acquire(const std::string& path) {
    const std::string name = path + ".lock";
    for (int tries = 0; tries < kLockTriesMax; ++tries) {
      Descriptor file(::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
      if (!file.is_open()) return fail(error_from_errno(errno, "cannot make the socket's lock"));
      struct flock lock{};
      lock.l_type = F_WRLCK;
      lock.l_whence = SEEK_SET;
      if (::fcntl(file.number(), F_OFD_SETLK, &lock) != 0) {
        if (errno == EINTR) continue;
        if (errno != EAGAIN && errno != EACCES) return fail(error_from_errno(errno, "cannot lock the socket's path"));
        return fail(Code::kAlreadyExists, "another process is about to listen there");
      }
      // Whoever had the lock before has removed the file, and the next one makes another.
      struct stat held{};
      struct stat named{};
      const bool is_named = ::fstat(file.number(), &held) == 0 && ::lstat(name.c_str(), &named) == 0 &&
                            held.st_ino == named.st_ino && held.st_dev == named.st_dev;
      if (is_named) return PathLock(std::move(file), name);
    }
    return fail(Code::kAlreadyExists, "other processes are about to listen there");
  }

  PathLock(PathLock&&) noexcept = default;
  PathLock& operator=(PathLock&&) = delete;
  ~PathLock() {
    if (file_.is_open()) ::unlink(name_.c_str());
  }

 private:
  PathLock(Descriptor file, std::string name) : file_(std::move(file)), name_(std::move(name)) {}

  Descriptor file_;
  std::string name_;
};

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Leaves the path free, or says why it is not.
Status remove_dead_socket(const std::string& path, const SocketAddress& address) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return {};
    return fail(error_from_errno(errno, "cannot look at the socket's path"));
  }
  if (!S_ISSOCK(status.st_mode)) return fail(Code::kFailedPrecondition, "something else has the socket's name");
  const Descriptor probe = new_local_socket(SOCK_NONBLOCK);
  if (!probe.is_open()) return fail(error_from_errno(errno, "cannot make a socket"));
  int failed = 0;
  do {
    failed = ::connect(probe.number(), address.get(), address.bytes) == 0 ? 0 : errno;
  } while (failed == EINTR);
  // A full queue belongs to somebody who lives, and so does a socket of another type.
  if (failed == 0 || failed == EAGAIN || failed == EPROTOTYPE) {
    return fail(Code::kAlreadyExists, "a living process listens there");
  }
  if (failed != ECONNREFUSED) return fail(error_from_errno(failed, "cannot tell whether somebody listens there"));
  return remove_file(path);
}

}  // namespace

Result<LocalListener> LocalListener::listen(const std::string& path) {
  const Result<SocketAddress> address = socket_address(path);
  if (!address) return fail(address.error());
  const Status directory = make_private_directory(folder_of(path));
  if (!directory) return fail(directory.error());
  const Result<PathLock> lock = PathLock::acquire(path);
  if (!lock) return fail(lock.error());
  const Status is_free = remove_dead_socket(path, *address);
  if (!is_free) return fail(is_free.error());

  LocalListener listener;
  listener.descriptor_ = new_local_socket(SOCK_NONBLOCK);
  const int number = listener.descriptor_.number();
  if (number < 0) return fail(error_from_errno(errno, "cannot make a socket"));
  // Before it has a name, so that there is no moment in which others may connect; the umask only takes away.
  if (::fchmod(number, 0600) != 0) return fail(error_from_errno(errno, "cannot set the socket's mode"));
  if (::bind(number, address->get(), address->bytes) != 0) {
    return fail(error_from_errno(errno, "cannot give the socket its name"));
  }
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return fail(error_from_errno(errno, "cannot look at the socket"));
  listener.path_ = path;
  listener.device_ = status.st_dev;
  listener.inode_ = status.st_ino;
  if (::listen(number, kConnectionsWaitingMax) != 0) return fail(error_from_errno(errno, "cannot listen"));
  return listener;
}

Result<LocalSocket> LocalListener::accept(uint64_t deadline_ns) {
  for (;;) {
    Descriptor accepted(::accept4(descriptor_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (accepted.is_open()) return LocalSocket(std::move(accepted));
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno != EAGAIN) return fail(error_from_errno(errno, "cannot take a connection"));
    const Status ready = wait_until_ready(descriptor_.number(), POLLIN, deadline_ns);
    if (!ready) return fail(ready.error());
  }
}

bool LocalListener::is_reachable() const {
  struct stat status{};
  return !path_.empty() && ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

void LocalListener::close() {
  descriptor_.reset();
  if (is_reachable()) ::unlink(path_.c_str());
  path_.clear();
}

LocalListener::LocalListener(LocalListener&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

LocalListener& LocalListener::operator=(LocalListener&& other) noexcept {
  if (this != &other) {
    close();
    descriptor_ = std::move(other.descriptor_);
    path_ = std::exchange(other.path_, {});
    device_ = other.device_;
    inode_ = other.inode_;
  }
  return *this;
}

}  // namespace rhizome
