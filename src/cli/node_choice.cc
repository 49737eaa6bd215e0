#include "cli/node_choice.h"

#include <array>
#include <utility>

#include "cli/node_inquiry.h"
#include "machine/clock.h"
#include "machine/units.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// How often to look again while others are about to listen, or to become the node.
constexpr int kStartTries = 40;
constexpr uint64_t kRetryNs = 50'000'000;
// Another node that is started has so long to be first; then how often to try to become it.
constexpr uint64_t kGraceNs = 2'000'000'000;
constexpr uint64_t kTakeOverNs = 1'000'000'000;
constexpr uint64_t kHostToken = 1;

void say_attached(const NodeInquiry& node, const CacheFlags& flags) {
  log_info("attached to the node of process {}: {} of memory, blocks of {} tokens", node.pid(),
           format_bytes(node.memory_bytes()), node.block_tokens());
  std::string unused;
  for (const std::string& source : {flags.memory_source, flags.disk_source}) {
    if (!source.empty()) unused += (unused.empty() ? "" : " and ") + source;
  }
  if (!unused.empty()) {
    log_warning("{}: not used, the memory and the disk are that node's (--attach none keeps them apart)", unused);
  }
}

void say_warm(const OwnNode& node) {
  if (const uint64_t blocks = node.blocks_taken_over(); blocks > 0) {
    log_info("{} blocks are warm from the node before, which was killed", blocks);
  }
}

}  // namespace

OrComplaint<std::unique_ptr<NodeChoice>> NodeChoice::make(const CacheFlags& flags, const std::string& runtime_directory,
                                                          Counters& counters) {
  std::unique_ptr<NodeChoice> choice(new NodeChoice(flags, counters));
  choice->memory_bytes_ = flags.memory_bytes;
  if (flags.attach == "none") {
    choice->become_node(private_socket(runtime_directory), /*is_host=*/false);
  } else if (!flags.attach.empty()) {
    const auto attached = choice->attach_named();
    if (!attached) return complain(attached.error());
  } else {
    choice->choose_at(host_socket(runtime_directory), private_socket(runtime_directory));
  }
  return choice;
}

NodeChoice::~NodeChoice() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  if (poller_) poller_->wake();
  thread_.join();
}

void NodeChoice::flush(uint64_t wait_ns) {
  const MutexLock lock(mutex_);
  if (own_) own_->flush(wait_ns);
}

OrComplaint<void> NodeChoice::attach_named() {
  const auto node = NodeInquiry::open(flags_.attach, flags_.tenant, flags_.block_tokens);
  if (!node) {
    const NoTalk& why = node.error();
    return complain("--attach " + flags_.attach + ": " +
                    (why.pid == 0 ? "no node answers there: " : "the node there does not take us: ") + why.line);
  }
  socket_path_ = flags_.attach;
  memory_bytes_ = node->memory_bytes();
  say_attached(*node, flags_);
  return {};
}

NodeChoice::Found NodeChoice::find_host(const std::string& host_path) {
  const auto node = NodeInquiry::open(host_path, flags_.tenant, flags_.block_tokens);
  if (node) {
    auto watch = ProcessWatch::of_peer(node->socket());
    if (!watch) return Found::kNobody;
    if (!node->comes_back()) host_ = std::make_unique<ProcessWatch>(std::move(*watch));
    socket_path_ = host_path;
    memory_bytes_ = node->memory_bytes();
    say_attached(*node, flags_);
    return Found::kAttached;
  }
  const NoTalk& why = node.error();
  if (why.code == Code::kNotFound || why.code == Code::kUnavailable) return Found::kNobody;
  const bool is_hinted = why.code == Code::kPermissionDenied && flags_.tenant.empty();
  log_warning("this host's node (process {}) is not used: {}{}; this call keeps its cache for itself", why.pid,
              why.line, is_hinted ? " (--tenant names one)" : "");
  return Found::kRefused;
}

// Silent where it works: then everything is as if there were no nodes. Only the host's node has a keeper: nobody looks
// for what was left elsewhere.
Code NodeChoice::become_node(const std::string& path, bool is_host) {
  auto node = OwnNode::start(flags_, path, is_host ? NodeRole::kHost : NodeRole::kPrivate, counters_);
  if (!node) {
    const Error& why = node.error();
    if (why.code != Code::kAlreadyExists) log_warning("no memory is shared: {} ({})", why.reason, path);
    return why.code;
  }
  say_warm(**node);
  const MutexLock lock(mutex_);
  own_ = std::move(*node);
  socket_path_ = path;
  return Code::kOk;
}

void NodeChoice::choose_at(const std::string& host_path, const std::string& private_path) {
  for (int tries = 0; tries < kStartTries; ++tries) {
    const Found found = find_host(host_path);
    if (found == Found::kAttached) {
      if (host_) watch_host();
      return;
    }
    if (found == Found::kRefused) break;
    if (become_node(host_path, /*is_host=*/true) != Code::kAlreadyExists) return;
    pause_thread(kRetryNs);
  }
  become_node(private_path, /*is_host=*/false);
}

// --- when the host's node ends

void NodeChoice::watch_host() {
  Result<Poller> poller = Poller::create();
  if (!poller) return;
  poller_ = std::make_unique<Poller>(std::move(*poller));
  auto thread = start_thread("rhizome-host", [this](const std::stop_token& stop) { follow_host(stop); });
  if (thread) thread_ = std::move(*thread);
}

void NodeChoice::follow_host(const std::stop_token& stop) {
  std::array<Poller::Ready, 1> ready;
  const auto rest = [&](uint64_t nanoseconds) {
    static_cast<void>(poller_->wait(ready, monotonic_now_ns() + nanoseconds));
  };
  while (!stop.stop_requested()) {
    if (!poller_->add(host_->descriptor(), kHostToken, Poller::Interest::kRead)) return;
    while (!stop.stop_requested() && !host_->has_ended())
      rest(kTakeOverNs);
    static_cast<void>(poller_->remove(host_->descriptor()));
    rest(kGraceNs);
    while (!stop.stop_requested() && !take_over()) {
      if (!host_ || !host_->has_ended()) break;
      rest(kTakeOverNs);
    }
    const MutexLock lock(mutex_);
    if (own_ || !host_) return;
  }
}

bool NodeChoice::take_over() {
  const std::string path = socket_path_;
  const auto other = NodeInquiry::open(path, flags_.tenant, flags_.block_tokens);
  if (other) {
    auto watch = ProcessWatch::of_peer(other->socket());
    if (watch) host_ = std::make_unique<ProcessWatch>(std::move(*watch));
    if (other->comes_back()) host_.reset();
    return false;
  }
  if (other.error().pid != 0) return false;  // somebody is there, and does not take us
  auto node = OwnNode::start(flags_, path, NodeRole::kHost, counters_);
  if (!node) {
    const Error& why = node.error();
    if (why.code != Code::kAlreadyExists) log_once("host.take_over", "there is no node any more: {}", why.reason);
    return false;
  }
  log_info("the host's node has ended: this process is it now, with {} of memory", format_bytes(flags_.memory_bytes));
  say_warm(**node);
  const MutexLock lock(mutex_);
  own_ = std::move(*node);
  return true;
}

}  // namespace rhizome
