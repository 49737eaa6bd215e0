// A client of a node in another process: looks up and reads by itself in what it has mapped, and asks for the rest.
#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <optional>
#include <stop_token>
#include <unordered_map>
#include <utility>

#include "block/checksum.h"
#include "block/identity.h"
#include "client/attached_session.h"
#include "client/client.h"
#include "codec/geometry_record.h"
#include "concurrency/epochs.h"
#include "contract/check.h"
#include "machine/clock.h"
#include "machine/descriptor.h"
#include "machine/poller.h"
#include "machine/thread.h"
#include "slab/block_copy.h"
#include "telemetry/counters.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint32_t kKeyspacesMax = 4096;
constexpr uint64_t kReattachAfterNs = 1'000'000'000;
// How often a block that is being loaded is looked for: at first, and at most.
constexpr uint64_t kLookAgainNs = 50'000;
constexpr uint64_t kLookAgainMostNs = 2'000'000;
constexpr uint64_t kAskAgainNs = 250'000'000;
// How long to sleep for blocks that somebody computes, of a node that may have been killed.
constexpr uint64_t kLookAgainWaitingNs = 250'000'000;

uint64_t pack(SharedRoot root) {
  return uint64_t{root.ver} << 32 | root.run;
}
SharedRoot unpack(uint64_t packed) {
  return {static_cast<uint32_t>(packed), static_cast<uint32_t>(packed >> 32)};
}

// A keyspace in one session.
struct OpenedKeyspace {
  OpenedKeyspace(KeyspaceNumber at_node, SharedRoot begins) : number(at_node), root(pack(begins)) {}

  const KeyspaceNumber number;
  std::atomic<uint64_t> root;  // packed
};

// A session, and what is known of it.
struct Attachment {
  Attachment(std::unique_ptr<AttachedSession> begun, uint64_t own_number)
      : session(std::move(begun)), number(own_number) {}

  const std::unique_ptr<AttachedSession> session;
  const uint64_t number;  // among those of this client
  std::atomic<uint32_t> uses{0};
  std::array<std::atomic<OpenedKeyspace*>, kKeyspacesMax + 1> opened{};  // by the client's number of the keyspace
  Mutex mutex;
  std::deque<OpenedKeyspace> owned GUARDED_BY(mutex);
};

// Keeps an attachment: once another one has begun it ends with its last use.
class Use {
 public:
  Use() = default;
  explicit Use(Attachment& used) : used_(&used) { used.uses.fetch_add(1, std::memory_order_acq_rel); }
  ~Use() { reset(); }
  Use(Use&& other) noexcept : used_(std::exchange(other.used_, nullptr)) {}
  Use& operator=(Use&& other) noexcept {
    if (this != &other) {
      reset();
      used_ = std::exchange(other.used_, nullptr);
    }
    return *this;
  }

  Attachment* get() const { return used_; }
  AttachedSession& session() const { return *used_->session; }
  void reset() {
    if (Attachment* const used = std::exchange(used_, nullptr)) used->uses.fetch_sub(1, std::memory_order_acq_rel);
  }

 private:
  Attachment* used_ = nullptr;
};

// A keyspace as this process knows it, whatever the session.
struct KnownKeyspace {
  KnownKeyspace(const Keyspace& opened, const BlockGeometry& shape, uint32_t own_number)
      : keyspace(opened),
        geometry(shape),
        number(own_number),
        root_key(rhizome::root_key(opened.digest())),
        identity_bytes(rhizome::identity_bytes(shape.tokens_count)),
        slot_bytes(identity_bytes + shape.raw_bytes()) {}

  const Keyspace keyspace;
  const BlockGeometry geometry;
  const uint32_t number;
  const BlockKey root_key;
  const uint64_t identity_bytes;
  const uint64_t slot_bytes;
};

}  // namespace

class AttachedClient final : public Client {
 public:
  AttachedClient(AttachedOptions options, std::unique_ptr<AttachedSession> session, Counters& counters)
      : options_(std::move(options)), counters_(counters), block_tokens_(session->block_tokens()) {
    current_.store(&attachments_.emplace_back(std::move(session), ++last_attachment_), std::memory_order_release);
  }
  ~AttachedClient() override {
    if (watcher_.joinable()) {
      watcher_.request_stop();
      watched_->wake();
      watcher_.join();
    }
    const MutexLock lock(mutex_);
    RHIZOME_CHECK(drafts_.empty());
  }

  // Notices the end of the node, and its return, without being asked. Where there is no thread to be had, calls do.
  void start_watching();

  uint32_t block_tokens() const override { return block_tokens_; }
  Result<KeyspaceId> open(const Keyspace& keyspace, const BlockGeometry& geometry) override;
  void lookup(KeyspaceId keyspace, std::span<const Token> prompt, Hit& hit) override;
  size_t peek(KeyspaceId keyspace, std::span<const Token> prompt) override;
  size_t promote(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) override;
  LoadSplit plan(const Hit& hit, std::span<const Token> prompt, size_t first, size_t end) override;
  size_t load(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) override {
    return promote(hit, prompt, first, end);
  }
  Result<std::span<const std::byte>> read(Hit& hit, std::span<const Token> prompt, size_t i) override;
  Result<Draft> reserve(KeyspaceId keyspace, std::span<const Token> tokens, uint32_t first_block) override;
  size_t commit(Draft draft) override;
  Reason explain(KeyspaceId keyspace, std::span<const Token> prompt) override;
  bool is_shared() const override { return true; }
  Announcement announce(KeyspaceId keyspace, std::span<const Token> prompt, size_t first, size_t end,
                        uint64_t patience_ns) override;
  Arrival wait(KeyspaceId keyspace, std::span<const Token> prompt, size_t more_than, uint64_t deadline_ns) override;
  void observe_compute(uint64_t tokens, uint64_t before, double seconds) override;
  // The node writes what is worth it, and lives on.
  void flush(uint64_t) override {}

 protected:
  void abort_draft(uint64_t id) override {
    const MutexLock lock(mutex_);
    drafts_.erase(id);
  }
  void withdraw_claim(uint64_t claim, uint64_t session) override;

 private:
  class AttachedHit;
  struct Written {
    Use use;  // longer than the piece, whose memory it keeps
    StagingPiece piece;
    KnownKeyspace* keyspace = nullptr;
    uint32_t first_block = 0;
    uint32_t blocks_count = 0;
    uint64_t payloads_offset = 0;
    uint32_t tokens_count = 0;
  };

  KnownKeyspace* known(KeyspaceId keyspace) const {
    return keyspace.value == 0 || keyspace.value > kKeyspacesMax
               ? nullptr
               : keyspaces_[keyspace.value].load(std::memory_order_acquire);  // pairs with open()
  }
  static AttachedHit* state_of(const Hit& hit);
  // The last session that was begun, broken or not. Waits for nobody.
  Use current();
  // The same, or a new one when that is broken and it is time to try.
  Use attached() EXCLUDES(mutex_);
  // Makes the keyspace known to that session.
  Result<OpenedKeyspace*> open_at(Attachment& attachment, const KnownKeyspace& keyspace);
  Status refresh_root(AttachedSession& session, OpenedKeyspace& opened);
  Identity identity_of(const KnownKeyspace& keyspace, std::span<const Token> prompt, size_t block,
                       const BlockKey& parent) const;
  void watch(const std::stop_token& stop);
  // Of which session this is the socket; what the node is told of each new one.
  struct Watched {
    uint64_t number = UINT64_MAX;
    Descriptor socket;
  };
  void watch_session(Attachment& attachment, Watched& watched);
  void end_before(Hit& hit, AttachedHit& state, size_t block, Reason reason);
  void report(AttachedHit& state, std::span<const Token> prompt, size_t block);
  // Blocks of a prompt, as a question names them; the tokens are in staging memory while `piece` lives.
  struct NamedBlocks {
    StagingPiece piece;
    BlocksOfPrompt blocks;
  };
  Result<NamedBlocks> name_blocks(Attachment& attachment, const KnownKeyspace& keyspace, std::span<const Token> prompt,
                                  size_t first, size_t end);
  std::optional<Written> take_room(Use use, KnownKeyspace& keyspace, std::span<const Token> tokens,
                                   uint32_t first_block);

  const AttachedOptions options_;
  Counters& counters_;
  const uint32_t block_tokens_;
  std::array<std::atomic<KnownKeyspace*>, kKeyspacesMax + 1> keyspaces_{};
  Epochs epochs_;  // of sections in which current_ is read, until the use is counted
  std::atomic<Attachment*> current_{nullptr};

  Mutex mutex_;
  std::deque<KnownKeyspace> owned_ GUARDED_BY(mutex_);
  std::list<Attachment> attachments_ GUARDED_BY(mutex_);  // the last one is current
  uint64_t last_attachment_ GUARDED_BY(mutex_) = 0;
  uint64_t attached_ns_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, Written> drafts_ GUARDED_BY(mutex_);
  uint64_t last_draft_ GUARDED_BY(mutex_) = 0;

  std::unique_ptr<Poller> watched_;
  Thread watcher_;
};

// A hit's hazard slot and what was found with it.
class AttachedClient::AttachedHit final : public HitState {
 public:
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  ~AttachedHit() override { detach(); }

  void release() override {
    if (run != 0) use.session().lease().clear(slot);
    run = 0;
    locations.clear();
    was_asked_for.clear();
    loads_failed.clear();
    deadline_ns = 0;
    key_block = 0;
  }
  // False: all slots of the session are taken.
  bool attach_to(Use now) {
    if (use.get() != now.get()) {
      detach();
      use = std::move(now);
    }
    if (slot == kNoSlot) slot = use.session().lease().acquire_slot().value_or(kNoSlot);
    return slot != kNoSlot;
  }

  Use use;
  uint32_t slot = kNoSlot;
  KnownKeyspace* keyspace = nullptr;
  uint32_t run = 0;
  std::vector<Location> locations;
  std::vector<bool> was_asked_for;     // by block, as far as any was: not in memory when it was promoted
  std::vector<uint32_t> loads_failed;  // of these, before they were asked for
  uint64_t deadline_ns = 0;            // of loads that were asked for
  // The key of the block before `key_block`: reading in order, each is one step from the last.
  BlockKey key;
  size_t key_block = 0;

 private:
  void detach() {
    release();
    if (slot != kNoSlot) use.session().lease().give_back(slot);
    slot = kNoSlot;
    use.reset();
  }
};

AttachedClient::AttachedHit* AttachedClient::state_of(const Hit& hit) {
  return static_cast<AttachedHit*>(hit.state_.get());
}

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
  Attachment& begun = attachments_.emplace_back(std::move(*session), ++last_attachment_);
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
  opened.root.store(pack({reply->root_run, reply->root_version}), std::memory_order_relaxed);
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
    if (now.get()->number == watched.number) now.session().note_end();
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

// --- look-ups

void AttachedClient::lookup(KeyspaceId id, std::span<const Token> prompt, Hit& hit) {
  hit.release();
  if (hit.client_ != this) {
    hit.state_ = std::make_unique<AttachedHit>();
    hit.client_ = this;
  }
  KnownKeyspace* const keyspace = known(id);
  hit.reason_ = Reason::kNotCacheable;
  if (keyspace == nullptr) return;
  AttachedHit& state = *state_of(hit);
  hit.reason_ = Reason::kQuota;
  if (!state.attach_to(current())) return;
  hit.reason_ = Reason::kNeverStored;
  AttachedSession& session = state.use.session();
  if (!session.may_read()) return;
  session.heed_notices();
  const Result<OpenedKeyspace*> opened = open_at(*state.use.get(), *keyspace);
  if (!opened) return;
  state.keyspace = keyspace;
  state.locations.resize(prompt.size() / block_tokens_);
  HazardSlot& slot = session.lease().word(state.slot);
  const auto look = [&] {
    return session.cache().index().lookup(unpack((*opened)->root.load(std::memory_order_relaxed)), prompt,
                                          state.locations, slot);
  };
  RemoteMatch match = look();
  if (match.root_is_stale && refresh_root(session, **opened)) match = look();
  state.locations.resize(match.blocks);
  state.run = match.run;
  hit.blocks_ = match.blocks;
  if (match.run != 0) session.lease().note_touch(match.run, static_cast<uint32_t>(coarse_now_ticks()));
  if (match.blocks == prompt.size() / block_tokens_) {
    hit.reason_ = prompt.size() % block_tokens_ == 0 ? Reason::kFull : Reason::kPartialBlock;
  }
}

size_t AttachedClient::peek(KeyspaceId id, std::span<const Token> prompt) {
  KnownKeyspace* const keyspace = known(id);
  if (keyspace == nullptr) return 0;
  const Use now = current();
  if (!now.session().may_read()) return 0;
  const Result<OpenedKeyspace*> opened = open_at(*now.get(), *keyspace);
  if (!opened) return 0;
  const IndexReader& index = now.session().cache().index();
  const auto root = [&] { return unpack((*opened)->root.load(std::memory_order_relaxed)); };
  if (!index.is_current(root()) && !refresh_root(now.session(), **opened)) return 0;
  return size_t{index.peek(root(), prompt)} * block_tokens_;
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

size_t AttachedClient::promote(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) {
  AttachedHit* const state = state_of(hit);
  end = std::min({end, hit.blocks_, prompt.size() / block_tokens_});
  if (state == nullptr || first >= end) return end;
  AttachedSession& session = state->use.session();
  const auto look = [&](size_t block) {
    const auto found = session.cache().find(state->locations[block], state->keyspace->slot_bytes);
    return found ? *found : MappedCache::Block();
  };
  // Mostly all are here, and nothing is to be done or remembered.
  size_t missing = first;
  while (missing < end && look(missing).is_here())
    ++missing;
  if (missing == end) return end;
  std::vector<MappedCache::Block> before;
  for (size_t block = missing; block < end; ++block)
    before.push_back(look(block));
  const Result<NamedBlocks> named = name_blocks(*state->use.get(), *state->keyspace, prompt, missing, end);
  if (!named) return missing;
  const Result<LoadingFrame> loading = session.ask<LoadingFrame>(LoadFrame{named->blocks});
  if (!loading) return missing;
  state->was_asked_for.resize(hit.blocks_);
  state->loads_failed.resize(hit.blocks_);
  // What the node does not load is not waited for.
  const size_t loads_end = std::clamp<size_t>(loading->end, missing, end);
  for (size_t block = missing; block < loads_end; ++block) {
    if (before[block - missing].is_here()) continue;
    state->was_asked_for[block] = true;
    state->loads_failed[block] = before[block - missing].loads_failed;
  }
  state->deadline_ns = std::max(state->deadline_ns, loading->deadline_ns);
  return loads_end;
}

// The node weighs loads against computing; who attaches loads all that promote() says.
LoadSplit AttachedClient::plan(const Hit& hit, std::span<const Token> prompt, size_t first, size_t end) {
  end = std::min({end, hit.blocks_count(), prompt.size() / block_tokens_});
  LoadSplit split{.compute_from = end, .load_from = end, .end = end};
  const AttachedHit* const state = state_of(hit);
  if (state == nullptr) return split;
  for (size_t block = first; block < end; ++block) {
    const auto found = state->use.session().cache().find(state->locations[block], state->keyspace->slot_bytes);
    if (found && found->is_here()) continue;
    if (split.load_tokens == 0) split.compute_from = split.load_from = block;
    split.load_tokens += block_tokens_;
  }
  return split;
}

Identity AttachedClient::identity_of(const KnownKeyspace& keyspace, std::span<const Token> prompt, size_t block,
                                     const BlockKey& parent) const {
  return {.keyspace = keyspace.keyspace.digest(),
          .parent = parent,
          .position = static_cast<uint32_t>(block * block_tokens_),
          .tokens = prompt.subspan(block * block_tokens_, block_tokens_)};
}

void AttachedClient::end_before(Hit& hit, AttachedHit& state, size_t block, Reason reason) {
  state.locations.resize(block);
  hit.blocks_ = block;
  hit.reason_ = reason;
}

// The node believes what it finds itself, and so does whoever looks next.
void AttachedClient::report(AttachedHit& state, std::span<const Token> prompt, size_t block) {
  const Result<NamedBlocks> named = name_blocks(*state.use.get(), *state.keyspace, prompt, block, block + 1);
  if (named) static_cast<void>(state.use.session().ask<ReportedFrame>(ReportFrame{named->blocks}));
}

Result<std::span<const std::byte>> AttachedClient::read(Hit& hit, std::span<const Token> prompt, size_t i) {
  AttachedHit* const state = state_of(hit);
  if (state == nullptr || i >= hit.blocks_) return fail(Code::kOutOfRange, "the hit has no such block");
  if (prompt.size() / block_tokens_ <= i) return fail(Code::kOutOfRange, "the prompt has no such block");
  AttachedSession& session = state->use.session();
  const KnownKeyspace& keyspace = *state->keyspace;
  const auto find = [&]() -> Result<MappedCache::Block> {
    auto block = session.cache().find(state->locations[i], keyspace.slot_bytes);
    // What says where blocks are comes with the first of them that is in memory.
    if (!block && block.error().code == Code::kNotFound) return MappedCache::Block{};
    return block;
  };
  auto found = find();
  if (found && !found->is_here()) {
    if (i >= state->was_asked_for.size() || !state->was_asked_for[i]) promote(hit, prompt, i, i + 1);
    const uint64_t deadline_ns = state->deadline_ns;
    const auto comes = [&](uint64_t now_ns) {
      return i < state->was_asked_for.size() && state->was_asked_for[i] && session.is_alive() &&
             found->loads_failed == state->loads_failed[i] && now_ns < deadline_ns;
    };
    uint64_t now_ns = monotonic_now_ns();
    uint64_t ask_again_ns = now_ns + kAskAgainNs;
    for (uint64_t rest = kLookAgainNs; found && !found->is_here() && comes(now_ns);
         rest = std::min(2 * rest, kLookAgainMostNs)) {
      pause_thread(rest);
      now_ns = monotonic_now_ns();
      if (now_ns >= ask_again_ns) {
        // A node that is gone does not say that nothing comes.
        static_cast<void>(promote(hit, prompt, i, i + 1));
        ask_again_ns = now_ns + kAskAgainNs;
      }
      found = find();
    }
  }
  if (!found || !found->is_here()) {
    end_before(hit, *state, i, Reason::kLoadFailed);
    return fail(Code::kUnavailable, "the block is not in memory");
  }
  if (state->key_block == 0 || state->key_block > i) {
    state->key = keyspace.root_key;
    state->key_block = 0;
  }
  for (; state->key_block < i; ++state->key_block)
    state->key = next_key(state->key, prompt.subspan(state->key_block * block_tokens_, block_tokens_));
  const std::span<const std::byte> bytes = found->bytes;
  const bool sound = checksum(bytes) == found->checksum;
  const bool asked_for =
      sound && identity_matches(bytes.first(keyspace.identity_bytes), identity_of(keyspace, prompt, i, state->key));
  // A node that gave this client up may have used the bytes for something else: then neither says anything.
  if (session.notice().was_revoked_since(0)) {
    end_before(hit, *state, i, Reason::kLoadFailed);
    return fail(Code::kUnavailable, "the node has ended the session");
  }
  if (asked_for) {
    if (i < state->was_asked_for.size() && state->was_asked_for[i]) {
      state->was_asked_for[i] = false;
      ++hit.loaded_;
    }
    return bytes.subspan(keyspace.identity_bytes);
  }
  counters_.add(sound ? Counter::kIdentityMismatches : Counter::kChecksumFailures);
  report(*state, prompt, i);
  end_before(hit, *state, i, Reason::kCorrupt);
  return fail(Code::kDataLoss, "a stored block did not verify");
}

// --- stores

// Room for the tokens and for as many of the blocks as there is; nothing: not even for one.
std::optional<AttachedClient::Written> AttachedClient::take_room(Use use, KnownKeyspace& keyspace,
                                                                 std::span<const Token> tokens, uint32_t first_block) {
  const uint64_t payload_bytes = keyspace.slot_bytes - keyspace.identity_bytes;
  for (uint64_t blocks = tokens.size() / block_tokens_ - first_block; blocks > 0; blocks /= 2) {
    const uint64_t tokens_count = (first_block + blocks) * block_tokens_;
    const uint64_t payloads_at = (tokens_count * sizeof(Token) + StagingArea::kAlignment - 1) /
                                 StagingArea::kAlignment * StagingArea::kAlignment;
    std::optional<StagingPiece> piece = use.session().staging().take(payloads_at + blocks * payload_bytes);
    if (!piece) continue;
    copy_block_bytes(piece->bytes().first(tokens_count * sizeof(Token)), std::as_bytes(tokens.first(tokens_count)));
    Written written;
    written.use = std::move(use);
    written.piece = std::move(*piece);
    written.keyspace = &keyspace;
    written.first_block = first_block;
    written.blocks_count = static_cast<uint32_t>(blocks);
    written.payloads_offset = payloads_at;
    written.tokens_count = static_cast<uint32_t>(tokens_count);
    return written;
  }
  return std::nullopt;
}

Result<Draft> AttachedClient::reserve(KeyspaceId id, std::span<const Token> tokens, uint32_t first_block) {
  KnownKeyspace* const keyspace = known(id);
  const size_t blocks = tokens.size() / block_tokens_;
  if (keyspace == nullptr) return fail(Code::kInvalidArgument, "keyspace not opened");
  if (tokens.size() % block_tokens_ != 0 || first_block > blocks || blocks > UINT32_MAX) {
    return fail(Code::kInvalidArgument, "not a whole number of blocks, or fewer than first_block");
  }
  Use now = attached();
  if (!now.session().is_alive()) return fail(Code::kUnavailable, "the node is gone");
  const auto stored = static_cast<uint32_t>(peek(id, tokens) / block_tokens_);
  if (stored < first_block) return fail(Code::kFailedPrecondition, "a block before is not stored");
  Draft draft;
  draft.first_block_ = stored;
  if (stored == blocks) return draft;
  std::optional<Written> written = take_room(std::move(now), *keyspace, tokens, stored);
  if (!written) return fail(Code::kResourceExhausted, "all of the staging memory is in use");
  const uint64_t payload_bytes = keyspace->slot_bytes - keyspace->identity_bytes;
  for (uint64_t i = 0; i < written->blocks_count; ++i) {
    draft.payloads_.push_back(
        written->piece.bytes().subspan(written->payloads_offset + i * payload_bytes, payload_bytes));
  }
  draft.client_ = this;
  const MutexLock lock(mutex_);
  draft.id_ = ++last_draft_;
  drafts_.emplace(draft.id_, std::move(*written));
  return draft;
}

size_t AttachedClient::commit(Draft draft) {
  if (draft.client_ == nullptr) return 0;
  RHIZOME_CHECK(draft.client_ == this);
  draft.client_ = nullptr;
  draft.payloads_.clear();
  Written written;
  {
    const MutexLock lock(mutex_);
    const auto found = drafts_.find(draft.id_);
    RHIZOME_CHECK(found != drafts_.end());
    written = std::move(found->second);
    drafts_.erase(found);
  }
  const Result<OpenedKeyspace*> opened = open_at(*written.use.get(), *written.keyspace);
  if (!opened) return 0;
  const uint64_t offset = written.piece.offset();
  const CommitFrame question{.keyspace = (*opened)->number,
                             .tokens = {offset, written.tokens_count},
                             .first_block = written.first_block,
                             .blocks_count = written.blocks_count,
                             .payloads_offset = offset + written.payloads_offset};
  const Result<CommittedFrame> committed = written.use.session().ask<CommittedFrame>(question);
  return committed ? committed->visible_count : 0;
}

// --- what the node is asked and told besides

Reason AttachedClient::explain(KeyspaceId id, std::span<const Token> prompt) {
  const KnownKeyspace* const keyspace = known(id);
  if (keyspace == nullptr) return Reason::kNotCacheable;
  const Use now = attached();
  // Also what is behind the last whole block: that may be the reason.
  std::optional<StagingPiece> piece;
  if (!prompt.empty()) piece = now.session().staging().take(prompt.size_bytes());
  if (!prompt.empty() && !piece) return Reason::kQuota;
  if (piece) copy_block_bytes(piece->bytes(), std::as_bytes(prompt));
  const Result<OpenedKeyspace*> opened = open_at(*now.get(), *keyspace);
  if (!opened) return Reason::kOff;
  const StagedTokens tokens{piece ? piece->offset() : 0, static_cast<uint32_t>(prompt.size())};
  const Result<ExplainedFrame> explained = now.session().ask<ExplainedFrame>(ExplainFrame{(*opened)->number, tokens});
  return explained ? explained->reason : Reason::kOff;
}

// It is lost rather than waited for.
void AttachedClient::observe_compute(uint64_t tokens, uint64_t before, double seconds) {
  if (tokens > UINT32_MAX || before > UINT32_MAX || !(seconds > 0 && seconds < 1e6)) return;
  current().session().tell(
      ObserveFrame{static_cast<uint32_t>(tokens), static_cast<uint32_t>(before), static_cast<uint64_t>(seconds * 1e9)},
      0);
}

// --- what is being computed

Announcement AttachedClient::announce(KeyspaceId id, std::span<const Token> prompt, size_t first, size_t end,
                                      uint64_t patience_ns) {
  Announcement announcement;
  const KnownKeyspace* const keyspace = known(id);
  end = std::min(end, prompt.size() / block_tokens_);
  if (keyspace == nullptr || first >= end || end > UINT32_MAX) return announcement;
  const Use now = attached();
  const Result<NamedBlocks> named = name_blocks(*now.get(), *keyspace, prompt, first, end);
  if (!named) return announcement;
  const Result<ClaimedFrame> claimed = now.session().ask<ClaimedFrame>(AnnounceFrame{named->blocks, patience_ns});
  if (!claimed) return announcement;
  announcement.end_block_ = std::min<size_t>(claimed->end, end);
  if (claimed->claim == 0) return announcement;
  announcement.client_ = this;
  announcement.claim_ = claimed->claim;
  announcement.session_ = now.get()->number;
  return announcement;
}

// A claim ends with its session.
void AttachedClient::withdraw_claim(uint64_t claim, uint64_t session) {
  const Use now = current();
  if (now.get()->number == session) now.session().tell(WithdrawFrame{claim}, now.session().reply_wait_ns());
}

Arrival AttachedClient::wait(KeyspaceId id, std::span<const Token> prompt, size_t more_than, uint64_t deadline_ns) {
  Arrival arrival;
  const KnownKeyspace* const keyspace = known(id);
  if (keyspace == nullptr || more_than >= prompt.size() / block_tokens_) {
    arrival.blocks = peek(id, prompt) / block_tokens_;
    return arrival;
  }
  const Use now = current();
  AttachedSession& session = now.session();
  Result<NamedBlocks> named = fail(Code::kUnknown, "");
  for (;;) {
    // Before the look and the question: what changes behind them is not slept through.
    const uint32_t noted = session.notice().stirrings();
    arrival = {.blocks = peek(id, prompt) / block_tokens_};
    if (arrival.blocks > more_than) return arrival;
    if (!named) named = name_blocks(*now.get(), *keyspace, prompt, more_than, more_than + 1);
    if (!named) return arrival;
    const Result<WaitedFrame> waited = session.ask<WaitedFrame>(WaitFrame{named->blocks, deadline_ns});
    if (!waited || waited->why == WaitOutcome::kNobody) return arrival;
    if (waited->why == WaitOutcome::kMoreBlocks) {
      // The node has seen more; this client may look at a run that is just being changed.
      arrival.blocks = std::max<size_t>(waited->end, peek(id, prompt) / block_tokens_);
      return arrival;
    }
    arrival.is_computed = true;
    const uint64_t now_ns = monotonic_now_ns();
    if (now_ns >= deadline_ns) return arrival;
    session.notice().sleep_until_stirred(noted,
                                         std::min({deadline_ns, waited->until_ns, now_ns + kLookAgainWaitingNs}));
  }
}

Result<std::unique_ptr<Client>> make_attached_client(AttachedOptions options, Counters& counters) {
  Result<std::unique_ptr<AttachedSession>> session = AttachedSession::attach(options);
  if (!session) return fail(session.error());
  auto client = std::make_unique<AttachedClient>(std::move(options), std::move(*session), counters);
  client->start_watching();
  return client;
}

}  // namespace rhizome
