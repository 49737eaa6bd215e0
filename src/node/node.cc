#include "node/node.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <set>
#include <span>
#include <stop_token>
#include <unordered_map>
#include <utility>

#include <unistd.h>

#include "attach/frame.h"
#include "machine/clock.h"
#include "machine/local_socket.h"
#include "machine/poller.h"
#include "machine/random.h"
#include "machine/thread.h"
#include "node/client_session.h"
#include "node/keeper_link.h"
#include "node/node_readers.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kListenerToken = 0;
// How long the loop rests when nobody comes, and after it was out of descriptors.
constexpr uint64_t kRestNs = 1'000'000'000;
// Memory of a former node is given up in such steps.
constexpr uint64_t kMoveRestNs = 20'000'000;
constexpr uint64_t kOutOfDescriptorsRestNs = 100'000'000;

// What a domain owns, in the order in which it is made; the sessions see it as a NodeDomain.
struct OwnedDomain {
  std::unique_ptr<Counters> counters;    // null: the caller's
  std::unique_ptr<MemoryKeeper> keeper;  // null: there is none
  std::unique_ptr<NodeReaders> readers;
  std::unique_ptr<Store> store;
};

Result<OwnedDomain> make_domain(DomainOptions options, uint32_t block_tokens, KeeperLink* keeper, uint64_t life) {
  OwnedDomain made;
  std::vector<KeptMemory> kept;
  if (keeper != nullptr) {
    made.keeper = std::make_unique<DomainKeeper>(*keeper, options.tenant, block_tokens, life);
    kept = keeper->take(options.tenant, block_tokens);
  }
  if (options.counters == nullptr) {
    made.counters = Counters::local();
    options.counters = made.counters.get();
  }
  made.readers = std::make_unique<NodeReaders>();
  Result<std::unique_ptr<Store>> store = Store::create({.memory_bytes = options.memory_bytes,
                                                        .block_tokens = block_tokens,
                                                        .tier = std::move(options.tier),
                                                        .tiering = options.tiering,
                                                        .remote_readers = made.readers.get(),
                                                        .keeper = made.keeper.get(),
                                                        .kept = std::move(kept)},
                                                       *options.counters);
  if (!store) return fail(store.error());
  made.store = std::move(*store);
  return made;
}

Status check_tenants(std::span<const DomainOptions> domains) {
  std::set<std::string_view> tenants;
  for (const DomainOptions& domain : domains) {
    if (domain.tenant.size() > kTenantBytesMax) return fail(Code::kInvalidArgument, "a tenant's name is too long");
    if (!tenants.insert(domain.tenant).second) return fail(Code::kInvalidArgument, "a tenant comes twice");
  }
  return {};
}

}  // namespace

class Node::Loop {
 public:
  Loop(const NodeOptions& options, LocalListener listener, Poller poller)
      : clients_max_(options.clients_max),
        move_bytes_(std::max<uint64_t>(options.moved_bytes_per_second / (1'000'000'000 / kMoveRestNs), 1)),
        pinned_grace_ns_(std::max<uint64_t>(options.pinned_grace_ns, 1)),
        listener_(std::move(listener)),
        poller_(std::move(poller)) {}
  ~Loop() {
    if (thread_.joinable()) {
      thread_.request_stop();
      poller_.wake();
      thread_.join();
    }
    sessions_.clear();
    if (!domains_.empty()) domains_.front()->counters.set(Counter::kKeeperPresent, 0);
    domains_.clear();
    owned_.clear();
    // A node that did not start leaves what a former one has left.
    if (keeper_ != nullptr && (is_started_ || keeper_->is_new())) keeper_->end();
  }

  // Before the domains are added. A node that has no keeper is one whose memory ends with it.
  void reach_keeper(KeeperOptions options) {
    if (options.socket_path.empty() && options.supervision.held_max == 0) return;
    Result<std::unique_ptr<KeeperLink>> link = KeeperLink::start(std::move(options));
    if (link) {
      keeper_ = std::move(*link);
    } else {
      log_warning("there is no keeper, so this node's memory ends with it: {}", link.error().reason);
    }
  }

  // Before start().
  Status add(DomainOptions options, const NodeOptions& common) {
    const uint64_t budget_bytes = options.memory_bytes;
    std::string tenant = options.tenant;
    Counters* const given = options.counters;
    Result<OwnedDomain> made = make_domain(std::move(options), common.block_tokens, keeper_.get(), incarnation_);
    if (!made) return fail(made.error());
    const OwnedDomain& owned = owned_.emplace_back(std::move(*made));
    domains_.push_back(std::unique_ptr<NodeDomain>(
        new NodeDomain{.store = *owned.store,
                       .readers = *owned.readers,
                       .counters = given != nullptr ? *given : *owned.counters,
                       .incarnation = incarnation_,
                       .budget_bytes = budget_bytes,
                       .comes_back = common.comes_back,
                       .staging_bytes_max = common.staging_bytes_max,
                       .pinned_bytes_max = common.pinned_bytes_max == 0 ? budget_bytes : common.pinned_bytes_max,
                       .pinned_grace_ns = common.pinned_grace_ns,
                       .hello_wait_ns = common.hello_wait_ns,
                       .takes_commits_by_ring = common.takes_commits_by_ring,
                       .tenant = std::move(tenant)}));
    return {};
  }

  Status start() {
    const Status added = poller_.add(listener_.descriptor(), kListenerToken, Poller::Interest::kRead);
    if (!added) return added;
    Result<Thread> thread = start_thread("rhizome-node", [this](const std::stop_token& stop) { run(stop); });
    if (!thread) return fail(thread.error());
    thread_ = std::move(*thread);
    is_started_ = true;
    if (keeper_ != nullptr) keeper_->drop_former();
    say_whether_kept();
    return {};
  }

  const NodeDomains& domains() const { return domains_; }
  uint32_t clients_count() const { return clients_.load(std::memory_order_relaxed); }
  uint64_t over_quota_count() const { return over_quota_.load(std::memory_order_relaxed); }
  uint64_t retired_bytes() const { return retired_.load(std::memory_order_relaxed); }

 private:
  void run(const std::stop_token& stop) {
    std::array<Poller::Ready, 64> ready;
    while (!stop.stop_requested()) {
      const uint64_t rest_ns = std::min(kRestNs, pinned_grace_ns_ / 2);
      const Result<size_t> count =
          poller_.wait(ready, monotonic_now_ns() + (has_adopted_ ? std::min(kMoveRestNs, rest_ns) : rest_ns));
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
      if (has_broken_ring_.exchange(false, std::memory_order_acquire)) drop_broken();  // pairs with accept()
      if (has_adopted_) move_adopted();
      if (monotonic_now_ns() >= next_quota_ns_ && !stop.stop_requested()) check_quotas();
    }
  }

  void drop_broken() {
    std::vector<uint64_t> broken;
    for (const auto& [number, session] : sessions_) {
      if (session->has_broken_ring()) broken.push_back(number);
    }
    for (const uint64_t number : broken) {
      log_warning("a client is dropped: what is in its commit ring makes no sense");
      domains_.front()->counters.add(Counter::kClientsDroppedMisuse);
      end(number);
    }
  }

  void check_quotas() {
    const uint64_t now = monotonic_now_ns();
    next_quota_ns_ = now + std::min(kRestNs, pinned_grace_ns_ / 2);
    say_whether_kept();
    // Also where nobody stores, and nothing asks for it.
    for (const auto& domain : domains_) {
      domain->contexts.drop_late(now);
      domain->store.note_remote_uses();
    }
    std::vector<uint64_t> over;
    uint64_t retired = 0;
    for (const auto& [number, session] : sessions_) {
      const Status checked = session->check_quota(now);
      retired += session->retired_bytes();
      if (checked) continue;
      if (checked.error().code == Code::kResourceExhausted) over_quota_.fetch_add(1, std::memory_order_relaxed);
      log_warning("a client is dropped: {}", checked.error().reason);
      over.push_back(number);
    }
    for (const uint64_t number : over)
      end(number);
    retired_.store(retired, std::memory_order_relaxed);
  }

  // What concerns the node as a whole is counted with its first domain.
  void say_whether_kept() {
    const bool is_kept = keeper_ != nullptr && keeper_->is_there();
    domains_.front()->counters.set(Counter::kKeeperPresent, is_kept ? 1 : 0);
  }

  // A little at a time: those who ask wait meanwhile.
  void move_adopted() {
    const uint64_t now = monotonic_now_ns();
    if (now < next_move_ns_) return;
    next_move_ns_ = now + kMoveRestNs;
    has_adopted_ = false;
    for (const auto& domain : domains_)
      has_adopted_ = domain->store.move_adopted(move_bytes_) || has_adopted_;
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
    // Called from threads of sessions, which are gone before the loop is.
    const auto on_broken = [this] {
      has_broken_ring_.store(true, std::memory_order_release);  // pairs with run()
      poller_.wake();
    };
    auto session = std::make_unique<ClientSession>(domains_, std::move(*socket), std::move(*watch), number, on_broken);
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
    const Code code = served.error().code;
    if (code == Code::kPermissionDenied) {
      // Well-formed, and told so; an engine of that tenant may ask every second.
      log_once("node.no_tenant", "a client of a tenant that this node does not serve is refused");
    } else if (code != Code::kUnavailable && code != Code::kCancelled) {
      log_warning("a client is dropped: {}", served.error().reason);
      domains_.front()->counters.add(Counter::kClientsDroppedMisuse);
    }
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
  const uint64_t move_bytes_;  // at a time
  const uint64_t pinned_grace_ns_;
  const uint64_t incarnation_ = random_u64() | 1;
  std::unique_ptr<KeeperLink> keeper_;
  std::vector<OwnedDomain> owned_;
  NodeDomains domains_;
  LocalListener listener_;
  Poller poller_;
  std::unordered_map<uint64_t, std::unique_ptr<ClientSession>> sessions_;  // the loop's thread's
  uint64_t last_number_ = 0;
  bool has_adopted_ = true;  // the loop's thread's, as the next one
  uint64_t next_move_ns_ = 0;
  uint64_t next_quota_ns_ = 0;
  bool is_started_ = false;
  std::atomic<bool> has_broken_ring_{false};
  std::atomic<uint32_t> clients_{0};
  std::atomic<uint64_t> over_quota_{0};
  std::atomic<uint64_t> retired_{0};
  Thread thread_;
};

Node::Node(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}

Node::~Node() = default;

Result<std::unique_ptr<Node>> Node::start(NodeOptions options, Counters& counters) {
  // Before anything is taken: another node may be there.
  Result<LocalListener> listener = LocalListener::listen(options.socket_path);
  if (!listener) return fail(listener.error());
  std::vector<DomainOptions> domains;
  domains.push_back({.tenant = std::move(options.tenant),
                     .memory_bytes = options.memory_bytes,
                     .tier = std::move(options.tier),
                     .tiering = options.tiering,
                     .counters = &counters});
  std::ranges::move(options.domains, std::back_inserter(domains));
  const Status checked = check_tenants(domains);
  if (!checked) return fail(checked.error());
  Result<Poller> poller = Poller::create();
  if (!poller) return fail(poller.error());
  auto loop = std::make_unique<Loop>(options, std::move(*listener), std::move(*poller));
  loop->reach_keeper(std::move(options.keeper));
  for (DomainOptions& domain : domains) {
    const Status added = loop->add(std::move(domain), options);
    if (!added) return fail(added.error());
  }
  const Status started = loop->start();
  if (!started) return fail(started.error());
  return std::unique_ptr<Node>(new Node(std::move(loop)));
}

Store& Node::store() {
  return loop_->domains().front()->store;
}

Store* Node::store_of(std::string_view tenant) {
  const NodeDomains& domains = loop_->domains();
  const auto found = std::ranges::find(domains, tenant, [](const auto& domain) { return domain->tenant; });
  return found == domains.end() ? nullptr : &(*found)->store;
}

uint64_t Node::over_quota_count() const {
  return loop_->over_quota_count();
}

uint64_t Node::retired_bytes() const {
  return loop_->retired_bytes();
}

Adoption Node::adoption() const {
  Adoption sum;
  for (const auto& domain : loop_->domains()) {
    const Adoption& one = domain->store.adoption();
    sum.offered_blocks += one.offered_blocks;
    sum.warm_blocks += one.warm_blocks;
    sum.warm_bytes += one.warm_bytes;
  }
  return sum;
}

uint32_t Node::clients_count() const {
  return loop_->clients_count();
}

}  // namespace rhizome
