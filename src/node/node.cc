#include "node/node.h"

#include <array>
#include <atomic>
#include <stop_token>
#include <unordered_map>
#include <utility>

#include <unistd.h>

#include "machine/clock.h"
#include "machine/local_socket.h"
#include "machine/poller.h"
#include "machine/random.h"
#include "machine/thread.h"
#include "node/client_session.h"
#include "node/node_readers.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kListenerToken = 0;
// How long the loop rests when nobody comes, and after it was out of descriptors.
constexpr uint64_t kRestNs = 1'000'000'000;
constexpr uint64_t kOutOfDescriptorsRestNs = 100'000'000;

}  // namespace

class Node::Loop {
 public:
  Loop(NodeOptions options, std::unique_ptr<NodeReaders> readers, std::unique_ptr<Store> store, LocalListener listener,
       Poller poller, Counters& counters)
      : clients_max_(options.clients_max),
        readers_(std::move(readers)),
        store_(std::move(store)),
        domain_{.store = *store_,
                .readers = *readers_,
                .counters = counters,
                .incarnation = random_u64() | 1,
                .budget_bytes = options.memory_bytes,
                .staging_bytes_max = options.staging_bytes_max,
                .tenant = std::move(options.tenant)},
        listener_(std::move(listener)),
        poller_(std::move(poller)) {}
  ~Loop() {
    if (thread_.joinable()) {
      thread_.request_stop();
      poller_.wake();
      thread_.join();
    }
    sessions_.clear();
  }

  Status start() {
    const Status added = poller_.add(listener_.descriptor(), kListenerToken, Poller::Interest::kRead);
    if (!added) return added;
    Result<Thread> thread = start_thread("rhizome-node", [this](const std::stop_token& stop) { run(stop); });
    if (!thread) return fail(thread.error());
    thread_ = std::move(*thread);
    return {};
  }

  Store& store() { return *store_; }
  uint32_t clients_count() const { return clients_.load(std::memory_order_relaxed); }

 private:
  void run(const std::stop_token& stop) {
    std::array<Poller::Ready, 64> ready;
    while (!stop.stop_requested()) {
      const Result<size_t> count = poller_.wait(ready, monotonic_now_ns() + kRestNs);
      if (!count) {
        log_once("node.poll", "the node cannot wait for its clients: {}", count.error().reason);
        pause_thread(kOutOfDescriptorsRestNs);
        continue;
      }
      for (size_t i = 0; i < *count && !stop.stop_requested(); ++i) {
        if (ready[i].token == kListenerToken) {
          accept();
        } else {
          serve(ready[i].token);
        }
      }
    }
  }

  void accept() {
    Result<LocalSocket> socket = listener_.accept(0);
    if (!socket) {
      if (socket.error().code == Code::kResourceExhausted) pause_thread(kOutOfDescriptorsRestNs);
      return;
    }
    const Result<PeerCredentials> peer = socket->peer_credentials();
    if (!peer || peer->uid != ::geteuid()) {
      log_warning("a process of another user may not attach");
      return;
    }
    Result<ProcessWatch> watch = ProcessWatch::of_peer(*socket);
    if (!watch || sessions_.size() >= clients_max_) {
      if (sessions_.size() >= clients_max_) log_once("node.full", "{} clients are attached, no more may", clients_max_);
      return;
    }
    const uint64_t number = ++last_number_;
    auto session = std::make_unique<ClientSession>(domain_, std::move(*socket), std::move(*watch), number);
    // Two tokens a session: its messages, and the end of its process, which a socket that was passed on would hide.
    const Status socket_added = poller_.add(session->socket_descriptor(), 2 * number, Poller::Interest::kRead);
    if (!socket_added) return;
    const Status watch_added = poller_.add(session->watch_descriptor(), 2 * number + 1, Poller::Interest::kRead);
    if (!watch_added) {
      static_cast<void>(poller_.remove(session->socket_descriptor()));
      return;
    }
    sessions_.emplace(number, std::move(session));
    publish();
  }

  void serve(uint64_t token) {
    const auto found = sessions_.find(token / 2);
    if (found == sessions_.end()) return;
    if (token % 2 == 1) {
      end(token / 2);
      return;
    }
    const Status served = found->second->serve_one();
    if (served) return;
    const bool is_usual = served.error().code == Code::kUnavailable || served.error().code == Code::kCancelled;
    if (!is_usual) log_warning("a client is dropped: {}", served.error().reason);
    end(token / 2);
  }

  void end(uint64_t number) {
    const auto found = sessions_.find(number);
    static_cast<void>(poller_.remove(found->second->socket_descriptor()));
    static_cast<void>(poller_.remove(found->second->watch_descriptor()));
    sessions_.erase(found);
    publish();
  }

  void publish() { clients_.store(static_cast<uint32_t>(sessions_.size()), std::memory_order_relaxed); }

  const uint32_t clients_max_;
  const std::unique_ptr<NodeReaders> readers_;
  const std::unique_ptr<Store> store_;
  NodeDomain domain_;
  LocalListener listener_;
  Poller poller_;
  std::unordered_map<uint64_t, std::unique_ptr<ClientSession>> sessions_;  // the loop's thread's
  uint64_t last_number_ = 0;
  std::atomic<uint32_t> clients_{0};
  Thread thread_;
};

Node::Node(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Node::~Node() = default;

Result<std::unique_ptr<Node>> Node::start(NodeOptions options, Counters& counters) {
  // Before anything is taken: another node may be there.
  Result<LocalListener> listener = LocalListener::listen(options.socket_path);
  if (!listener) return fail(listener.error());
  auto readers = std::make_unique<NodeReaders>();
  Result<std::unique_ptr<Store>> store = Store::create({.memory_bytes = options.memory_bytes,
                                                        .block_tokens = options.block_tokens,
                                                        .tier = std::move(options.tier),
                                                        .tiering = options.tiering,
                                                        .remote_readers = readers.get()},
                                                       counters);
  if (!store) return fail(store.error());
  Result<Poller> poller = Poller::create();
  if (!poller) return fail(poller.error());
  auto loop = std::make_unique<Loop>(std::move(options), std::move(readers), std::move(*store), std::move(*listener),
                                     std::move(*poller), counters);
  const Status started = loop->start();
  if (!started) return fail(started.error());
  return std::unique_ptr<Node>(new Node(std::move(loop)));
}

Store& Node::store() {
  return loop_->store();
}

uint32_t Node::clients_count() const {
  return loop_->clients_count();
}

}  // namespace rhizome
