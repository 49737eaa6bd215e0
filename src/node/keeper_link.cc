#include "node/keeper_link.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include <unistd.h>

#include "machine/clock.h"
#include "machine/thread.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// A new keeper's first words, and what an old one has to say.
constexpr uint64_t kStartWaitNs = 10'000'000'000;
constexpr uint64_t kStartPollNs = 1'000'000;
constexpr uint64_t kClaimWaitNs = 5'000'000'000;
// The store waits for this.
constexpr uint64_t kTellWaitNs = 500'000'000;
constexpr uint64_t kEndWaitNs = 2'000'000'000;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::optional<KeptLabel> label_from(std::span<const std::byte> bytes) {
  std::array<std::byte, sizeof(KeptLabel)> copy{};
  if (bytes.size() != copy.size()) return std::nullopt;
  std::ranges::copy(bytes, copy.begin());
  return std::bit_cast<KeptLabel>(copy);
}

Result<LocalSocket> connect_to(const std::string& path) {
  return LocalSocket::connect(path, monotonic_now_ns() + kClaimWaitNs);
}

}  // namespace

Result<std::unique_ptr<KeeperLink>> KeeperLink::start(const KeeperOptions& options) {
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
  auto link = std::unique_ptr<KeeperLink>(new KeeperLink(std::move(*socket), std::move(child)));
  const Status claimed = link->claim();
  if (!claimed) return fail(claimed.error());
  return link;
}

Status KeeperLink::claim() {
  const Status asked = send(KeeperVerb::kClaim, {}, {}, kClaimWaitNs);
  if (!asked) return asked;
  const MutexLock lock(mutex_);
  std::array<std::byte, 1 + kKeeperLabelBytesMax> room{};
  for (;;) {
    Result<ReceivedMessage> message = socket_.receive(room, monotonic_now_ns() + kClaimWaitNs);
    if (!message) return fail(message.error());
    if (message->has_ended) return fail(Code::kUnavailable, "the keeper has hung up");
    if (static_cast<KeeperVerb>(room[0]) == KeeperVerb::kEnd) return {};
    if (message->descriptors.size() != 1) continue;
    former_.push_back({std::vector(room.begin() + 1, room.begin() + static_cast<std::ptrdiff_t>(message->bytes)),
                       std::move(message->descriptors[0])});
  }
}

std::vector<KeptMemory> KeeperLink::take(std::string_view tenant, uint32_t block_tokens) {
  const Digest wanted = sha256(bytes_of(tenant));
  std::vector<KeptMemory> taken;
  for (Former& former : former_) {
    const std::optional<KeptLabel> label = label_from(former.label);
    if (!label || label->format != KeptLabel::kFormat || label->tenant != wanted) continue;
    if (label->block_tokens != block_tokens) continue;
    Result<Mapping> memory = Mapping::adopt_shared(std::move(former.descriptor), label->bytes);
    if (!memory) {
      log_warning("memory that a former node has left is not taken: {}", memory.error().reason);
      continue;
    }
    taken.push_back({label->kind, label->life, label->number, std::move(*memory)});
  }
  return taken;
}

void KeeperLink::drop_former() {
  size_t strange = 0;
  for (Former& former : former_) {
    if (former.descriptor.is_open()) ++strange;
    tell(KeeperVerb::kDrop, former.label, {});
  }
  former_.clear();
  if (strange > 0) {
    log_info("{} pieces of memory of a former node are of another version or configuration: they are dropped", strange);
  }
}

Status KeeperLink::send(KeeperVerb verb, std::span<const std::byte> label, std::span<const int> descriptors,
                        uint64_t wait_ns) {
  std::vector<std::byte> message{static_cast<std::byte>(verb)};
  message.insert(message.end(), label.begin(), label.end());
  const uint64_t until = monotonic_now_ns() + wait_ns;
  const MutexLock lock(mutex_);
  if (!socket_.is_open()) return fail(Code::kUnavailable, "the keeper is gone");
  for (;;) {
    Status sent = socket_.send(message, until, descriptors);
    if (sent || sent.error().code != Code::kResourceExhausted || monotonic_now_ns() >= until) return sent;
    pause_thread(kStartPollNs);  // until the keeper has read some of the descriptors that are under way
  }
}

void KeeperLink::tell(KeeperVerb verb, std::span<const std::byte> label, std::span<const int> descriptors) {
  const Status told = send(verb, label, descriptors, kTellWaitNs);
  if (told) return;
  const MutexLock lock(mutex_);
  if (socket_.is_open()) give_up(told.error());
}

// Nobody waits for it a second time.
void KeeperLink::give_up(const Error& why) {
  socket_.close();
  log_warning("the keeper does not answer: this node's memory ends with it ({})", why.reason);
}

bool KeeperLink::is_there() {
  const MutexLock lock(mutex_);
  if (!socket_.is_open()) return false;
  // It says nothing unless it is asked.
  std::array<std::byte, 1 + kKeeperLabelBytesMax> room{};
  const Result<ReceivedMessage> message = socket_.receive(room, 0);
  const bool has_ended = message ? message->has_ended : message.error().code == Code::kUnavailable;
  if (has_ended) give_up({Code::kUnavailable, "it has ended"});
  return !has_ended;
}

void KeeperLink::hold(const KeptLabel& label, int descriptor) {
  tell(KeeperVerb::kHold, std::bit_cast<LabelBytes>(label), std::span(&descriptor, 1));
}

void KeeperLink::drop(const KeptLabel& label) {
  tell(KeeperVerb::kDrop, std::bit_cast<LabelBytes>(label), {});
}

void KeeperLink::end() {
  const Status told = send(KeeperVerb::kEnd, {}, {}, kTellWaitNs);
  // A child of ours would be killed before it has taken its name away.
  if (told && child_.pid() != 0) static_cast<void>(child_.wait_for(kEndWaitNs));
}

DomainKeeper::DomainKeeper(KeeperLink& link, std::string_view tenant, uint32_t block_tokens, uint64_t life)
    : link_(link), common_{.life = life, .block_tokens = block_tokens, .tenant = sha256(bytes_of(tenant))} {}

KeptLabel DomainKeeper::label_of(KeptKind kind, uint32_t number) const {
  KeptLabel label = common_;
  label.kind = kind;
  label.number = number;
  return label;
}

void DomainKeeper::keep(KeptKind kind, uint32_t number, const Mapping& memory) {
  KeptLabel label = label_of(kind, number);
  label.bytes = memory.bytes().size();
  {
    const MutexLock lock(mutex_);
    bytes_[{kind, number}] = label.bytes;
  }
  link_.hold(label, memory.descriptor());
}

void DomainKeeper::drop(KeptKind kind, uint32_t number) {
  KeptLabel label = label_of(kind, number);
  {
    const MutexLock lock(mutex_);
    const auto known = bytes_.extract({kind, number});
    if (known.empty()) return;
    label.bytes = known.mapped();
  }
  link_.drop(label);
}

}  // namespace rhizome
