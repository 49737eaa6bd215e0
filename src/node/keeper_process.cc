// The keeper as the node sees it: a process behind a socket.
#include <array>
#include <utility>

#include <unistd.h>

#include "concurrency/mutex.h"
#include "machine/clock.h"
#include "machine/local_socket.h"
#include "machine/process.h"
#include "machine/thread.h"
#include "node/memory_holder.h"

namespace rhizome {
namespace {

// A new keeper's first words, and what an old one has to say.
constexpr uint64_t kStartWaitNs = 10'000'000'000;
constexpr uint64_t kStartPollNs = 1'000'000;
constexpr uint64_t kClaimWaitNs = 5'000'000'000;
// The store waits for this.
constexpr uint64_t kTellWaitNs = 500'000'000;
constexpr uint64_t kEndWaitNs = 2'000'000'000;

Result<LocalSocket> connect_to(const std::string& path) {
  return LocalSocket::connect(path, monotonic_now_ns() + kClaimWaitNs);
}

class KeeperProcess final : public MemoryHolder {
 public:
  KeeperProcess(LocalSocket socket, Child child) : child_(std::move(child)), socket_(std::move(socket)) {}

  Result<std::vector<Held>> claim() override;
  Status hold(std::span<const std::byte> label, int descriptor) override {
    return send(KeeperVerb::kHold, label, std::span(&descriptor, 1), kTellWaitNs);
  }
  Status drop(std::span<const std::byte> label) override { return send(KeeperVerb::kDrop, label, {}, kTellWaitNs); }
  bool is_there() override;
  void end() override {
    const Status told = send(KeeperVerb::kEnd, {}, {}, kTellWaitNs);
    // A child of ours would be killed before it has taken its name away.
    if (told && child_.pid() != 0) static_cast<void>(child_.wait_for(kEndWaitNs));
  }

 private:
  Status send(KeeperVerb verb, std::span<const std::byte> label, std::span<const int> descriptors, uint64_t wait_ns);

  Child child_;
  Mutex mutex_;
  LocalSocket socket_ GUARDED_BY(mutex_);
};

Result<std::vector<MemoryHolder::Held>> KeeperProcess::claim() {
  const Status asked = send(KeeperVerb::kClaim, {}, {}, kClaimWaitNs);
  if (!asked) return fail(asked.error());
  std::vector<Held> held;
  const MutexLock lock(mutex_);
  std::array<std::byte, 1 + kKeeperLabelBytesMax> room{};
  for (;;) {
    Result<ReceivedMessage> message = socket_.receive(room, monotonic_now_ns() + kClaimWaitNs);
    if (!message) return fail(message.error());
    if (message->has_ended) return fail(Code::kUnavailable, "the keeper has hung up");
    if (static_cast<KeeperVerb>(room[0]) == KeeperVerb::kEnd) return held;
    if (message->descriptors.size() != 1) continue;
    held.push_back({std::vector(room.begin() + 1, room.begin() + static_cast<std::ptrdiff_t>(message->bytes)),
                    std::move(message->descriptors[0])});
  }
}

// Nobody waits for one that does not answer a second time.
Status KeeperProcess::send(KeeperVerb verb, std::span<const std::byte> label, std::span<const int> descriptors,
                           uint64_t wait_ns) {
  std::vector<std::byte> message{static_cast<std::byte>(verb)};
  message.insert(message.end(), label.begin(), label.end());
  const uint64_t until = monotonic_now_ns() + wait_ns;
  const MutexLock lock(mutex_);
  if (!socket_.is_open()) return fail(Code::kUnavailable, "the keeper is gone");
  for (;;) {
    Status sent = socket_.send(message, until, descriptors);
    if (sent) return sent;
    if (sent.error().code != Code::kResourceExhausted || monotonic_now_ns() >= until) {
      socket_.close();
      return sent;
    }
    pause_thread(kStartPollNs);  // until the keeper has read some of the descriptors that are under way
  }
}

bool KeeperProcess::is_there() {
  const MutexLock lock(mutex_);
  if (!socket_.is_open()) return false;
  // It says nothing unless it is asked.
  std::array<std::byte, 1 + kKeeperLabelBytesMax> room{};
  const Result<ReceivedMessage> message = socket_.receive(room, 0);
  const bool has_ended = message ? message->has_ended : message.error().code == Code::kUnavailable;
  if (has_ended) socket_.close();
  return !has_ended;
}

}  // namespace

Result<std::unique_ptr<MemoryHolder>> reach_keeper(const KeeperOptions& options) {
  Child child;
  Result<LocalSocket> socket = connect_to(options.socket_path);
  if (!socket && (socket.error().code == Code::kNotFound || socket.error().code == Code::kUnavailable)) {
    SpawnOptions spawn;
    spawn.environment = options.environment;
    // It holds nobody's terminal or pipe open, and a signal from the terminal is not for it.
    spawn.stdin_path = spawn.stdout_path = spawn.stderr_path = "/dev/null";
    spawn.own_process_group = true;
    Result<Child> spawned = Child::spawn(options.command, spawn);
    if (!spawned) return fail(spawned.error());
    child = std::move(*spawned);
    for (const uint64_t until = monotonic_now_ns() + kStartWaitNs; !socket && monotonic_now_ns() < until;
         socket = connect_to(options.socket_path)) {
      if (child.try_wait()) return fail(Code::kUnavailable, "the keeper has ended at once");
      pause_thread(kStartPollNs);
    }
  }
  if (!socket) return fail(socket.error());
  const Result<PeerCredentials> peer = socket->peer_credentials();
  if (!peer || peer->uid != ::geteuid()) return fail(Code::kPermissionDenied, "the keeper is another user's");
  return std::make_unique<KeeperProcess>(std::move(*socket), std::move(child));
}

}  // namespace rhizome
