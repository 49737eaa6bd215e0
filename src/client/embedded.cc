#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "block/identity.h"
#include "client/client.h"
#include "client/visible_later.h"
#include "concurrency/mutex.h"
#include "contract/check.h"
#include "machine/clock.h"
#include "machine/thread.h"
#include "node/contexts.h"
#include "node/flights.h"
#include "store/store.h"

namespace rhizome {

namespace {

Root root_of(KeyspaceId keyspace) {
  return {keyspace.value, keyspace.generation};
}

constexpr uint64_t kOwner = 1;
// So that a clock that is not the machine's is asked now and then.
constexpr uint64_t kSleepNsMax = 250'000'000;

}  // namespace

class EmbeddedHit final : public HitState {
 public:
  void release() override { prefix.release(); }

  StoredPrefix prefix;
};

// A client whose store is in this process. Its keyspace ids are the store's roots.
class EmbeddedClient final : public Client {
 public:
  EmbeddedClient(std::unique_ptr<Store> store, const Clock& clock, VerifyPolicy verify)
      : store_(std::move(store)), clock_(clock), sampler_(verify), flights_(store_->block_tokens()) {
    flights_.enter(kOwner, [] {});  // who waits here sleeps on flights_changed_
  }
  ~EmbeddedClient() override;

  uint32_t block_tokens() const override { return store_->block_tokens(); }
  Result<KeyspaceId> open(const Keyspace& keyspace, const BlockGeometry& geometry) override;
  void lookup(KeyspaceId keyspace, std::span<const Token> prompt, Hit& hit) override;
  size_t peek(KeyspaceId keyspace, std::span<const Token> prompt) override;
  size_t promote(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) override;
  LoadSplit plan(const Hit& hit, std::span<const Token> prompt, size_t first, size_t end) override;
  size_t load(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) override;
  Result<std::span<const std::byte>> read(Hit& hit, std::span<const Token> prompt, size_t i) override;
  Result<Draft> reserve(KeyspaceId keyspace, std::span<const Token> tokens, uint32_t first_block) override;
  size_t commit(Draft draft) override;
  void commit_later(Draft draft) override {
    const uint64_t payload_bytes = draft.blocks_count() == 0 ? 0 : draft.payload(0).size();
    visible_later_.add(commit(std::move(draft)), payload_bytes);
  }
  Settled settle() override { return visible_later_.take(); }
  Reason explain(KeyspaceId keyspace, std::span<const Token> prompt) override;
  bool is_shared() const override { return false; }
  Announcement announce(KeyspaceId keyspace, std::span<const Token> prompt, size_t first, size_t end,
                        uint64_t patience_ns) override;
  Arrival wait(KeyspaceId keyspace, std::span<const Token> prompt, size_t more_than, uint64_t deadline_ns) override;
  Result<ContextHandle> publish(KeyspaceId keyspace, std::span<const Token> prompt, const ContextTerms& terms) override;
  Result<Context> adopt(const ContextHandle& handle) override;
  Status unpublish(const ContextHandle& handle) override;
  void observe_compute(uint64_t tokens, uint64_t before, double seconds) override {
    store_->observe_compute(tokens, before, seconds);
  }
  void flush(uint64_t wait_ns) override { store_->flush(clock_.monotonic_ns() + wait_ns); }

 protected:
  void abort_draft(uint64_t id) override;
  void withdraw_claim(uint64_t claim, uint64_t session) override;

 private:
  // A draft, and what it is of, where somebody may wait for it.
  struct Written {
    BlockDraft draft;
    Root root = {};
    std::vector<Token> tokens = {};
  };

  // Null for a hit that was never looked up with.
  StoredPrefix* prefix_of(const Hit& hit) const;
  static void update(Hit& hit, const StoredPrefix& prefix);
  Written take_draft(uint64_t id);
  void drop_late_contexts() EXCLUDES(contexts_mutex_);

  const std::unique_ptr<Store> store_;
  const Clock& clock_;
  ReadSampler sampler_;
  Mutex mutex_;
  std::unordered_map<uint64_t, Written> drafts_ GUARDED_BY(mutex_);
  uint64_t last_draft_ GUARDED_BY(mutex_) = 0;
  VisibleLater visible_later_;

  // All users of this client are one owner. Nobody waits but for a claim, so without one there is nobody to be told.
  Mutex flights_mutex_;
  CondVar flights_changed_;
  Flights flights_ GUARDED_BY(flights_mutex_);
  std::atomic<bool> has_claims_{false};

  Mutex contexts_mutex_;
  Contexts contexts_ GUARDED_BY(contexts_mutex_);
  std::atomic<bool> has_contexts_{false};
};

Result<std::unique_ptr<Client>> make_embedded_client(EmbeddedOptions options, Counters& counters) {
  if (options.tier == nullptr) options.tier = open_disk(options.disk, options.tiering);
  const Clock& clock = options.tiering.clock != nullptr ? *options.tiering.clock : real_clock();
  Result<std::unique_ptr<Store>> store = Store::create({.memory_bytes = options.memory_bytes,
                                                        .block_tokens = options.block_tokens,
                                                        .tier = std::move(options.tier),
                                                        .tiering = options.tiering},
                                                       counters);
  if (!store) return fail(store.error());
  return std::make_unique<EmbeddedClient>(std::move(*store), clock, options.verify);
}

EmbeddedClient::~EmbeddedClient() {
  MutexLock lock(mutex_);
  RHIZOME_CHECK(drafts_.empty());
}

Result<KeyspaceId> EmbeddedClient::open(const Keyspace& keyspace, const BlockGeometry& geometry) {
  const Result<Root> root = store_->open(keyspace, geometry);
  if (!root) return fail(root.error());
  return KeyspaceId{root->value, root->generation};
}

StoredPrefix* EmbeddedClient::prefix_of(const Hit& hit) const {
  RHIZOME_CHECK(hit.client_ == nullptr || hit.client_ == this);
  return hit.state_ == nullptr ? nullptr : &static_cast<EmbeddedHit&>(*hit.state_).prefix;
}

void EmbeddedClient::update(Hit& hit, const StoredPrefix& prefix) {
  hit.blocks_ = prefix.blocks();
  hit.loaded_ = prefix.loaded_blocks();
  hit.reason_ = prefix.reason();
}

void EmbeddedClient::lookup(KeyspaceId keyspace, std::span<const Token> prompt, Hit& hit) {
  hit.release();
  if (hit.client_ != this) {
    hit.state_ = std::make_unique<EmbeddedHit>();
    hit.client_ = this;
  }
  StoredPrefix& prefix = *prefix_of(hit);
  hit.check_ = sampler_.next();
  store_->lookup(root_of(keyspace), prompt, prefix);
  update(hit, prefix);
}

size_t EmbeddedClient::peek(KeyspaceId keyspace, std::span<const Token> prompt) {
  return size_t{store_->peek(root_of(keyspace), prompt)} * store_->block_tokens();
}

size_t EmbeddedClient::promote(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) {
  StoredPrefix* const prefix = prefix_of(hit);
  end = std::min(end, hit.blocks_);
  if (prefix == nullptr || first >= end) return end;
  end = store_->promote(*prefix, prompt, static_cast<uint32_t>(first), static_cast<uint32_t>(end));
  update(hit, *prefix);
  return end;
}

LoadSplit EmbeddedClient::plan(const Hit& hit, std::span<const Token> prompt, size_t first, size_t end) {
  const StoredPrefix* const prefix = prefix_of(hit);
  end = std::min(end, hit.blocks_);
  if (prefix == nullptr || first >= end) return {.compute_from = end, .load_from = end, .end = end};
  return store_->plan(*prefix, prompt, static_cast<uint32_t>(first), static_cast<uint32_t>(end));
}

size_t EmbeddedClient::load(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) {
  StoredPrefix* const prefix = prefix_of(hit);
  end = std::min(end, hit.blocks_);
  if (prefix == nullptr || first >= end) return end;
  end = store_->load(*prefix, prompt, static_cast<uint32_t>(first), static_cast<uint32_t>(end));
  update(hit, *prefix);
  return end;
}

Result<std::span<const std::byte>> EmbeddedClient::read(Hit& hit, std::span<const Token> prompt, size_t i) {
  StoredPrefix* const prefix = prefix_of(hit);
  if (prefix == nullptr || i >= hit.blocks_) return fail(Code::kOutOfRange, "the hit has no such block");
  const auto bytes = store_->read(*prefix, prompt, static_cast<uint32_t>(i), hit.check_);
  update(hit, *prefix);
  return bytes;
}

Result<Draft> EmbeddedClient::reserve(KeyspaceId keyspace, std::span<const Token> tokens, uint32_t first_block) {
  // What a context that is over keeps is in the way of nobody else.
  if (has_contexts_.load(std::memory_order_relaxed)) drop_late_contexts();
  Result<BlockDraft> reserved = store_->reserve(root_of(keyspace), tokens, first_block);
  if (!reserved) return fail(reserved.error());
  Draft draft;
  draft.first_block_ = reserved->first_block();
  for (size_t i = 0; i < reserved->blocks_count(); ++i)
    draft.payloads_.push_back(reserved->payload(i));
  // Nothing to write: nothing to keep, and no pin either.
  if (draft.payloads_.empty()) return draft;
  draft.client_ = this;
  MutexLock lock(mutex_);
  draft.id_ = ++last_draft_;
  Written& written = drafts_[draft.id_];
  written.draft = std::move(*reserved);
  written.root = root_of(keyspace);
  if (has_claims_.load(std::memory_order_relaxed)) written.tokens.assign(tokens.begin(), tokens.end());
  return draft;
}

size_t EmbeddedClient::commit(Draft draft) {
  if (draft.client_ == nullptr) return 0;
  RHIZOME_CHECK(draft.client_ == this);
  draft.client_ = nullptr;
  draft.payloads_.clear();
  Written written = take_draft(draft.id_);
  const size_t visible = store_->commit(std::move(written.draft));
  // A claim that was made after the draft is of blocks that are not the draft's.
  if (!written.tokens.empty()) {
    const std::span<const Token> tokens(written.tokens);
    const size_t stored = size_t{store_->peek(written.root, tokens)} * block_tokens();
    const MutexLock lock(flights_mutex_);
    flights_.committed(kOwner, written.root, tokens.first(stored), clock_.monotonic_ns());
    flights_changed_.notify_all();
    has_claims_.store(flights_.claims_count() > 0, std::memory_order_relaxed);
  }
  return visible;
}

void EmbeddedClient::abort_draft(uint64_t id) {
  take_draft(id).draft.abort();
}

EmbeddedClient::Written EmbeddedClient::take_draft(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = drafts_.find(id);
  RHIZOME_CHECK(found != drafts_.end());
  Written written = std::move(found->second);
  drafts_.erase(found);
  return written;
}

Reason EmbeddedClient::explain(KeyspaceId keyspace, std::span<const Token> prompt) {
  StoredPrefix prefix;
  store_->lookup(root_of(keyspace), prompt, prefix);
  const auto block = static_cast<uint32_t>(prefix.blocks());
  const MutexLock lock(flights_mutex_);
  return flights_.computed_until(root_of(keyspace), prompt, block, clock_.monotonic_ns()) ? Reason::kInFlight
                                                                                          : prefix.reason();
}

Announcement EmbeddedClient::announce(KeyspaceId keyspace, std::span<const Token> prompt, size_t first, size_t end,
                                      uint64_t patience_ns) {
  Announcement announcement;
  end = std::min(end, prompt.size() / block_tokens());
  const MutexLock lock(flights_mutex_);
  // Whoever commits shows the blocks before he moves his claim on.
  first = std::max<size_t>(first, store_->peek(root_of(keyspace), prompt.first(end * block_tokens())));
  if (first >= end) return announcement;
  const auto announced = flights_.announce(kOwner, root_of(keyspace), prompt.first(end * block_tokens()),
                                           static_cast<uint32_t>(first), patience_ns, clock_.monotonic_ns());
  if (!announced) return announcement;
  announcement.end_block_ = announced->end;
  if (announced->claim == 0) return announcement;
  has_claims_.store(true, std::memory_order_relaxed);
  announcement.client_ = this;
  announcement.claim_ = announced->claim;
  return announcement;
}

void EmbeddedClient::withdraw_claim(uint64_t claim, uint64_t) {
  const MutexLock lock(flights_mutex_);
  flights_.withdraw(kOwner, claim);
  flights_changed_.notify_all();
  has_claims_.store(flights_.claims_count() > 0, std::memory_order_relaxed);
}

Arrival EmbeddedClient::wait(KeyspaceId keyspace, std::span<const Token> prompt, size_t more_than,
                             uint64_t deadline_ns) {
  const Root root = root_of(keyspace);
  const auto block = static_cast<uint32_t>(more_than);
  const MutexLock lock(flights_mutex_);
  for (;;) {
    // Whoever commits shows the blocks and then takes the lock: what is not seen here wakes this thread.
    Arrival arrival{.blocks = store_->peek(root, prompt)};
    const uint64_t now_ns = clock_.monotonic_ns();
    const auto until_ns = flights_.computed_until(root, prompt, block, now_ns);
    arrival.is_computed = until_ns.has_value();
    if (arrival.blocks > more_than || !until_ns || now_ns >= deadline_ns) return arrival;
    flights_changed_.wait_for(flights_mutex_, std::min({*until_ns - now_ns, deadline_ns - now_ns, kSleepNsMax}));
  }
}

// --- contexts

Result<ContextHandle> EmbeddedClient::publish(KeyspaceId keyspace, std::span<const Token> prompt,
                                              const ContextTerms& terms) {
  Contexts::Offer offer{.terms = terms};
  store_->lookup(root_of(keyspace), prompt, offer.pins);
  const uint32_t blocks = offer.pins.blocks();
  if (blocks == 0) return fail(Code::kFailedPrecondition, "nothing of it is stored");
  static_cast<void>(store_->promote(offer.pins, prompt, 0, blocks));
  offer.content = {.root = root_of(keyspace), .tokens = {prompt.begin(), prompt.end()}};
  const MutexLock lock(contexts_mutex_);
  const Result<ContextHandle> handle = contexts_.publish(kOwner, std::move(offer), clock_.monotonic_ns());
  has_contexts_.store(contexts_.contexts_count() > 0, std::memory_order_relaxed);
  return handle;
}

Result<Context> EmbeddedClient::adopt(const ContextHandle& handle) {
  const MutexLock lock(contexts_mutex_);
  const auto adoption = contexts_.begin_adoption(kOwner, handle, clock_.monotonic_ns());
  if (!adoption) return fail(adoption.error());
  const Contexts::Content& content = *adoption->content;
  const Result<uint64_t> slot_bytes = store_->slot_bytes(content.root);
  RHIZOME_CHECK(slot_bytes.has_value());  // it was open when it was published
  Context context{.keyspace = {content.root.value, content.root.generation},
                  .payload_bytes = *slot_bytes - identity_bytes(block_tokens()),
                  .tokens = content.tokens};
  lookup(context.keyspace, context.tokens, context.hit);
  const Status ended = contexts_.end_adoption(kOwner, adoption->number, true);
  if (!ended) return fail(ended.error());
  has_contexts_.store(contexts_.contexts_count() > 0, std::memory_order_relaxed);
  return context;
}

Status EmbeddedClient::unpublish(const ContextHandle& handle) {
  const MutexLock lock(contexts_mutex_);
  const Status ended = contexts_.unpublish(handle, clock_.monotonic_ns());
  has_contexts_.store(contexts_.contexts_count() > 0, std::memory_order_relaxed);
  return ended;
}

void EmbeddedClient::drop_late_contexts() {
  const MutexLock lock(contexts_mutex_);
  contexts_.drop_late(clock_.monotonic_ns());
  has_contexts_.store(contexts_.contexts_count() > 0, std::memory_order_relaxed);
}

}  // namespace rhizome
