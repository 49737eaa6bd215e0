#include "machine/local_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/time.h>

#include "machine/clock.h"
#include "machine/files.h"
#include "machine/local_socket_address.h"

namespace rhizome {
namespace {

constexpr int kPassRights = 83;  // SO_PASSRIGHTS of <asm-generic/socket.h> since 6.16

// Exactly as many descriptors as are taken: of more the kernel says that they did not fit, and closes them.
constexpr size_t kControlBytes = CMSG_SPACE(kMessageDescriptorsMax * sizeof(int));
static_assert(kControlBytes == CMSG_LEN(kMessageDescriptorsMax * sizeof(int)), "there is no room for one more");

struct Control {
  alignas(cmsghdr) std::array<std::byte, kControlBytes> bytes{};
};

Error send_error(int error_number) {
  switch (error_number) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
    case ECONNREFUSED:
      return {Code::kUnavailable, "the peer is gone"};
    case EMSGSIZE:
      return {Code::kInvalidArgument, "the message is too long"};
    case ETOOMANYREFS:
    case ENOBUFS:
      return {Code::kResourceExhausted, "too much is under way on the socket"};
    default:
      return error_from_errno(error_number, "cannot send the message");
  }
}

std::vector<Descriptor> descriptors_of(msghdr& header) {
  std::vector<Descriptor> descriptors;
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(part) + i * sizeof(int), sizeof number);
      descriptors.emplace_back(number);
    }
  }
  return descriptors;
}

}  // namespace

Status wait_until_ready(int descriptor, short events, uint64_t deadline_ns) {
  for (;;) {
    const uint64_t now = monotonic_now_ns();
    if (now >= deadline_ns) return fail(Code::kDeadlineExceeded, "the peer was not ready in time");
    const timespec left = {static_cast<time_t>((deadline_ns - now) / 1'000'000'000),
                           static_cast<long>((deadline_ns - now) % 1'000'000'000)};
    pollfd polled = {descriptor, events, 0};
    const int ready = ::ppoll(&polled, 1, &left, nullptr);
    // An error or a hang-up is for the call that was waited for to tell.
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return fail(error_from_errno(errno, "cannot wait for the peer"));
  }
}

Result<SocketAddress> socket_address(const std::string& path) {
  SocketAddress address;
  address.name.sun_family = AF_UNIX;
  // A zero in front would be an abstract name.
  if (path.empty() || path.find('\0') != std::string::npos) {
    return fail(Code::kInvalidArgument, "the socket's path is empty or contains a zero");
  }
  if (path.size() >= sizeof address.name.sun_path) {
    return fail(Code::kInvalidArgument, "the socket's path is too long: 107 bytes at most");
  }
  std::memcpy(address.name.sun_path, path.c_str(), path.size() + 1);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() + 1);
  return address;
}

Descriptor new_local_socket(int flags) {
  return Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0));
}

Result<LocalSocket> LocalSocket::connect(const std::string& path, uint64_t deadline_ns) {
  const Result<SocketAddress> address = socket_address(path);
  if (!address) return fail(address.error());
  Descriptor socket = new_local_socket(0);
  if (!socket.is_open()) return fail(error_from_errno(errno, "cannot make a socket"));
  for (;;) {
    const uint64_t now = monotonic_now_ns();
    // Zero would be for ever.
    const uint64_t left_us = std::max<uint64_t>(1, deadline_ns > now ? (deadline_ns - now) / 1000 : 0);
    const timeval left = {static_cast<time_t>(left_us / 1'000'000), static_cast<suseconds_t>(left_us % 1'000'000)};
    if (::setsockopt(socket.number(), SOL_SOCKET, SO_SNDTIMEO, &left, sizeof left) != 0) {
      return fail(error_from_errno(errno, "cannot set the socket's patience"));
    }
    if (::connect(socket.number(), address->get(), address->bytes) == 0) return LocalSocket(std::move(socket));
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return fail(Code::kDeadlineExceeded, "the listener's queue stayed full");
    if (errno == ECONNREFUSED || errno == ECONNRESET) return fail(Code::kUnavailable, "nobody listens at the socket");
    if (errno == EPROTOTYPE) return fail(Code::kUnavailable, "something else listens at the socket");
    return fail(error_from_errno(errno, "cannot connect to the socket"));
  }
}

Result<std::pair<LocalSocket, LocalSocket>> LocalSocket::pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(error_from_errno(errno, "cannot make a pair of sockets"));
  }
  return std::pair(LocalSocket(Descriptor(ends[0])), LocalSocket(Descriptor(ends[1])));
}

Status LocalSocket::send(std::span<const std::byte> message, uint64_t deadline_ns, std::span<const int> descriptors) {
  if (message.empty()) return fail(Code::kInvalidArgument, "an empty message would read as the end");
  if (message.size() > kMessageBytesMax) return fail(Code::kInvalidArgument, "the message is too long");
  if (descriptors.size() > kMessageDescriptorsMax) return fail(Code::kInvalidArgument, "too many descriptors");
  iovec part = {const_cast<std::byte*>(message.data()), message.size()};
  Control control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = control.bytes.data();
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    if (::sendmsg(descriptor_.number(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return {};
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail(send_error(errno));
    const Status ready = wait_until_ready(descriptor_.number(), POLLOUT, deadline_ns);
    if (!ready) return ready;
  }
}

Result<ReceivedMessage> LocalSocket::receive(std::span<std::byte> room, uint64_t deadline_ns) {
  for (;;) {
    iovec part = {room.data(), room.size()};
    Control control;
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.data();
    header.msg_controllen = control.bytes.size();
    const ssize_t got = ::recvmsg(descriptor_.number(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got >= 0) {
      // Taken first, so that they are closed whatever comes.
      ReceivedMessage message = {false, static_cast<size_t>(got), descriptors_of(header)};
      if ((header.msg_flags & MSG_TRUNC) != 0) return fail(Code::kInvalidArgument, "the message is too long");
      if ((header.msg_flags & MSG_CTRUNC) != 0) return fail(Code::kInvalidArgument, "too many descriptors came");
      if (got == 0) return ReceivedMessage{true, 0, {}};
      return message;
    }
    // A peer that closed with messages unread is told of once, and before those that it sent itself.
    if (errno == EINTR || errno == ECONNRESET) continue;
    if (errno != EAGAIN) return fail(error_from_errno(errno, "cannot receive a message"));
    const Status ready = wait_until_ready(descriptor_.number(), POLLIN, deadline_ns);
    if (!ready) return fail(ready.error());
  }
}

bool LocalSocket::refuse_descriptors() {
  const int off = 0;
  return ::setsockopt(descriptor_.number(), SOL_SOCKET, kPassRights, &off, sizeof off) == 0;
}

Result<PeerCredentials> LocalSocket::peer_credentials() const {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (::getsockopt(descriptor_.number(), SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return fail(error_from_errno(errno, "cannot ask who the peer is"));
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

}  // namespace rhizome
