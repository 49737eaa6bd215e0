#include "client/attached_client.h"

#include "codec/geometry_record.h"
#include "contract/check.h"
#include "machine/clock.h"
#include "slab/block_copy.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint64_t kReattachAfterNs = 1'000'000'000;

}  // namespace

// --- sessions

Use AttachedClient::current() {
  const Epochs::Section section(epochs_);
  return Use(*current_.load(std::memory_order_acquire));
}

Use AttachedClient::attached() {
  if (Use now = current(); now.session().is_alive()) return now;
  const MutexLock lock(mutex_);
  Attachment& last = attachments_.back();
  const uint64_t now_ns = monotonic_now_ns();
  if (last.session->is_alive() || now_ns < attached_ns_ + kReattachAfterNs) return Use(last);
  if (attached_ns_ == 0) {
    counters_.add(Counter::kNodesLost);
    log_warning("the node is gone: what it has cached is computed again until it is back");
  }
  attached_ns_ = now_ns;
  Result<std::unique_ptr<AttachedSession>> session = AttachedSession::attach(options_);
  if (!session || (*session)->block_tokens() != block_tokens_) return Use(last);
  counters_.add(Counter::kNodesFound);
  log_info("attached to the node again");
  attached_ns_ = 0;
  Attachment& begun = attachments_.emplace_back(std::move(*session), ++last_attachment_, visible_later_);
  current_.store(&begun, std::memory_order_release);
  // Whoever has read the old one before has counted his use by the end of his section.
  epochs_.wait_for_sections();
  attachments_.remove_if([&](const Attachment& old) { return &old != &begun && old.uses.load() == 0; });
  return Use(begun);
}

Result<OpenedKeyspace*> AttachedClient::open_at(Attachment& attachment, const KnownKeyspace& keyspace) {
  std::atomic<OpenedKeyspace*>& place = attachment.opened[keyspace.number];
  if (OpenedKeyspace* const known_one = place.load(std::memory_order_acquire)) return known_one;
  const MutexLock lock(attachment.mutex);
  if (OpenedKeyspace* const known_one = place.load(std::memory_order_acquire)) return known_one;
  const auto geometry = encode_geometry(keyspace.geometry);
  const auto encoding = keyspace.keyspace.encoding();
  const OpenFrame question{.keyspace = {encoding.begin(), encoding.end()},
                           .geometry = {geometry.begin(), geometry.end()}};
  const Result<OpenedFrame> reply = attachment.session->ask<OpenedFrame>(question);
  if (!reply) return fail(reply.error());
  if (reply->slot_bytes != keyspace.slot_bytes) return fail(Code::kInvalidArgument, "slots of another size");
  OpenedKeyspace& opened =
      attachment.owned.emplace_back(reply->keyspace, SharedRoot{reply->root_run, reply->root_version});
  place.store(&opened, std::memory_order_release);  // pairs with the acquires above
  return &opened;
}

Status AttachedClient::refresh_root(AttachedSession& session, OpenedKeyspace& opened) {
  const Result<OpenedFrame> reply = session.ask<OpenedFrame>(AskRootFrame{opened.number});
  if (!reply) return fail(reply.error());
  opened.set_root({reply->root_run, reply->root_version});
  return {};
}

Result<KeyspaceId> AttachedClient::open(const Keyspace& keyspace, const BlockGeometry& geometry) {
  if (!geometry.is_valid()) return fail(Code::kInvalidArgument, "a block without payload, or of no shape");
  if (geometry.tokens_count != block_tokens_) {
    return fail(Code::kInvalidArgument, "blocks of another number of tokens");
  }
  const Use now = attached();
  KnownKeyspace* own = nullptr;
  {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find(owned_, keyspace, &KnownKeyspace::keyspace);
    if (found != owned_.end() && found->geometry != geometry) {
      return fail(Code::kInvalidArgument, "the keyspace has another block shape");
    }
    if (found == owned_.end() && owned_.size() == kKeyspacesMax) {
      return fail(Code::kResourceExhausted, "too many keyspaces");
    }
    own = found != owned_.end() ? &*found
                                : &owned_.emplace_back(keyspace, geometry, static_cast<uint32_t>(owned_.size() + 1));
    keyspaces_[own->number].store(own, std::memory_order_release);  // pairs with known()
  }
  const Result<OpenedKeyspace*> opened = open_at(*now.get(), *own);
  if (!opened) return fail(opened.error());
  return KeyspaceId{own->number, 1};
}

// --- the node comes and goes

void AttachedClient::start_watching() {
  Result<Poller> poller = Poller::create();
  if (!poller) return;
  watched_ = std::make_unique<Poller>(std::move(*poller));
  Result<Thread> thread = start_thread("rhizome-attach", [this](const std::stop_token& stop) { watch(stop); });
  if (thread) watcher_ = std::move(*thread);
}

// A look-up that finds everything in what is mapped asks nobody, and the node that mapped it may be gone.
void AttachedClient::watch(const std::stop_token& stop) {
  std::array<Poller::Ready, 2> ready;
  Watched watched;
  while (!stop.stop_requested()) {
    {
      const Use now = attached();
      now.session().heed_notices();
      if (now.get()->number != watched.number) watch_session(*now.get(), watched);
    }
    {
      const MutexLock lock(mutex_);
      const Attachment& last = attachments_.back();
      attachments_.remove_if([&](const Attachment& old) { return &old != &last && old.uses.load() == 0; });
    }
    // No use is held meanwhile: it would keep a session, and what it has mapped, beyond its end.
    const Result<size_t> count = watched_->wait(ready, monotonic_now_ns() + kReattachAfterNs);
    if (!count) return;
    if (*count == 0 || !ready.front().has_ended) continue;
    static_cast<void>(watched_->remove(watched.socket.number()));
    watched.socket.reset();
    const Use now = current();
    if (now.get()->number != watched.number) continue;
    now.session().note_end();
    now.get()->commits.note_end();
  }
}

void AttachedClient::watch_session(Attachment& attachment, Watched& watched) {
  if (watched.socket.is_open()) static_cast<void>(watched_->remove(watched.socket.number()));
  watched.socket.reset();
  watched.number = attachment.number;
  Result<Descriptor> socket = attachment.session->duplicate_socket();
  if (!socket) return;
  watched.socket = std::move(*socket);
  static_cast<void>(watched_->add(watched.socket.number(), 0, Poller::Interest::kEnd));
  // Now, and not in the way of the first look-up.
  for (size_t number = 1; number < keyspaces_.size(); ++number) {
    const KnownKeyspace* const keyspace = keyspaces_[number].load(std::memory_order_acquire);  // pairs with open()
    if (keyspace == nullptr || !open_at(attachment, *keyspace)) break;
  }
}

Result<AttachedClient::NamedBlocks> AttachedClient::name_blocks(Attachment& attachment, const KnownKeyspace& keyspace,
                                                                std::span<const Token> prompt, size_t first,
                                                                size_t end) {
  const std::span<const Token> tokens = prompt.first(end * block_tokens_);
  std::optional<StagingPiece> piece = attachment.session->staging().take(tokens.size_bytes());
  if (!piece) return fail(Code::kResourceExhausted, "all of the staging memory is in use");
  copy_block_bytes(piece->bytes(), std::as_bytes(tokens));
  const Result<OpenedKeyspace*> opened = open_at(attachment, keyspace);
  if (!opened) return fail(opened.error());
  const BlocksOfPrompt blocks{.keyspace = (*opened)->number,
                              .tokens = {piece->offset(), static_cast<uint32_t>(tokens.size())},
                              .first = static_cast<uint32_t>(first),
                              .end = static_cast<uint32_t>(end)};
  return NamedBlocks{std::move(*piece), blocks};
}

Result<std::unique_ptr<Client>> make_attached_client(AttachedOptions options, Counters& counters) {
  Result<std::unique_ptr<AttachedSession>> session = AttachedSession::attach(options);
  if (!session) return fail(session.error());
  auto client = std::make_unique<AttachedClient>(std::move(options), std::move(*session), counters);
  client->start_watching();
  return client;
}

}  // namespace rhizome
