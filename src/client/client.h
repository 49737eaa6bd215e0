// The interface that engines use: look up, read, reserve, commit. The cache behind it is embedded
// in this process or, later, a node that other processes share; an engine cannot tell which.
//
// Thread-safety: a Client may be used from any thread. A Hit, a Draft, an Announcement or a Context belongs to one
// thread at a time and must not outlive its Client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attach/context_handle.h"
#include "block/keyspace.h"
#include "block/reason.h"
#include "block/token.h"
#include "client/open_disk.h"
#include "codec/block_geometry.h"
#include "contract/result.h"
#include "store/load_split.h"
#include "store/tiering_options.h"
#include "store/verify_policy.h"
#include "tier/tier.h"

namespace rhizome {

class Client;

// Names an opened keyspace within one Client. Zero is none.
struct KeyspaceId {
  uint32_t value = 0;
  uint32_t generation = 0;
  friend bool operator==(KeyspaceId, KeyspaceId) = default;
};

// What a client keeps of a hit for itself.
class HitState {
 public:
  virtual ~HitState() = default;  // releases
  virtual void release() = 0;     // what it holds; it can be used again
};

// The blocks at the head of a prompt that are stored, held until release() or destruction.
class Hit {
 public:
  Hit() = default;
  Hit(Hit&& other) noexcept = default;
  Hit& operator=(Hit&& other) noexcept = default;

  size_t blocks_count() const { return blocks_; }
  // Of those that were promoted or read, how many had to come from a tier below memory.
  size_t loaded_count() const { return loaded_; }
  // Why the look-up stopped where it did.
  Reason reason() const { return reason_; }
  void release() {
    if (state_ != nullptr) state_->release();
    blocks_ = 0;
    loaded_ = 0;
  }

 private:
  friend class AttachedClient;
  friend class EmbeddedClient;

  std::unique_ptr<HitState> state_;  // kept when the Hit is used again
  const Client* client_ = nullptr;   // whose it is
  size_t blocks_ = 0;
  size_t loaded_ = 0;
  Reason reason_ = Reason::kNeverStored;
  BlockCheck check_ = BlockCheck::kIdentityAndChecksum;
};

// Blocks that are being written: reserved, writable, and invisible until commit.
// Destruction without commit gives everything back.
class Draft {
 public:
  Draft() = default;
  ~Draft() { abort(); }
  Draft(Draft&& other) noexcept;
  Draft& operator=(Draft&& other) noexcept;

  // The blocks that have to be written: [first_block, first_block + blocks_count). Fewer than asked
  // for when some are stored already or memory is short.
  uint32_t first_block() const { return first_block_; }
  size_t blocks_count() const { return payloads_.size(); }
  // The i-th of them: exactly the keyspace's payload bytes, zeroed or stale, all to be written.
  std::span<std::byte> payload(size_t i) const { return payloads_[i]; }
  void abort();

 private:
  friend class AttachedClient;
  friend class Client;
  friend class EmbeddedClient;

  Client* client_ = nullptr;
  uint64_t id_ = 0;
  uint32_t first_block_ = 0;
  std::vector<std::span<std::byte>> payloads_;
};

// The answer to announce(): who computes the blocks. Ours ends with withdraw() or destruction.
class Announcement {
 public:
  Announcement() = default;
  ~Announcement() { withdraw(); }
  Announcement(Announcement&& other) noexcept;
  Announcement& operator=(Announcement&& other) noexcept;

  // We do, up to end_block(), and the others wait for it.
  bool is_ours() const { return client_ != nullptr; }
  // Somebody else does, up to end_block(). Neither: they are not announced, and nobody waits for them.
  bool is_others() const { return !is_ours() && end_block_ > 0; }
  size_t end_block() const { return end_block_; }
  void withdraw();

 private:
  friend class AttachedClient;
  friend class EmbeddedClient;

  Client* client_ = nullptr;
  uint64_t claim_ = 0;
  uint64_t session_ = 0;  // in which it was made
  size_t end_block_ = 0;
};

// What wait() has seen come.
struct Arrival {
  size_t blocks = 0;         // that are stored now
  bool is_computed = false;  // somebody computes the next one
};

// A context that was adopted: a prompt, and what is stored of it, pinned by this client. To go on with it is to look up
// and to store what continues `tokens`; blocks that others have as well are never changed by that.
struct Context {
  KeyspaceId keyspace = {};    // opened in this client
  uint64_t payload_bytes = 0;  // of one block
  std::vector<Token> tokens = {};
  Hit hit = {};
};

// What settle() has seen become visible.
struct Settled {
  uint64_t blocks_count = 0;
  uint64_t payload_bytes = 0;

  friend bool operator==(const Settled&, const Settled&) = default;
};

class Client {
 public:
  virtual ~Client() = default;

  virtual uint32_t block_tokens() const = 0;

  // Opens a keyspace; `geometry` is the shape of its blocks' payload, opaque where only the size is known. The same
  // keyspace always gives the same id. kInvalidArgument: a shape that makes no sense, or another one than before.
  // kResourceExhausted: one block does not fit the memory budget, or too many keyspaces.
  virtual Result<KeyspaceId> open(const Keyspace& keyspace, const BlockGeometry& geometry) = 0;

  // The longest stored prefix of `prompt`, in whole blocks. Releases what `hit` held before. A miss
  // is a Hit of zero blocks with its reason. Does not wait.
  virtual void lookup(KeyspaceId keyspace, std::span<const Token> prompt, Hit& hit) = 0;

  // How many tokens lookup() would find; takes no pin and counts as no use.
  virtual size_t peek(KeyspaceId keyspace, std::span<const Token> prompt) = 0;

  // Brings blocks [first, end) of a hit into memory; what is in a tier below begins to be loaded. Returns where the
  // part ends that it pays to read: before `end` when computing the rest is faster than loading it, or memory is short.
  virtual size_t promote(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) = 0;

  // For engines that can compute a prompt's first rows while rows behind them are put in: where in [first, end) of a
  // hit computing from the front and loading from the back would meet, from what loads and prompts took so far. Takes
  // no pin and begins nothing; load() of [load_from, end) does.
  virtual LoadSplit plan(const Hit& hit, std::span<const Token> prompt, size_t first, size_t end) = 0;

  // As promote(), without the choice: loads also what computing would have sooner by itself. Begins at the front of the
  // part; who wants its end first asks for it first, in pieces.
  virtual size_t load(Hit& hit, std::span<const Token> prompt, size_t first, size_t end) = 0;

  // The payload of block `i` of a hit, after its identity was compared with `prompt` (the prompt of
  // the look-up) and, as the options say, its checksum with its bytes; valid until the hit is released. Waits for a
  // block that is being loaded, no longer than its deadline. Cheapest in ascending order. kOutOfRange: the hit or the
  // prompt has no such block. kDataLoss: it did not verify; it has been quarantined together with all that continues it
  // (attached: if the node, which is told, finds the same). kUnavailable: its load failed or was late. After these two
  // the hit ends before the block.
  virtual Result<std::span<const std::byte>> read(Hit& hit, std::span<const Token> prompt, size_t i) = 0;

  // Reserves the blocks of `tokens` (a whole number of blocks, from position 0) from `first_block`
  // on, less those stored already. Evicts to make room. kFailedPrecondition: a block before
  // `first_block` is not stored. kResourceExhausted: no room, all is pinned. kInvalidArgument: not a
  // whole number of at least `first_block` blocks, or a keyspace that was not opened.
  virtual Result<Draft> reserve(KeyspaceId keyspace, std::span<const Token> tokens, uint32_t first_block) = 0;

  // Makes the draft's blocks visible, checksummed, immutable. Blocks that somebody else committed in
  // the meantime are dropped in favour of theirs; all are when a block before them has been
  // quarantined in the meantime. Returns how many became visible.
  virtual size_t commit(Draft draft) = 0;

  // As commit(), but does not wait for it: what became of it says settle(), and until then nobody can rely on what he
  // finds. reserve() accepts blocks on their way as if they were stored; if they are not in the end, those that
  // continue them are not either. Waits only while as much is on its way as there is room for. What is not settled when
  // the node is lost or the client goes is lost.
  virtual void commit_later(Draft draft) = 0;

  // Waits until all that was to be committed later is, or is lost. Returns what of it became visible since the last
  // settle(), whoever of the client's threads has handed it over.
  virtual Settled settle() = 0;

  // Why lookup() of this prompt would stop where it does. More is known here than a Hit says: an attached client asks
  // the node, which look-ups do not. kOff: there is no node.
  virtual Reason explain(KeyspaceId keyspace, std::span<const Token> prompt) = 0;

  // Whether others than the users of this client may store and find the same blocks: other processes.
  virtual bool is_shared() const = 0;

  // The caller is about to compute blocks [first, end) of `prompt` and to store them, as they come. Nothing heard of it
  // (no commit of a block among them) for patience_ns: it is as if it had never been said; likewise when this process
  // ends. When there can be no more claims, or no node, neither is_ours() nor is_others(): the caller goes on alone.
  // The claim begins behind what is stored already; all: neither. Waits for nobody's computing.
  virtual Announcement announce(KeyspaceId keyspace, std::span<const Token> prompt, size_t first, size_t end,
                                uint64_t patience_ns) = 0;

  // Sleeps until more than `more_than` blocks of `prompt` are stored, nobody computes the next one (any more), or it is
  // deadline_ns (of the client's clock, see machine/clock.h). Other threads use the client meanwhile. Whoever waits for
  // others while others wait for what he has announced wastes everybody's time until patience runs out: withdraw first.
  virtual Arrival wait(KeyspaceId keyspace, std::span<const Token> prompt, size_t more_than, uint64_t deadline_ns) = 0;

  // Hands a context over: a prompt, and what is stored of it now, which stays so for as long as the terms say.
  // Attached, any client of the same node and tenant may adopt it that is told the handle; with the node's end it is
  // gone. What is kept counts against this client's quota, of what outlives it against one that all such share.
  // kFailedPrecondition: nothing of it is stored. kInvalidArgument: a lifetime of nothing, or of more than ten minutes.
  // kResourceExhausted: 256 contexts, a million tokens or the quota are used up. kUnavailable: there is no node.
  virtual Result<ContextHandle> publish(KeyspaceId keyspace, std::span<const Token> prompt, const ContextTerms& terms);

  // Goes on with what somebody has published. Its blocks are never without a pin in between; what of them is gone all
  // the same (it did not verify) is not in the hit, whose reason says so. Of those that adopt a kMove context one gets
  // it; if that one ends in the middle it can be adopted again. kNotFound: there is no such context (any more), it is
  // another tenant's, or somebody is adopting it to keep it. kResourceExhausted: no slot for the hit, or no memory.
  // kUnavailable: there is no node.
  virtual Result<Context> adopt(const ContextHandle& handle);

  // Nobody adopts it any more; who has adopted it keeps it. Anybody may who has the handle. kNotFound: as adopt().
  virtual Status unpublish(const ContextHandle& handle);

  // The engine has computed `tokens` tokens of a prompt behind `before` others in so many seconds: what loads are
  // weighed against.
  virtual void observe_compute(uint64_t tokens, uint64_t before, double seconds) = 0;

  // Writes to the tiers what is worth it, and waits for it at most `wait_ns`: before the process ends.
  virtual void flush(uint64_t wait_ns) = 0;

 protected:
  friend class Announcement;
  friend class Draft;
  virtual void abort_draft(uint64_t id) = 0;
  virtual void withdraw_claim(uint64_t claim, uint64_t session) = 0;
};

// A cache inside this process.
struct EmbeddedOptions {
  uint64_t memory_bytes = 0;   // hard budget of slots and of what describes them
  uint32_t block_tokens = 16;  // 16, 32, 64, 128 or 256
  DiskOptions disk = {};
  std::unique_ptr<Tier> tier = nullptr;  // below memory, in place of a disk
  TieringOptions tiering = {};
  VerifyPolicy verify = VerifyPolicy::kTier;
};

class Counters;

// kInvalidArgument: a block size that is not offered. A disk that cannot be used (another process has the directory, no
// room) is said in the log, and the client goes on without. `counters` must outlive the client.
Result<std::unique_ptr<Client>> make_embedded_client(EmbeddedOptions options, Counters& counters);

// The memory of a node (node/node.h), which other processes share.
struct AttachedOptions {
  std::string socket_path;
  std::string tenant = {};
  uint64_t staging_bytes = 64 << 20;  // for what is being written: never more at a time
  uint64_t reply_wait_ns = 5'000'000'000;
  VerifyPolicy verify = VerifyPolicy::kTier;
};

// A hit reads in place what the node and other processes have computed, without a call or a copy. When the node is gone
// what was mapped is read as before; nothing can be stored, and each call that needs the node tries at most once a
// second whether there is one again. kNotFound, kUnavailable: there is no node. kPermissionDenied, kFailedPrecondition:
// it is another user's or tenant's, or of another version.
Result<std::unique_ptr<Client>> make_attached_client(AttachedOptions options, Counters& counters);

}  // namespace rhizome
