#include "store/store.h"

#include <algorithm>
#include <utility>

#include "block/checksum.h"
#include "contract/check.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlockTokensOffered[] = {16, 32, 64, 128, 256};
// Keyspaces are many when tenants and salts are: a small budget must not go into their table.
constexpr uint64_t kBytesForAKeyspaceSlot = 64 << 10;
constexpr uint32_t kKeyspacesMin = 16;
// Each slot pays for its description in the index; what the index reserves is only address space.
constexpr uint64_t kIndexBytesMin = 1 << 20;
constexpr size_t kEvictionsPerBlock = 16;
// Beside its encoding, kept once, and its record: a tree without blocks and its places in the tables.
constexpr uint64_t kKeyspaceOverheadBytes = 512;

uint32_t choose_keyspaces_max(const StoreOptions& options) {
  const uint64_t affordable = std::max<uint64_t>(options.memory_bytes / kBytesForAKeyspaceSlot, kKeyspacesMin);
  return static_cast<uint32_t>(std::min<uint64_t>(options.keyspaces_max, affordable));
}

}  // namespace

Result<std::unique_ptr<Store>> Store::create(const StoreOptions& options, Counters& counters) {
  if (std::find(std::begin(kBlockTokensOffered), std::end(kBlockTokensOffered), options.block_tokens) ==
      std::end(kBlockTokensOffered)) {
    return fail(Code::kInvalidArgument, "blocks have 16, 32, 64, 128 or 256 tokens");
  }
  StoreOptions chosen = options;
  chosen.keyspaces_max = choose_keyspaces_max(options);
  Result<std::unique_ptr<Slab>> slab = Slab::create(
      {.budget_bytes = options.memory_bytes, .overhead_bytes = Index::block_bytes_max(options.block_tokens)});
  if (!slab) return fail(slab.error());
  if (!(*slab)->charge(sizeof(Store) + (chosen.keyspaces_max + 1) * sizeof(std::atomic<Opened*>))) {
    return fail(Code::kInvalidArgument, "memory budget too small");
  }
  return std::unique_ptr<Store>(new Store(chosen, std::move(*slab), counters));
}

Store::Store(const StoreOptions& options, std::unique_ptr<Slab> slab, Counters& counters)
    : options_(options),
      counters_(counters),
      slab_(std::move(slab)),
      index_({.block_tokens = options.block_tokens,
              .roots_max = options.keyspaces_max,
              .memory_bytes = options.index_bytes_max != 0 ? options.index_bytes_max
                                                           : std::max(options.memory_bytes, kIndexBytesMin)}),
      opened_(std::make_unique<std::atomic<Opened*>[]>(options.keyspaces_max + 1)) {
  counters_.set(Counter::kMemoryCapacity, options_.memory_bytes);
  publish_used();
}

Store::~Store() {
  counters_.set(Counter::kMemoryCapacity, 0);
  counters_.set(Counter::kMemoryUsed, 0);
  counters_.set(Counter::kMemoryPinned, 0);
  counters_.set(Counter::kBlocksStored, 0);
}

Result<Root> Store::open(const Keyspace& keyspace, uint64_t payload_bytes) {
  if (payload_bytes == 0) return fail(Code::kInvalidArgument, "a block without payload");
  if (payload_bytes > options_.memory_bytes) {
    return fail(Code::kResourceExhausted, "one block is larger than the memory budget");
  }
  const uint64_t slot_bytes = identity_bytes(options_.block_tokens) + payload_bytes;
  // Held across the calls below, so that one keyspace is opened once; neither index nor slab calls up.
  MutexLock lock(open_mutex_);
  if (!slab_->can_ever_hold(slot_bytes)) {
    return fail(Code::kResourceExhausted, "one block does not fit the memory budget");
  }
  const Result<Root> root = index_.open(keyspace.encoding());
  if (!root) return fail(root.error());
  if (const Opened* known = opened(*root)) {
    if (known->slot_bytes != slot_bytes) return fail(Code::kInvalidArgument, "the keyspace has another block size");
    return *root;
  }
  const uint64_t bytes = sizeof(Opened) + keyspace.encoding().size() + kKeyspaceOverheadBytes;
  while (!slab_->charge(bytes)) {
    if (!evict_one()) return fail(Code::kResourceExhausted, "no memory for another keyspace");
  }
  owned_.push_back(std::make_unique<Opened>());
  Opened& made = *owned_.back();
  made.root = *root;
  made.digest = keyspace.digest();
  made.root_key = root_key(made.digest);
  made.slot_bytes = slot_bytes;
  opened_[root->value].store(&made, std::memory_order_release);  // pairs with the acquire in opened()
  publish_used();
  return *root;
}

StoredPrefix Store::lookup(Root root, std::span<const Token> prompt, std::vector<Location>& locations) {
  StoredPrefix found;
  const Opened* const keyspace = opened(root);
  if (keyspace == nullptr) {
    locations.clear();
    found.reason = Reason::kNotCacheable;
    return found;
  }
  locations.resize(prompt.size() / options_.block_tokens);
  Match match = index_.lookup(root, prompt, locations);
  locations.resize(match.blocks);
  count_pinned(*keyspace, 0, match.blocks);
  found.reason = index_.explain(root, prompt, match).reason;
  found.blocks = match.blocks;
  found.handle = std::move(match.handle);
  return found;
}

uint32_t Store::peek(Root root, std::span<const Token> prompt) const {
  return opened(root) == nullptr ? 0 : index_.peek(root, prompt);
}

void Store::release(Root root, Handle handle) {
  if (handle.empty()) return;
  const Opened* const keyspace = opened(root);
  RHIZOME_CHECK(keyspace != nullptr);
  const uint32_t blocks = handle.blocks();
  const Status released = index_.release(std::move(handle));
  RHIZOME_CHECK(released.has_value());
  count_pinned(*keyspace, blocks, 0);
  reap();
}

Result<std::span<const std::byte>> Store::read(Root root, const Handle& handle, std::span<const Token> prompt,
                                               uint32_t block, Location location, const BlockKey& parent) {
  const Opened* keyspace = opened(root);
  RHIZOME_CHECK(keyspace != nullptr && block < handle.blocks());
  RHIZOME_CHECK(prompt.size() / options_.block_tokens > block);
  const Result<SlotRef> ref = slab_->committed(location);
  RHIZOME_CHECK(ref.has_value());
  // The slab shows no bytes without a pin; after this call the handle keeps them where they are.
  const Result<Pinned> pinned = slab_->pin(*ref);
  RHIZOME_CHECK(pinned.has_value());
  const std::span<const std::byte> bytes = pinned->bytes();
  const size_t head = identity_bytes(options_.block_tokens);
  if (bytes.size() != keyspace->slot_bytes || checksum(bytes) != pinned->checksum()) {
    counters_.add(Counter::kChecksumFailures);
    quarantine(*keyspace, handle, block, "checksum");
    return fail(Code::kDataLoss, "checksum does not match");
  }
  if (!identity_matches(bytes.first(head), identity_of(*keyspace, prompt, block, parent))) {
    counters_.add(Counter::kIdentityMismatches);
    quarantine(*keyspace, handle, block, "identity");
    return fail(Code::kDataLoss, "identity does not match");
  }
  return bytes.subspan(head);
}

BlockKey Store::root_key_of(Root root) const {
  const Opened* keyspace = opened(root);
  RHIZOME_CHECK(keyspace != nullptr);
  return keyspace->root_key;
}

Result<BlockDraft> Store::reserve(Root root, std::span<const Token> tokens, uint32_t first_block) {
  const Opened* const keyspace = opened(root);
  const size_t blocks = tokens.size() / options_.block_tokens;
  if (keyspace == nullptr) return fail(Code::kInvalidArgument, "keyspace not opened");
  if (tokens.size() % options_.block_tokens != 0 || first_block > blocks || blocks > UINT32_MAX) {
    return fail(Code::kInvalidArgument, "not a whole number of blocks, or fewer than first_block");
  }
  std::vector<Location> stored(blocks);
  Match match = index_.lookup(root, tokens, stored);
  stored.resize(match.blocks);
  BlockDraft draft;
  draft.store_ = this;
  draft.root_ = root;
  draft.prefix_ = std::move(match.handle);
  draft.first_block_ = match.blocks;
  count_pinned(*keyspace, 0, match.blocks);
  if (match.blocks < first_block) return fail(Code::kFailedPrecondition, "a block before is not stored");
  if (match.blocks == blocks) return draft;
  draft.parent_ = key_before(*keyspace, tokens, stored);
  draft.identity_bytes_ = identity_bytes(options_.block_tokens);
  while (draft.slots_.size() < blocks - match.blocks) {
    Result<Reserved> slot = slab_->reserve(keyspace->slot_bytes);
    if (slot) {
      draft.slots_.push_back(std::move(*slot));
    } else if (slot.error().code != Code::kResourceExhausted || !evict_one()) {
      break;
    }
  }
  publish_used();
  if (draft.slots_.empty()) return fail(Code::kResourceExhausted, "no memory that could be evicted");
  const size_t tokens_count = (match.blocks + draft.slots_.size()) * options_.block_tokens;
  draft.tokens_.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(tokens_count));
  return draft;
}

size_t Store::commit(BlockDraft draft) {
  RHIZOME_CHECK(draft.store_ == this);
  const Opened& keyspace = *opened(draft.root_);
  std::vector<Location> locations;
  BlockKey parent = draft.parent_;
  for (Reserved& slot : draft.slots_) {
    const uint32_t block = draft.first_block_ + static_cast<uint32_t>(locations.size());
    const Identity identity = identity_of(keyspace, draft.tokens_, block, parent);
    encode_identity(identity, slot.bytes().first(draft.identity_bytes_));
    parent = next_key(parent, identity.tokens);
    const uint64_t sum = checksum(slot.bytes());
    locations.push_back(slab_->commit(std::move(slot), sum).index);
  }
  draft.slots_.clear();
  if (locations.empty()) return 0;
  std::vector<Location> canonical(locations.size());
  // Counted before they can be found, and so before anybody can evict them: the gauge stays above zero.
  counters_.add(Counter::kBlocksStored, locations.size());
  const uint32_t pinned_before = draft.prefix_.blocks();
  const auto publish = [&] {
    return index_.insert(draft.root_, draft.prefix_, draft.tokens_, draft.first_block_, locations, canonical);
  };
  Result<Inserted> inserted = publish();
  // What the index uses is paid for with the slots, but it may be full before they are: cut up, or given less address
  // space than memory.
  for (size_t evictions = kEvictionsPerBlock * locations.size();
       !inserted && inserted.error().code == Code::kResourceExhausted && evictions > 0 && evict_one(); --evictions) {
    inserted = publish();
  }
  size_t visible = 0;
  if (inserted) {
    visible = locations.size() - inserted->stored_before;
    locations.resize(inserted->stored_before);
    draft.prefix_ = std::move(inserted->handle);
    count_pinned(keyspace, pinned_before, draft.prefix_.blocks());
  }
  counters_.sub(Counter::kBlocksStored, locations.size());
  free_slots(locations);
  draft.abort();
  return visible;
}

size_t Store::clear() {
  size_t blocks = 0;
  while (evict_one())
    ++blocks;
  slab_->trim();
  publish_used();
  return blocks;
}

Store::Opened* Store::opened(Root root) const {
  if (root.value == 0 || root.value > options_.keyspaces_max) return nullptr;
  Opened* const found = opened_[root.value].load(std::memory_order_acquire);  // pairs with the release in open()
  return found != nullptr && found->root == root ? found : nullptr;
}

Identity Store::identity_of(const Opened& keyspace, std::span<const Token> prompt, uint32_t block,
                            const BlockKey& parent) const {
  const size_t position = size_t{block} * options_.block_tokens;
  return {.keyspace = keyspace.digest,
          .parent = parent,
          .position = static_cast<uint32_t>(position),
          .tokens = prompt.subspan(position, options_.block_tokens)};
}

// The key of the last stored block, from its own parent's key, which lies at the head of its slot: one step
// instead of the whole chain for every block that a long conversation grows by.
BlockKey Store::key_before(const Opened& keyspace, std::span<const Token> tokens,
                           std::span<const Location> stored) const {
  if (stored.empty()) return keyspace.root_key;
  const uint32_t last = static_cast<uint32_t>(stored.size() - 1);
  const Result<SlotRef> ref = slab_->committed(stored.back());
  RHIZOME_CHECK(ref.has_value());
  const Result<Pinned> pinned = slab_->pin(*ref);
  RHIZOME_CHECK(pinned.has_value());
  const std::span<const std::byte> head = pinned->bytes().first(identity_bytes(options_.block_tokens));
  const Identity identity = identity_of(keyspace, tokens, last, identity_parent(head));
  if (identity_matches(head, identity)) return next_key(identity.parent, identity.tokens);
  // Damaged: whoever reads that block will find out. Our keys come from the tokens.
  BlockKey key = keyspace.root_key;
  for (uint32_t block = 0; block <= last; ++block) {
    key = next_key(key, identity_of(keyspace, tokens, block, key).tokens);
  }
  return key;
}

void Store::abort(BlockDraft& draft) {
  draft.slots_.clear();
  release(draft.root_, std::move(draft.prefix_));
  publish_used();
}

bool Store::evict_one() {
  Location victim = 0;
  if (index_.evict(std::span(&victim, 1)) == 0) return false;
  free_slots(std::span(&victim, 1));
  counters_.add(Counter::kEvictions);
  counters_.sub(Counter::kBlocksStored);
  return true;
}

void Store::free_slots(std::span<const Location> locations) {
  for (const Location location : locations) {
    const Result<SlotRef> ref = slab_->committed(location);
    RHIZOME_CHECK(ref.has_value());
    const Status freed = slab_->free(*ref);
    RHIZOME_CHECK(freed.has_value());
  }
}

void Store::reap() {
  Location gone[32];
  bool any = false;
  while (const size_t count = index_.reap(gone)) {
    free_slots(std::span(gone).first(count));
    any = true;
  }
  if (any) publish_used();
}

void Store::quarantine(const Opened& keyspace, const Handle& handle, uint32_t block, const char* what) {
  const size_t blocks = index_.remove(handle, block);
  reap();
  if (blocks == 0) return;  // somebody else found it first
  counters_.add(Counter::kQuarantines, blocks);
  counters_.sub(Counter::kBlocksStored, blocks);
  log_once(what,
           "a stored block did not verify ({}): {} blocks of keyspace {} are forgotten and will be computed again",
           what, blocks, hex(keyspace.digest, 8));
}

void Store::count_pinned(const Opened& keyspace, uint32_t blocks_before, uint32_t blocks_now) {
  if (blocks_now > blocks_before) {
    counters_.add(Counter::kMemoryPinned, (blocks_now - blocks_before) * keyspace.slot_bytes);
  } else if (blocks_now < blocks_before) {
    counters_.sub(Counter::kMemoryPinned, (blocks_before - blocks_now) * keyspace.slot_bytes);
  }
}

void Store::publish_used() {
  // Held across the call below: what is read and what the gauge then says must be one step, else an older value could
  // overwrite a newer one and stay. The slab does not call up.
  MutexLock lock(used_mutex_);
  counters_.set(Counter::kMemoryUsed, slab_->usage().used_bytes);
}

}  // namespace rhizome
