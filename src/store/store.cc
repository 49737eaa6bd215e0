#include "store/store.h"

#include <algorithm>
#include <utility>

#include "block/checksum.h"
#include "contract/check.h"
#include "slab/block_copy.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlockTokensOffered[] = {16, 32, 64, 128, 256};
// Keyspaces are many when tenants and salts are: a small budget must not go into their table.
constexpr uint64_t kBytesForAKeyspaceSlot = 64 << 10;
constexpr uint32_t kKeyspacesMin = 16;
// Each slot pays for its description in the index; what the index reserves is only address space.
constexpr uint64_t kIndexBytesMin = 1 << 20;
constexpr size_t kEvictionsPerBlock = 16;
// Each time all runs that are idle are looked at.
constexpr size_t kClearedAtOnce = 4096;
// Of the budget, what describes blocks that are in a tier only, and what goes into I/O buffers.
constexpr uint64_t kShareOfBelow = 16;
constexpr uint64_t kShareOfStaging = 16;
constexpr uint64_t kStagingBytesMin = 1 << 20;
constexpr uint64_t kStagingBytesMax = 32 << 20;
constexpr uint64_t kSketchBytesPerBlock = 16;
constexpr uint64_t kShareOfSharedIndex = 32;
constexpr uint32_t kReservationsPerNote = 8;
constexpr uint64_t kSharedIndexBytesMax = 512 << 20;
// How long the store's thread rests when there is nothing to do.
constexpr uint64_t kRestNs = 200000000;
constexpr uint64_t kFlushPollNs = 2000000;
// Small enough to be checksummed from the processor's nearest caches after it was copied.
constexpr size_t kFilledAtOnce = 16 << 10;

uint32_t choose_keyspaces_max(const StoreOptions& options) {
  const uint64_t affordable = std::max<uint64_t>(options.memory_bytes / kBytesForAKeyspaceSlot, kKeyspacesMin);
  return static_cast<uint32_t>(std::min<uint64_t>(options.keyspaces_max, affordable));
}

// A shared index is there as a whole, and paid for.
uint64_t slot_overhead_bytes(const StoreOptions& options) {
  if (options.remote_readers != nullptr) return BlockTable::block_bytes() + sizeof(DirectoryEntry);
  return Index::block_bytes_max(options.block_tokens) + BlockTable::block_bytes();
}

uint64_t shared_index_bytes(const StoreOptions& options) {
  if (options.remote_readers == nullptr) return 0;
  if (options.index_bytes_max != 0) return Index::shared_bytes(options.index_bytes_max);
  return Index::shared_bytes(
      std::clamp(options.memory_bytes / kShareOfSharedIndex, kIndexBytesMin, kSharedIndexBytesMax));
}

uint64_t below_block_bytes(const StoreOptions& options) {
  return slot_overhead_bytes(options) + kSketchBytesPerBlock;
}

uint64_t choose_below_max(const StoreOptions& options) {
  return options.tier == nullptr ? 0 : options.memory_bytes / kShareOfBelow / below_block_bytes(options);
}

uint32_t count_chunks(std::span<const KeptMemory> kept) {
  return static_cast<uint32_t>(
      std::ranges::count_if(kept, [](const KeptMemory& piece) { return piece.kind == KeptKind::kChunk; }));
}

}  // namespace

Result<std::unique_ptr<Store>> Store::create(StoreOptions options, Counters& counters) {
  if (std::find(std::begin(kBlockTokensOffered), std::end(kBlockTokensOffered), options.block_tokens) ==
      std::end(kBlockTokensOffered)) {
    return fail(Code::kInvalidArgument, "blocks have 16, 32, 64, 128 or 256 tokens");
  }
  options.keyspaces_max = choose_keyspaces_max(options);
  Result<std::unique_ptr<Slab>> slab = Slab::create({.budget_bytes = options.memory_bytes,
                                                     .overhead_bytes = slot_overhead_bytes(options),
                                                     .shareable = options.remote_readers != nullptr,
                                                     .keeps_chunks = options.remote_readers != nullptr,
                                                     .keeper = options.keeper,
                                                     .adopted_chunks_max = count_chunks(options.kept)});
  if (!slab) return fail(slab.error());
  uint64_t charged = sizeof(Store) + (options.keyspaces_max + 1) * sizeof(std::atomic<Opened*>);
  if (options.tier != nullptr) {
    if (options.tiering.staging_bytes == 0) {
      options.tiering.staging_bytes =
          std::clamp(options.memory_bytes / kShareOfStaging, kStagingBytesMin, kStagingBytesMax);
    }
    charged += options.tiering.staging_bytes + choose_below_max(options) * below_block_bytes(options);
  }
  Mapping index_memory;
  if (const uint64_t bytes = shared_index_bytes(options); bytes > 0) {
    // The directory grows by segments; what its entries take is paid for with the slots.
    charged += bytes + BlockDirectory::kSegmentBytes;
    Result<Mapping> mapped = Mapping::shareable(bytes);
    if (!mapped) return fail(mapped.error());
    index_memory = std::move(*mapped);
  }
  if (!(*slab)->charge(charged)) return fail(Code::kInvalidArgument, "memory budget too small");
  std::vector<KeptMemory> kept = std::exchange(options.kept, {});
  auto store = std::unique_ptr<Store>(
      new Store(std::move(options), std::move(*slab), std::move(index_memory), charged, counters));
  if (!kept.empty()) store->adopt(std::move(kept));
  if (store->mover_ != nullptr && store->options_.tiering.background) {
    Result<Thread> thread =
        start_thread("rhizome-mover", [&store = *store](const std::stop_token& stop) { store.run(stop); });
    if (!thread) return fail(thread.error());
    store->thread_ = std::move(*thread);
  }
  return store;
}

Store::Store(StoreOptions options, std::unique_ptr<Slab> slab, Mapping index_memory, uint64_t charged,
             Counters& counters)
    : options_(std::move(options)),
      counters_(counters),
      clock_(options_.tiering.clock != nullptr ? *options_.tiering.clock : real_clock()),
      slab_(std::move(slab)),
      index_memory_(std::move(index_memory)),
      remote_uses_(options_.remote_readers == nullptr ? nullptr
                                                      : std::make_unique<RemoteUses>(*options_.remote_readers)),
      directory_(options_.remote_readers == nullptr ? nullptr : std::make_unique<BlockDirectory>(options_.keeper)),
      book_(options_.keeper == nullptr ? nullptr : std::make_unique<KeyspaceBook>(*options_.keeper)),
      table_(choose_below_max(options_), directory_.get()),
      index_({.block_tokens = options_.block_tokens,
              .roots_max = options_.keyspaces_max,
              .memory_bytes = options_.index_bytes_max != 0 ? options_.index_bytes_max
                                                            : std::max(options_.memory_bytes, kIndexBytesMin),
              .shared_memory = index_memory_.bytes(),
              .remote_readers = remote_uses_.get()}),
      demotion_(*slab_, table_, index_, remote_uses_ != nullptr, counters_),
      below_max_(choose_below_max(options_)),
      below_block_bytes_(below_block_bytes(options_)),
      opened_(std::make_unique<std::atomic<Opened*>[]>(options_.keyspaces_max + 1)) {
  counters_.set(Counter::kMemoryCapacity, options_.memory_bytes);
  if (options_.tier != nullptr) {
    mover_ = std::make_unique<Mover>(std::move(options_.tier), *slab_, options_.memory_bytes - charged, table_,
                                     demotion_, counters_, options_.tiering);
    bound_recovered();
  }
  publish_used();
}

Store::~Store() {
  if (thread_.joinable()) {
    thread_.request_stop();
    mover_->wake();
    thread_.join();
  }
  mover_.reset();
  counters_.set(Counter::kMemoryCapacity, 0);
  counters_.set(Counter::kMemoryUsed, 0);
  counters_.set(Counter::kMemoryPinned, 0);
  counters_.set(Counter::kMemoryAdopted, 0);
  counters_.set(Counter::kBlocksAdopted, 0);
  counters_.set(Counter::kBlocksStored, 0);
}

Store::Shared Store::shared() const {
  RHIZOME_CHECK(directory_ != nullptr);
  return {index_memory_, *directory_, *slab_};
}

Result<uint64_t> Store::slot_bytes(Root root) const {
  const Opened* const keyspace = opened(root);
  if (keyspace == nullptr) return fail(Code::kNotFound, "the keyspace is not open");
  return keyspace->form.slot_bytes;
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
  // The tables in which other processes say what they use are small: who waits until something has to leave has lost
  // most of what was used before memory was full.
  if (reservations_.fetch_add(1, std::memory_order_relaxed) % kReservationsPerNote == 0) note_remote_uses();
  std::vector<Location> stored(blocks);
  Match match = index_.lookup(root, tokens, stored);
  stored.resize(match.blocks);
  BlockDraft draft;
  draft.store_ = this;
  draft.root_ = root;
  draft.prefix_ = std::move(match.handle);
  draft.first_block_ = match.blocks;
  count_pinned(*keyspace, 0, match.blocks);
  draft.parent_ = key_before(*keyspace, stored);
  draft.before_ = stored.empty() ? std::nullopt : std::optional(stored.back());
  draft.identity_bytes_ = keyspace->form.identity_bytes;
  draft.slot_bytes_ = keyspace->form.slot_bytes;
  if (match.blocks >= first_block) take_slots(*keyspace, draft, blocks);
  if (draft.slots_.empty() && match.blocks < blocks) skip_around(draft, tokens);
  if (draft.first_block_ < first_block) return fail(Code::kFailedPrecondition, "a block before is not stored");
  if (draft.first_block_ == blocks) return draft;
  take_buffers(*keyspace, draft, tokens);
  if (draft.blocks_count() == 0) return fail(Code::kResourceExhausted, "no memory that could be evicted");
  const size_t tokens_count = (draft.first_block_ + draft.blocks_count()) * options_.block_tokens;
  draft.tokens_.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(tokens_count));
  return draft;
}

void Store::take_slots(const Opened& keyspace, BlockDraft& draft, size_t blocks_end) {
  while (draft.first_block_ + draft.slots_.size() < blocks_end) {
    std::optional<Reserved> slot = take_slot(keyspace);
    if (!slot) break;
    draft.slots_.push_back(std::move(*slot));
  }
  publish_used();
}

void Store::fill_next(BlockDraft& draft, std::span<const std::byte> from) const {
  const size_t i = draft.filled_.size();
  const std::span<std::byte> payload = draft.payload(i);
  RHIZOME_CHECK(from.size() == payload.size());
  BlockKey key = i == 0 ? draft.parent_ : draft.filled_.back().key;
  ChecksumStream sum;
  sum.add(write_identity(*opened(draft.root_), draft, i, key));
  for (size_t at = 0; at < from.size(); at += kFilledAtOnce) {
    const std::span<std::byte> part = payload.subspan(at, std::min(kFilledAtOnce, from.size() - at));
    copy_block_bytes(part, from.subspan(at, part.size()));
    sum.add(part);
  }
  draft.filled_.push_back({key, sum.sum()});
}

std::span<const std::byte> Store::write_identity(const Opened& keyspace, const BlockDraft& draft, size_t i,
                                                 BlockKey& key) const {
  const Identity identity = identity_of(keyspace, draft.tokens_, draft.first_block_ + static_cast<uint32_t>(i), key);
  const std::span<std::byte> bytes = draft.bytes(i).first(draft.identity_bytes_);
  encode_identity(identity, bytes);
  key = next_key(key, identity.tokens);
  return bytes;
}

uint64_t Store::seal(const Opened& keyspace, const BlockDraft& draft, size_t i, BlockKey& key) const {
  if (i < draft.filled_.size()) {
    key = draft.filled_[i].key;
    return draft.filled_[i].checksum;
  }
  write_identity(keyspace, draft, i, key);
  return checksum(draft.bytes(i));
}

// The draft's blocks in slots, committed and described, in order; what is left of the draft begins behind them.
std::vector<Location> Store::seal_slots(const Opened& keyspace, BlockDraft& draft) {
  std::vector<Location> locations;
  for (size_t i = 0; i < draft.slots_.size(); ++i) {
    const uint64_t sum = seal(keyspace, draft, i, draft.parent_);
    const SlotRef ref = slab_->commit(std::move(draft.slots_[i]), sum);
    locations.push_back(table_.add({.keyspace = keyspace.root.value,
                                    .key = draft.parent_,
                                    .slot = ref,
                                    .now_ns = mover_ != nullptr ? now_ns() : 0,
                                    .place = slab_->place(ref)}));
  }
  const size_t filled = std::min(draft.filled_.size(), locations.size());
  draft.filled_.erase(draft.filled_.begin(), draft.filled_.begin() + static_cast<std::ptrdiff_t>(filled));
  draft.slots_.clear();
  draft.first_block_ += static_cast<uint32_t>(locations.size());
  return locations;
}

Result<size_t> Store::insert(Root root, Handle& handle, std::span<const Token> tokens, uint32_t first_block,
                             std::span<const Location> blocks) {
  std::vector<Location> canonical(blocks.size());
  Result<Inserted> inserted = index_.insert(root, handle, tokens, first_block, blocks, canonical);
  // What the index uses is paid for with the slots, but it may be full before they are: cut up, or given less address
  // space than memory.
  for (size_t evictions = kEvictionsPerBlock * blocks.size();
       !inserted && inserted.error().code == Code::kResourceExhausted && evictions > 0 && evict(1, false);
       --evictions) {
    inserted = index_.insert(root, handle, tokens, first_block, blocks, canonical);
  }
  if (!inserted) return fail(inserted.error());
  handle = std::move(inserted->handle);
  // The handle pins them.
  for (size_t i = 0; i + 1 < canonical.size(); ++i)
    table_.set_has_children(canonical[i]);
  forget(blocks.first(inserted->stored_before));
  return blocks.size() - inserted->stored_before;
}

size_t Store::commit(BlockDraft draft) {
  RHIZOME_CHECK(draft.store_ == this);
  const Opened& keyspace = *opened(draft.root_);
  const uint32_t first_block = draft.first_block_;
  const std::vector<Location> locations = seal_slots(keyspace, draft);
  size_t visible = 0;
  bool is_continued = true;
  if (!locations.empty()) {
    const uint32_t pinned_before = draft.prefix_.blocks();
    const auto tokens = std::span<const Token>(draft.tokens_).first(size_t{draft.first_block_} * options_.block_tokens);
    const Result<size_t> inserted = insert(draft.root_, draft.prefix_, tokens, first_block, locations);
    if (inserted) {
      visible = *inserted;
      count_pinned(keyspace, pinned_before, draft.prefix_.blocks());
      // The draft still pins it.
      if (draft.before_) table_.set_has_children(*draft.before_);
    } else {
      forget(locations);
      is_continued = false;
    }
  }
  if (is_continued) send_around(keyspace, draft);
  draft.abort();
  if (mover_ != nullptr) mover_->wake();
  return visible;
}

size_t Store::clear() {
  size_t blocks = 0;
  while (const size_t count = evict(kEvictionsPerBlock, false))
    blocks += count;
  slab_->trim();
  publish_used();
  return blocks;
}

size_t Store::clear(Root root) {
  if (opened(root) == nullptr) return 0;
  const auto is_its = [&](Location at) { return table_.is_of(at, root.value); };
  std::vector<Location> victims(kClearedAtOnce);
  size_t blocks = 0;
  while (const size_t count = index_.evict_all_if(victims, is_its)) {
    const auto gone = std::span(victims).first(count);
    counters_.add(Counter::kEvictions, count);
    // Also others, which had left the index before, when somebody still read them.
    blocks += static_cast<size_t>(std::ranges::count_if(gone, is_its));
    forget(gone);
  }
  slab_->trim();
  publish_used();
  return blocks;
}

void Store::observe_compute(uint64_t tokens, uint64_t before, double seconds) {
  if (mover_ != nullptr) mover_->observe_compute(tokens, before, seconds);
}

void Store::flush(uint64_t deadline_ns) {
  if (mover_ == nullptr) return;
  if (!thread_.joinable()) {
    mover_->flush(deadline_ns);
    publish_around();
    publish_used();
    return;
  }
  // The end of a process may come in the middle of anything, also while this very thread holds a lock of ours: the
  // store's thread does it, and no lock is taken to wait for it.
  flush_deadline_ns_.store(deadline_ns, std::memory_order_relaxed);
  const uint64_t asked = flushes_asked_.fetch_add(1, std::memory_order_acq_rel) + 1;
  while (flushes_done_.load(std::memory_order_acquire) < asked && now_ns() < deadline_ns)
    pause_thread(kFlushPollNs);
}

Store::Opened* Store::opened(Root root) const {
  if (root.value == 0 || root.value > options_.keyspaces_max) return nullptr;
  Opened* const found = opened_[root.value].load(std::memory_order_acquire);  // pairs with the release in open()
  return found != nullptr && found->root == root ? found : nullptr;
}

Identity Store::identity_of(const Opened& keyspace, std::span<const Token> prompt, uint32_t block,
                            const BlockKey& parent) const {
  const size_t position = size_t{block} * options_.block_tokens;
  return {.keyspace = keyspace.form.digest,
          .parent = parent,
          .position = static_cast<uint32_t>(position),
          .tokens = prompt.subspan(position, options_.block_tokens)};
}

BlockKey Store::key_before(const Opened& keyspace, std::span<const Location> stored) const {
  return stored.empty() ? keyspace.root_key : table_.key(stored.back());
}

void Store::release(StoredPrefix& prefix) {
  for (StoredPrefix::Held& held : prefix.held_)
    let_go(held);
  prefix.held_.clear();
  prefix.locations_.clear();
  prefix.loaded_ = 0;
  prefix.key_block_ = 0;
  if (prefix.handle_.empty()) return;
  const Opened* const keyspace = opened(prefix.root_);
  RHIZOME_CHECK(keyspace != nullptr);
  const uint32_t blocks = prefix.handle_.blocks();
  const Status released = index_.release(std::move(prefix.handle_));
  RHIZOME_CHECK(released.has_value());
  count_pinned(*keyspace, blocks, 0);
  reap();
}

void Store::abort(BlockDraft& draft) {
  draft.slots_.clear();
  for (Staging::Buffer& buffer : draft.buffers_)
    mover_->give_back(std::move(buffer));
  draft.buffers_.clear();
  if (!draft.prefix_.empty()) {
    const uint32_t blocks = draft.prefix_.blocks();
    const Status released = index_.release(std::move(draft.prefix_));
    RHIZOME_CHECK(released.has_value());
    count_pinned(*opened(draft.root_), blocks, 0);
    reap();
  }
  publish_used();
}

bool Store::step() {
  if (mover_ == nullptr) return false;
  note_remote_uses();
  bool any = mover_->step();
  any = publish_around() || any;
  if (mover_->take_gone()) forget_gone();
  if (table_.counts().below > below_max_) keep_below_bounded();
  if (any) bound_recovered();
  if (any) publish_used();
  return any;
}

void Store::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const uint64_t asked = flushes_asked_.load(std::memory_order_acquire);
    if (asked > flushes_done_.load(std::memory_order_relaxed)) {
      mover_->flush(flush_deadline_ns_.load(std::memory_order_relaxed));
      publish_around();
      publish_used();
      flushes_done_.store(asked, std::memory_order_release);
    }
    if (!step() && !stop.stop_requested()) mover_->rest(kRestNs);
  }
}

}  // namespace rhizome
