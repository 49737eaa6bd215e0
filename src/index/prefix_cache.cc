#include "index/prefix_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "concurrency/mutex.h"
#include "concurrency/thread_slot.h"
#include "contract/check.h"
#include "index/cached_blocks.h"
#include "index/index.h"
#include "index/partial_tails.h"

namespace rhizome {
namespace {

// The tags of an encoding. What is absent has no frame.
constexpr uint16_t kTagBase = 1;
constexpr uint16_t kTagAdapter = 2;
constexpr uint16_t kTagMedia = 3;

void append_number(std::vector<std::byte>& out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i)
    out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

void append_frame(std::vector<std::byte>& out, uint16_t tag, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  append_number(out, tag, sizeof tag);
  append_number(out, bytes.size(), sizeof(uint32_t));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

Status check_given(const SequenceBlocks& given, size_t first_block, size_t total, bool tail_expected) {
  const auto lacks_place = [](uint32_t block) { return block == kNoBlock; };
  if (first_block + given.blocks.size() != total ||
      (!given.disk_block_ids.empty() && given.disk_block_ids.size() != given.blocks.size())) {
    return fail(Code::kInvalidArgument, "tokens and blocks do not fit together");
  }
  if (std::any_of(given.blocks.begin(), given.blocks.end(), lacks_place)) {
    return fail(Code::kInvalidArgument, "a block without a place");
  }
  if ((given.tail_block != kNoBlock && !tail_expected) ||
      (given.tail_block == kNoBlock && given.tail_disk_block_id != kNoBlock)) {
    return fail(Code::kInvalidArgument, "a tail without tokens or without a place");
  }
  return {};
}

}  // namespace

std::vector<std::byte> encode(const KeyspaceParts& parts) {
  std::vector<std::byte> out;
  append_frame(out, kTagBase, parts.base);
  std::vector<std::byte> adapter;
  if (parts.adapter != 0) append_number(adapter, parts.adapter, sizeof parts.adapter);
  append_frame(out, kTagAdapter, adapter);
  append_frame(out, kTagMedia, parts.media);
  return out;
}

uint64_t usable_tokens(uint64_t matched_tokens, uint64_t prompt_tokens, uint64_t tail, uint32_t block_tokens) {
  const uint64_t computed = std::min(std::max<uint64_t>(tail, 1), prompt_tokens);
  const uint64_t limit = prompt_tokens - computed;
  return matched_tokens <= limit ? matched_tokens : limit / block_tokens * block_tokens;
}

PrefixHandle& PrefixHandle::operator=(PrefixHandle&& other) noexcept {
  pin_ = std::move(other.pin_);
  cache_ = std::exchange(other.cache_, nullptr);
  root_ = other.root_;
  generation_ = other.generation_;
  last_ = std::exchange(other.last_, kNoBlock);
  holds_tail_ = std::exchange(other.holds_tail_, false);
  return *this;
}

struct PrefixCache::State {
  explicit State(const PrefixCacheOptions& options)
      : index({.block_tokens = options.block_tokens,
               .roots_max = options.roots_max,
               .memory_bytes = options.index_bytes,
               .recency = options.recency,
               .kernels = options.kernels}),
        blocks(options.blocks_max),
        tails(options.partial_tails ? std::make_unique<PartialTails>() : nullptr),
        clears(uint64_t{options.roots_max} + 1) {}

  // Changes with each clear() of the keyspace and with each epoch. A look-up reads it before it looks, and clear()
  // changes it after it cleared: a look-up that saw the old blocks has the old number.
  uint64_t generation(Root root) const {
    const uint64_t cleared = root.value < clears.size() ? clears[root.value].load(std::memory_order_acquire) : 0;
    return cleared + epochs.load(std::memory_order_acquire);
  }
  void count_lookup(bool hit) {
    Count& count = counts[thread_slot()];
    (hit ? count.hits : count.misses).fetch_add(1, std::memory_order_relaxed);
  }

  // A line for each thread: look-ups of one prefix share nothing that they write but the index's pins.
  struct alignas(64) Count {
    std::atomic<uint64_t> hits{0};
    std::atomic<uint64_t> misses{0};
  };

  Index index;
  CachedBlocks blocks;
  const std::unique_ptr<PartialTails> tails;  // none: off
  // Held by inserts, and alone by what makes blocks unreachable: no insert comes between the check of its handle's
  // generation and the index.
  SharedMutex clearing;
  std::vector<std::atomic<uint64_t>> clears;  // by root
  std::atomic<uint64_t> epochs{0};
  std::array<Count, kThreadSlots> counts;
};

// An insert, from the beginning of the prompt or from the end of what the handle holds.
struct PrefixCache::Addition {
  std::span<const Token> tokens;  // whole blocks
  std::span<const Token> tail;
  uint32_t first_block = 0;
  uint32_t total = 0;  // blocks of the prompt
  bool from_handle = false;
  const SequenceBlocks& given;
};

PrefixCache::PrefixCache(const PrefixCacheOptions& options)
    : block_tokens_(options.block_tokens), state_(options.active ? std::make_unique<State>(options) : nullptr) {}

PrefixCache::~PrefixCache() = default;

// --- keyspaces

Result<Root> PrefixCache::open(const KeyspaceParts& parts) {
  if (parts.base.size() > UINT32_MAX || parts.media.size() > UINT32_MAX) {
    return fail(Code::kInvalidArgument, "a part of a keyspace is too long");
  }
  if (!is_active()) return Root();
  return state_->index.open(encode(parts));
}

Status PrefixCache::close(Root root) {
  if (!is_active()) return {};
  WriterLock lock(state_->clearing);
  const Status closed = state_->index.close(root);
  if (closed) state_->clears[root.value].fetch_add(1, std::memory_order_release);  // pairs with generation()
  return closed;
}

Status PrefixCache::clear(Root root) {
  if (!is_active()) return {};
  WriterLock lock(state_->clearing);
  const Status cleared = state_->index.clear(root);
  if (cleared) state_->clears[root.value].fetch_add(1, std::memory_order_release);  // pairs with generation()
  return cleared;
}

void PrefixCache::start_epoch() {
  if (!is_active()) return;
  WriterLock lock(state_->clearing);
  state_->index.start_epoch();
  state_->epochs.fetch_add(1, std::memory_order_release);  // pairs with generation()
}

// --- look-ups

PrefixMatch PrefixCache::lookup(Root root, std::span<const Token> tokens, const MatchRoom& room) {
  if (!is_active()) return {};
  PrefixHandle handle;
  handle.cache_ = this;
  handle.root_ = root;
  handle.generation_ = state_->generation(root);
  Match match = state_->index.lookup(root, tokens, room.blocks);
  handle.pin_ = std::move(match.handle);
  return finish_match(std::move(handle), tokens, match.blocks, room);
}

// The index has written `found` entries into the room, for the blocks at the beginning of `tokens`.
PrefixMatch PrefixCache::finish_match(PrefixHandle handle, std::span<const Token> tokens, size_t found,
                                      const MatchRoom& room) {
  State& state = *state_;
  RHIZOME_CHECK(room.disk_block_ids.empty() || room.disk_block_ids.size() >= found);
  if (found > 0) handle.last_ = room.blocks[found - 1];
  const bool with_disk = !room.disk_block_ids.empty();
  for (size_t i = 0; i < found; ++i) {
    const Location entry = room.blocks[i];
    room.blocks[i] = state.blocks.block(entry);
    if (with_disk) room.disk_block_ids[i] = state.blocks.disk_block_id(entry);
  }
  PrefixMatch match;
  match.blocks = handle.blocks();
  if (state.tails != nullptr && match.blocks > 0) {
    match.tail = state.tails->pin(handle.last_, tokens.subspan(found * block_tokens_));
    handle.holds_tail_ = match.tail.tokens > 0;
  }
  match.matched_tokens = uint64_t{match.blocks} * block_tokens_ + match.tail.tokens;
  state.count_lookup(match.blocks > 0);
  match.handle = std::move(handle);
  return match;
}

uint64_t PrefixCache::peek(Root root, std::span<const Token> tokens) const {
  return is_active() ? uint64_t{state_->index.peek(root, tokens)} * block_tokens_ : 0;
}

PrefixMatch PrefixCache::resume(PrefixHandle& handle, std::span<const Token> rest, const MatchRoom& room) {
  if (!is_active() || handle.cache_ == nullptr) return {};
  RHIZOME_CHECK(handle.cache_ == this);
  State& state = *state_;
  PrefixHandle next = std::move(handle);
  if (next.generation_ != state.generation(next.root_)) {
    const Status released = release(std::move(next));
    RHIZOME_CHECK(released.has_value());
    state.count_lookup(false);
    return {};
  }
  const uint32_t before = next.blocks();
  const Location parent = next.last_;
  const bool held_tail = next.holds_tail_;
  Match match = state.index.resume(next.root_, next.pin_, rest, room.blocks);
  next.pin_ = std::move(match.handle);
  next.holds_tail_ = false;
  PrefixMatch found = finish_match(std::move(next), rest, match.blocks - before, room);
  if (held_tail) state.tails->unpin(parent);
  return found;
}

// --- inserts

Result<PrefixInserted> PrefixCache::insert(Root root, PrefixHandle& handle, std::span<const Token> tokens,
                                           uint32_t first_block, const SequenceBlocks& given) {
  const size_t total = tokens.size() / block_tokens_;
  const size_t whole = total * block_tokens_;
  if (total > UINT32_MAX) return fail(Code::kInvalidArgument, "a prompt of too many blocks");
  if (const Status fits = check_given(given, first_block, total, whole < tokens.size()); !fits) {
    return fail(fits.error());
  }
  return add(root, handle,
             {tokens.first(whole), tokens.subspan(whole), first_block, static_cast<uint32_t>(total), false, given});
}

Result<PrefixInserted> PrefixCache::extend(PrefixHandle& handle, std::span<const Token> rest,
                                           const SequenceBlocks& given) {
  const size_t more = rest.size() / block_tokens_;
  const size_t whole = more * block_tokens_;
  const uint64_t total = uint64_t{handle.blocks()} + more;
  if (total > UINT32_MAX) return fail(Code::kInvalidArgument, "a prompt of too many blocks");
  if (const Status fits = check_given(given, 0, more, whole < rest.size()); !fits) return fail(fits.error());
  if (is_active() && handle.cache_ == nullptr) return fail(Code::kFailedPrecondition, "a handle of no keyspace");
  return add(handle.root_, handle,
             {rest.first(whole), rest.subspan(whole), handle.blocks(), static_cast<uint32_t>(total), true, given});
}

Result<PrefixInserted> PrefixCache::add(Root root, PrefixHandle& handle, const Addition& addition) {
  PrefixInserted out;
  if (!is_active()) return out;
  State& state = *state_;
  if (handle.blocks() > addition.total) return fail(Code::kInvalidArgument, "the handle holds more than the prompt");
  ReaderLock lock(state.clearing);
  const uint64_t generation = state.generation(root);
  if (handle.cache_ != nullptr && (handle.cache_ != this || handle.root_ != root || handle.generation_ != generation)) {
    return fail(Code::kFailedPrecondition, "a handle of another cache, keyspace or epoch");
  }
  const bool has_tail = state.tails != nullptr && addition.given.tail_block != kNoBlock;
  if (addition.given.blocks.empty()) {
    if (handle.blocks() < addition.total) return fail(Code::kFailedPrecondition, "the blocks before are not held");
    if (!has_tail || addition.total == 0) return out;
  }
  const Location parent = handle.last_;
  if (const Status added = add_blocks(root, handle, addition, out); !added) return fail(added.error());
  if (handle.holds_tail_) {
    state.tails->unpin(parent);
    handle.holds_tail_ = false;
  }
  handle.cache_ = this;
  handle.root_ = root;
  handle.generation_ = generation;
  if (has_tail) {
    handle.holds_tail_ = state.tails->store(handle.last_, addition.tail, addition.given.tail_block,
                                            addition.given.tail_disk_block_id, out.acquired);
  }
  return out;
}

Status PrefixCache::add_blocks(Root root, PrefixHandle& handle, const Addition& addition, PrefixInserted& out) {
  State& state = *state_;
  const SequenceBlocks& given = addition.given;
  const size_t count = given.blocks.size();
  if (count == 0) return {};
  // Only what the handle does not hold needs an entry; the index looks up those of the others.
  const size_t held = std::min<size_t>(count, std::max(addition.first_block, handle.blocks()) - addition.first_block);
  std::vector<Location> entries(count, kNoBlock);
  const std::span<Location> fresh = std::span(entries).subspan(held);
  if (!state.blocks.take(given.blocks.subspan(held), fresh)) {
    return fail(Code::kResourceExhausted, "as many blocks are stored as may be");
  }
  out.canonical.resize(count);
  Result<Inserted> inserted =
      addition.from_handle
          ? state.index.extend(root, handle.pin_, addition.tokens, entries, out.canonical)
          : state.index.insert(root, handle.pin_, addition.tokens, addition.first_block, entries, out.canonical);
  if (!inserted) {
    state.blocks.give_back(fresh);
    return fail(inserted.error());
  }
  // Nobody takes away what a handle holds, while clear() and its like are kept out.
  RHIZOME_CHECK(inserted->stored_before >= held);
  state.blocks.give_back(fresh.first(inserted->stored_before - held));
  handle.pin_ = std::move(inserted->handle);
  handle.last_ = out.canonical.back();
  out.stored_before = inserted->stored_before;
  out.split_at = inserted->split_at;
  const std::span<const uint32_t> fresh_blocks = given.blocks.subspan(out.stored_before);
  out.acquired.blocks.assign(fresh_blocks.begin(), fresh_blocks.end());
  for (size_t i = 0; i < count; ++i) {
    const Location entry = out.canonical[i];
    if (!given.disk_block_ids.empty() && state.blocks.name_on_disk(entry, given.disk_block_ids[i])) {
      out.acquired.disk_block_ids.push_back(given.disk_block_ids[i]);
    }
    out.canonical[i] = state.blocks.block(entry);
  }
  return {};
}

// --- letting go

Status PrefixCache::release(PrefixHandle&& handle) {
  if (handle.cache_ == nullptr) return {};
  if (handle.cache_ != this) return fail(Code::kFailedPrecondition, "a handle of another cache");
  if (handle.holds_tail_) state_->tails->unpin(handle.last_);
  handle.holds_tail_ = false;
  handle.last_ = kNoBlock;
  handle.cache_ = nullptr;
  return state_->index.release(std::move(handle.pin_));
}

Status PrefixCache::release_matched(PrefixHandle&& handle, uint64_t matched_tokens) {
  if (uint64_t{handle.blocks()} * block_tokens_ > matched_tokens) {
    return fail(Code::kInvalidArgument, "the handle holds more than matched");
  }
  return release(std::move(handle));
}

// The blocks of these entries, which are nobody's now.
EvictedBlocks PrefixCache::give_up(std::span<const Location> entries) {
  State& state = *state_;
  EvictedBlocks evicted;
  evicted.physical.reserve(entries.size());
  for (const Location entry : entries) {
    if (state.tails != nullptr) state.tails->take(entry, evicted);
    evicted.physical.push_back(state.blocks.block(entry));
    if (const uint32_t id = state.blocks.disk_block_id(entry); id != kNoBlock) evicted.disk_block_ids.push_back(id);
  }
  state.blocks.give_back(entries);
  return evicted;
}

EvictedBlocks PrefixCache::evict(size_t blocks_max) {
  if (!is_active() || blocks_max == 0) return {};
  State& state = *state_;
  std::vector<Location> out(std::min<uint64_t>(blocks_max, state.blocks.count()));
  const size_t reaped = state.index.reap(out);
  const size_t evicted = state.index.evict(std::span(out).subspan(reaped));
  return give_up(std::span(out).first(reaped + evicted));
}

EvictedBlocks PrefixCache::reap(size_t blocks_max) {
  if (!is_active() || blocks_max == 0) return {};
  State& state = *state_;
  std::vector<Location> out(std::min<uint64_t>(blocks_max, state.blocks.count()));
  return give_up(std::span(out).first(state.index.reap(out)));
}

// --- numbers

PrefixCounters PrefixCache::counters() const {
  PrefixCounters counters;
  if (!is_active()) return counters;
  for (const State::Count& count : state_->counts) {
    counters.hits += count.hits.load(std::memory_order_relaxed);
    counters.misses += count.misses.load(std::memory_order_relaxed);
  }
  counters.lookups = counters.hits + counters.misses;
  return counters;
}

PrefixUsage PrefixCache::usage() const {
  if (!is_active()) return {};
  const IndexUsage index = state_->index.usage();
  return {.blocks = index.blocks,
          .removed_blocks = index.removed_blocks,
          .tails = state_->tails != nullptr ? state_->tails->count() : 0,
          .entries = state_->blocks.count()};
}

IndexPins PrefixCache::pins() const {
  return is_active() ? state_->index.pins({}) : IndexPins();
}

}  // namespace rhizome
