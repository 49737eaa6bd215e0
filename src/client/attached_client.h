// A client of a node in another process: looks up and reads by itself in what it has mapped, and asks for the rest.
//
// Thread-safety: as Client.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <unordered_map>
#include <utility>
#include <vector>

#include "block/identity.h"
#include "client/attached_session.h"
#include "client/attachment.h"
#include "client/client.h"
#include "client/visible_later.h"
#include "concurrency/epochs.h"
#include "concurrency/mutex.h"
#include "machine/descriptor.h"
#include "machine/poller.h"
#include "machine/thread.h"
#include "telemetry/counters.h"

namespace rhizome {

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

class AttachedClient final : public Client {
 public:
  AttachedClient(AttachedOptions options, std::unique_ptr<AttachedSession> session, Counters& counters)
      : options_(std::move(options)),
        counters_(counters),
        block_tokens_(session->block_tokens()),
        sampler_(options_.verify) {
    current_.store(&attachments_.emplace_back(std::move(session), ++last_attachment_, visible_later_),
                   std::memory_order_release);
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
  void commit_later(Draft draft) override;
  Settled settle() override;
  Reason explain(KeyspaceId keyspace, std::span<const Token> prompt) override;
  bool is_shared() const override { return true; }
  Announcement announce(KeyspaceId keyspace, std::span<const Token> prompt, size_t first, size_t end,
                        uint64_t patience_ns) override;
  Arrival wait(KeyspaceId keyspace, std::span<const Token> prompt, size_t more_than, uint64_t deadline_ns) override;
  Result<ContextHandle> publish(KeyspaceId keyspace, std::span<const Token> prompt, const ContextTerms& terms) override;
  Result<Context> adopt(const ContextHandle& handle) override;
  Status unpublish(const ContextHandle& handle) override;
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
  // What a node gives, looked up and pinned by this client; of that session.
  Result<Context> take_over(const Use& now, const ContextFrame& given, const std::vector<Descriptor>& descriptors);
  // Takes the use over where there is room.
  std::optional<Written> take_room(Use& use, KnownKeyspace& keyspace, std::span<const Token> tokens,
                                   uint32_t first_block);
  Result<Written> await_room(Use use, KnownKeyspace& keyspace, std::span<const Token> tokens, uint32_t first_block);
  std::optional<Written> take_draft(Draft& draft);
  // Hands it over; `outcome` as CommitsUnderWay::push(). Where the node takes no commits over the ring, it has ended
  // when this returns: how many blocks are visible.
  std::optional<size_t> hand_over(Written& written, CommitsUnderWay::Outcome* outcome);

  const AttachedOptions options_;
  Counters& counters_;
  const uint32_t block_tokens_;
  ReadSampler sampler_;
  std::array<std::atomic<KnownKeyspace*>, kKeyspacesMax + 1> keyspaces_{};
  Epochs epochs_;  // of sections in which current_ is read, until the use is counted
  std::atomic<Attachment*> current_{nullptr};
  VisibleLater visible_later_;

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

inline AttachedClient::AttachedHit* AttachedClient::state_of(const Hit& hit) {
  return static_cast<AttachedHit*>(hit.state_.get());
}

}  // namespace rhizome
