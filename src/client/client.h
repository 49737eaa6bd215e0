// The interface that engines use: look up, read, reserve, commit. The cache behind it is embedded
// in this process or, later, a node that other processes share; an engine cannot tell which.
//
// Thread-safety: a Client may be used from any thread. A Hit or a Draft belongs to one thread at a
// time and must not outlive its Client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "block/block_key.h"
#include "block/keyspace.h"
#include "block/reason.h"
#include "block/token.h"
#include "contract/result.h"

namespace rhizome {

class Client;

// Names an opened keyspace within one Client. Zero is none.
struct KeyspaceId {
  uint32_t value = 0;
  uint32_t generation = 0;
  friend bool operator==(KeyspaceId, KeyspaceId) = default;
};

// The blocks at the head of a prompt that are stored, pinned until release() or destruction.
class Hit {
 public:
  Hit() = default;
  ~Hit() { release(); }
  Hit(Hit&& other) noexcept;
  Hit& operator=(Hit&& other) noexcept;

  size_t blocks_count() const { return slots_.size(); }
  // Why the look-up stopped where it did.
  Reason reason() const { return reason_; }
  void release();

 private:
  friend class Client;
  friend class EmbeddedClient;

  Client* client_ = nullptr;
  KeyspaceId keyspace_;
  uint64_t pin_ = 0;             // the client's own handle
  std::vector<uint32_t> slots_;  // one a block; keeps its capacity when a Hit is used again
  // The key of the block before `key_block_`: reading in order, each key is one step from the last.
  BlockKey key_;
  size_t key_block_ = 0;
  Reason reason_ = Reason::kNeverStored;
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
  friend class Client;
  friend class EmbeddedClient;

  Client* client_ = nullptr;
  uint64_t id_ = 0;
  uint32_t first_block_ = 0;
  std::vector<std::span<std::byte>> payloads_;
};

class Client {
 public:
  virtual ~Client() = default;

  virtual uint32_t block_tokens() const = 0;

  // Opens a keyspace whose blocks have `payload_bytes` of KV each. The same keyspace always gives
  // the same id. kInvalidArgument: zero bytes, or another size than before. kResourceExhausted: one
  // block does not fit the memory budget, or too many keyspaces.
  virtual Result<KeyspaceId> open(const Keyspace& keyspace, uint64_t payload_bytes) = 0;

  // The longest stored prefix of `prompt`, in whole blocks. Releases what `hit` held before. A miss
  // is a Hit of zero blocks with its reason. Does not wait.
  virtual void lookup(KeyspaceId keyspace, std::span<const Token> prompt, Hit& hit) = 0;

  // How many tokens lookup() would find; takes no pin and counts as no use.
  virtual size_t peek(KeyspaceId keyspace, std::span<const Token> prompt) = 0;

  // The payload of block `i` of a hit, after its identity was compared with `prompt` (the prompt of
  // the look-up) and its checksum with its bytes; valid until the hit is released. Cheapest in
  // ascending order. kOutOfRange: the hit or the prompt has no such block. kDataLoss: it did not
  // verify; it has been quarantined together with all that continues it, and the hit ends before it.
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

 protected:
  friend class Hit;
  friend class Draft;
  virtual void release_pin(KeyspaceId keyspace, uint64_t pin) = 0;
  virtual void abort_draft(uint64_t id) = 0;
};

// A cache inside this process.
struct EmbeddedOptions {
  uint64_t memory_bytes = 0;   // hard budget of slots and of what describes them
  uint32_t block_tokens = 16;  // 16, 32, 64, 128 or 256
};

class Counters;

// kInvalidArgument: a block size that is not offered. `counters` must outlive the client.
Result<std::unique_ptr<Client>> make_embedded_client(const EmbeddedOptions& options, Counters& counters);

}  // namespace rhizome
