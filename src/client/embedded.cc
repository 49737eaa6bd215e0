#include <unordered_map>
#include <utility>

#include "client/client.h"
#include "concurrency/mutex.h"
#include "contract/check.h"
#include "store/store.h"

namespace rhizome {

namespace {

Root root_of(KeyspaceId keyspace) {
  return {keyspace.value, keyspace.generation};
}

}  // namespace

// A client whose store is in this process. Its keyspace ids are the store's roots.
class EmbeddedClient final : public Client {
 public:
  explicit EmbeddedClient(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  ~EmbeddedClient() override;

  uint32_t block_tokens() const override { return store_->block_tokens(); }
  Result<KeyspaceId> open(const Keyspace& keyspace, uint64_t payload_bytes) override;
  void lookup(KeyspaceId keyspace, std::span<const Token> prompt, Hit& hit) override;
  size_t peek(KeyspaceId keyspace, std::span<const Token> prompt) override;
  Result<std::span<const std::byte>> read(Hit& hit, std::span<const Token> prompt, size_t i) override;
  Result<Draft> reserve(KeyspaceId keyspace, std::span<const Token> tokens, uint32_t first_block) override;
  size_t commit(Draft draft) override;

 protected:
  void release_pin(KeyspaceId keyspace, uint64_t pin) override;
  void abort_draft(uint64_t id) override;

 private:
  const BlockKey& key_before(Hit& hit, std::span<const Token> prompt, size_t block) const;
  BlockDraft take_draft(uint64_t id);

  const std::unique_ptr<Store> store_;
  Mutex mutex_;
  std::unordered_map<uint64_t, BlockDraft> drafts_ GUARDED_BY(mutex_);
  uint64_t last_draft_ GUARDED_BY(mutex_) = 0;
};

Result<std::unique_ptr<Client>> make_embedded_client(const EmbeddedOptions& options, Counters& counters) {
  Result<std::unique_ptr<Store>> store =
      Store::create({.memory_bytes = options.memory_bytes, .block_tokens = options.block_tokens}, counters);
  if (!store) return fail(store.error());
  return std::make_unique<EmbeddedClient>(std::move(*store));
}

EmbeddedClient::~EmbeddedClient() {
  MutexLock lock(mutex_);
  RHIZOME_CHECK(drafts_.empty());
}

Result<KeyspaceId> EmbeddedClient::open(const Keyspace& keyspace, uint64_t payload_bytes) {
  const Result<Root> root = store_->open(keyspace, payload_bytes);
  if (!root) return fail(root.error());
  return KeyspaceId{root->value, root->generation};
}

void EmbeddedClient::lookup(KeyspaceId keyspace, std::span<const Token> prompt, Hit& hit) {
  hit.release();
  StoredPrefix match = store_->lookup(root_of(keyspace), prompt, hit.slots_);
  hit.reason_ = match.reason;
  if (match.handle.empty()) return;
  hit.client_ = this;
  hit.keyspace_ = keyspace;
  hit.pin_ = Handle::pack(std::move(match.handle));
}

size_t EmbeddedClient::peek(KeyspaceId keyspace, std::span<const Token> prompt) {
  return size_t{store_->peek(root_of(keyspace), prompt)} * store_->block_tokens();
}

Result<std::span<const std::byte>> EmbeddedClient::read(Hit& hit, std::span<const Token> prompt, size_t i) {
  RHIZOME_CHECK(hit.client_ == nullptr || hit.client_ == this);
  if (i >= hit.slots_.size()) return fail(Code::kOutOfRange, "the hit has no such block");
  if (prompt.size() / store_->block_tokens() <= i) return fail(Code::kOutOfRange, "the prompt has no such block");
  const BlockKey& parent = key_before(hit, prompt, i);
  Handle handle = Handle::unpack(hit.pin_);
  Result<std::span<const std::byte>> bytes =
      store_->read(root_of(hit.keyspace_), handle, prompt, static_cast<uint32_t>(i), hit.slots_[i], parent);
  hit.pin_ = Handle::pack(std::move(handle));
  if (!bytes) {
    hit.slots_.resize(i);
    hit.reason_ = Reason::kCorrupt;
  }
  return bytes;
}

Result<Draft> EmbeddedClient::reserve(KeyspaceId keyspace, std::span<const Token> tokens, uint32_t first_block) {
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
  drafts_.emplace(draft.id_, std::move(*reserved));
  return draft;
}

size_t EmbeddedClient::commit(Draft draft) {
  if (draft.client_ == nullptr) return 0;
  RHIZOME_CHECK(draft.client_ == this);
  draft.client_ = nullptr;
  draft.payloads_.clear();
  return store_->commit(take_draft(draft.id_));
}

void EmbeddedClient::release_pin(KeyspaceId keyspace, uint64_t pin) {
  store_->release(root_of(keyspace), Handle::unpack(pin));
}

void EmbeddedClient::abort_draft(uint64_t id) {
  take_draft(id).abort();
}

const BlockKey& EmbeddedClient::key_before(Hit& hit, std::span<const Token> prompt, size_t block) const {
  const size_t block_tokens = store_->block_tokens();
  if (hit.key_block_ == 0 || hit.key_block_ > block) {
    hit.key_ = store_->root_key_of(root_of(hit.keyspace_));
    hit.key_block_ = 0;
  }
  for (; hit.key_block_ < block; ++hit.key_block_) {
    hit.key_ = next_key(hit.key_, prompt.subspan(hit.key_block_ * block_tokens, block_tokens));
  }
  return hit.key_;
}

BlockDraft EmbeddedClient::take_draft(uint64_t id) {
  MutexLock lock(mutex_);
  const auto found = drafts_.find(id);
  RHIZOME_CHECK(found != drafts_.end());
  BlockDraft draft = std::move(found->second);
  drafts_.erase(found);
  return draft;
}

}  // namespace rhizome
