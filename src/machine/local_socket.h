// Sockets between the processes of one machine: Unix SOCK_SEQPACKET, which keeps messages apart and carries
// descriptors.
//
// Deadlines are absolute, on monotonic_now_ns(); what can be done at once is done also when its deadline has passed, so
// a deadline of 0 asks for now or never. Sockets have a path in a directory, never an abstract name, which anybody
// could take.
//
// Thread-safety: one thread may send on a LocalSocket while another one receives; all else belongs to one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "contract/result.h"
#include "machine/descriptor.h"

namespace rhizome {

inline constexpr size_t kMessageBytesMax = 64 << 10;
inline constexpr size_t kMessageDescriptorsMax = 8;

struct PeerCredentials {
  pid_t pid = 0;  // as it was; may be somebody else's now
  uid_t uid = 0;
  gid_t gid = 0;
};

struct ReceivedMessage {
  bool has_ended = false;  // there is no message: the peer has closed, or sent an empty one
  size_t bytes = 0;
  // Made by the peer. To close one may block for as long as its kind allows (a TCP socket that lingers).
  std::vector<Descriptor> descriptors;
};

class LocalSocket {
 public:
  // kNotFound: nothing of that name. kUnavailable: nobody listens. kDeadlineExceeded: its queue stayed full.
  // kInvalidArgument: the path is empty, too long for a socket's address, or contains a zero.
  static Result<LocalSocket> connect(const std::string& path, uint64_t deadline_ns);
  // Two ends without a name.
  static Result<std::pair<LocalSocket, LocalSocket>> pair();

  LocalSocket() = default;
  explicit LocalSocket(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  bool is_open() const { return descriptor_.is_open(); }
  // To be waited for; stays the socket's.
  int descriptor() const { return descriptor_.number(); }
  void close() { descriptor_.reset(); }

  // One whole message, with copies of the descriptors, or nothing. kInvalidArgument: an empty message, more than
  // kMessageBytesMax or kMessageDescriptorsMax. kDeadlineExceeded: the peer did not read what was sent before.
  // kUnavailable: the peer is gone. kResourceExhausted: too many descriptors are under way.
  Status send(std::span<const std::byte> message, uint64_t deadline_ns, std::span<const int> descriptors = {});

  // The next message, at the head of `room`. kDeadlineExceeded: there is none. kInvalidArgument: it was longer than
  // `room`, or came with more descriptors than kMessageDescriptorsMax or this process can have; it is lost, and its
  // descriptors are closed.
  Result<ReceivedMessage> receive(std::span<std::byte> room, uint64_t deadline_ns);

  // Where the kernel can (6.16), nobody can send descriptors to this socket from now on. False where it cannot.
  bool refuse_descriptors();

  // Of the process that connected, or listened, as the kernel noted them then.
  Result<PeerCredentials> peer_credentials() const;

 private:
  Descriptor descriptor_;
};

// A place where others can connect. Destroyed, it takes its name away.
class LocalListener {
 public:
  // Only this user may connect (mode 0600). The directory is made when it is missing (0700); kPermissionDenied when it
  // belongs to another user or others may write to it. The socket of a dead process is replaced. kAlreadyExists: a
  // living one listens there, or is about to. kFailedPrecondition: something else has the name. kInvalidArgument: as
  // connect(). A forked child that does not exec keeps the place alive until it has closed the listener.
  static Result<LocalListener> listen(const std::string& path);

  LocalListener() = default;
  ~LocalListener() { close(); }
  LocalListener(LocalListener&& other) noexcept;
  LocalListener& operator=(LocalListener&& other) noexcept;

  const std::string& path() const { return path_; }
  // To be waited for; stays the listener's.
  int descriptor() const { return descriptor_.number(); }

  // kDeadlineExceeded: nobody came. kResourceExhausted: this process has no descriptor left, and whoever came still
  // waits: a loop that calls again at once spins.
  Result<LocalSocket> accept(uint64_t deadline_ns);

  // False: its name was taken away, or names something else; nobody can come any more.
  bool is_reachable() const;

  // The name is removed only while it still names this socket.
  void close();

 private:
  Descriptor descriptor_;
  std::string path_;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

}  // namespace rhizome
