#include "machine/process_watch.h"

#include <cerrno>

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine/files.h"
#include "machine/local_socket_address.h"

namespace rhizome {
namespace {

constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD of <asm-generic/socket.h> since 6.5

}  // namespace

Result<ProcessWatch> ProcessWatch::of_process(pid_t pid) {
  Descriptor watch(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!watch.is_open()) return fail(error_from_errno(errno, "cannot watch the process"));
  return ProcessWatch(std::move(watch));
}

Result<ProcessWatch> ProcessWatch::of_peer(const LocalSocket& socket) {
  int number = -1;
  socklen_t bytes = sizeof number;
  if (::getsockopt(socket.descriptor(), SOL_SOCKET, kPeerPidfd, &number, &bytes) == 0) {
    return ProcessWatch(Descriptor(number));
  }
  if (errno == ESRCH || errno == ENODATA) return fail(Code::kNotFound, "the peer has ended");
  if (errno != ENOPROTOOPT && errno != EINVAL) return fail(error_from_errno(errno, "cannot watch the peer"));
  const Result<PeerCredentials> peer = socket.peer_credentials();
  if (!peer) return fail(peer.error());
  return of_process(peer->pid);
}

bool ProcessWatch::wait(uint64_t deadline_ns) const {
  pollfd polled = {descriptor_.number(), POLLIN, 0};
  if (::poll(&polled, 1, 0) > 0) return true;
  return deadline_ns > 0 && wait_until_ready(descriptor_.number(), POLLIN, deadline_ns).has_value();
}

}  // namespace rhizome
