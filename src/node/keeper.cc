#include "node/keeper.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include <unistd.h>

#include "machine/clock.h"
#include "machine/descriptor.h"
#include "machine/local_socket.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

using Label = std::string;

// Nobody is waited for any longer who has left nothing.
constexpr uint64_t kEmptyWaitNs = 10'000'000'000;
// How often to see whether anybody can come still.
constexpr uint64_t kLookAgainNs = 1'000'000'000;
constexpr uint64_t kSendWaitNs = 10'000'000'000;
constexpr uint64_t kOutOfDescriptorsRestNs = 100'000'000;

class Keeper {
 public:
  Keeper(LocalListener listener, uint64_t wait_ns) : listener_(std::move(listener)), wait_ns_(wait_ns) {}

  void run() {
    while (next_node()) {
      while (serve_one()) {
      }
      if (has_ended_) return;
      node_.close();
    }
  }

 private:
  // False: none has come in time.
  bool next_node() {
    const uint64_t until = monotonic_now_ns() + (held_.empty() ? std::min(wait_ns_, kEmptyWaitNs) : wait_ns_);
    for (;;) {
      const uint64_t look_again = monotonic_now_ns() + kLookAgainNs;
      Result<LocalSocket> socket = listener_.accept(std::min(until, look_again));
      if (!socket) {
        // Who removes the runtime directory wants nothing that was left there.
        if (monotonic_now_ns() >= until || !listener_.is_reachable()) return false;
        if (socket.error().code == Code::kResourceExhausted) pause_thread(kOutOfDescriptorsRestNs);
        continue;
      }
      const Result<PeerCredentials> peer = socket->peer_credentials();
      if (!peer || peer->uid != ::geteuid()) continue;
      node_ = std::move(*socket);
      return true;
    }
  }

  // False: the node has gone, or there is nothing left to do.
  bool serve_one() {
    Result<ReceivedMessage> message = node_.receive(room_, UINT64_MAX);
    if (!message) return message.error().code == Code::kInvalidArgument;  // it was too long, and is lost
    if (message->has_ended) return false;
    const Label label(reinterpret_cast<const char*>(room_.data()) + 1, message->bytes - 1);
    switch (static_cast<KeeperVerb>(room_[0])) {
      case KeeperVerb::kHold:
        if (message->descriptors.size() == 1) held_.insert_or_assign(label, std::move(message->descriptors[0]));
        return true;
      case KeeperVerb::kDrop:
        held_.erase(label);
        return true;
      case KeeperVerb::kClaim:
        return give_all();
      case KeeperVerb::kEnd:
        has_ended_ = true;
        return false;
    }
    return true;
  }

  bool give_all() {
    for (const auto& [label, descriptor] : held_) {
      const int number = descriptor.number();
      if (!send(static_cast<char>(KeeperVerb::kHold) + label, std::span(&number, 1))) return false;
    }
    return send(Label(1, static_cast<char>(KeeperVerb::kEnd)), {});
  }

  bool send(const Label& message, std::span<const int> descriptors) {
    const uint64_t until = monotonic_now_ns() + kSendWaitNs;
    for (;;) {
      const Status sent = node_.send(std::as_bytes(std::span(message)), until, descriptors);
      if (sent) return true;
      // Too many descriptors are under way until the node has read some.
      if (sent.error().code != Code::kResourceExhausted || monotonic_now_ns() >= until) return false;
      pause_thread(1'000'000);
    }
  }

  LocalListener listener_;
  const uint64_t wait_ns_;
  LocalSocket node_;
  std::map<Label, Descriptor> held_;
  std::array<std::byte, 1 + kKeeperLabelBytesMax> room_{};
  bool has_ended_ = false;
};

}  // namespace

Status run_keeper(const std::string& socket_path, uint64_t wait_ns) {
  Result<LocalListener> listener = LocalListener::listen(socket_path);
  if (!listener) return fail(listener.error());
  Keeper(std::move(*listener), wait_ns).run();
  return {};
}

}  // namespace rhizome
