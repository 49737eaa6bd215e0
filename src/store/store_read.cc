// Looking up and reading: in memory without waiting, from the tier with a deadline.
#include <algorithm>
#include <utility>

#include "block/checksum.h"
#include "contract/check.h"
#include "slab/block_copy.h"
#include "store/store.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// A load is given up when computing would have been done twice; no sooner than this.
constexpr double kComputeTimes = 2;
constexpr uint64_t kLoadWaitMinNs = 250000000;
constexpr double kNanosecondsPerSecond = 1e9;

}  // namespace

void Store::lookup(Root root, std::span<const Token> prompt, StoredPrefix& prefix) {
  prefix.release();
  prefix.locations_.clear();
  const Opened* const keyspace = opened(root);
  if (keyspace == nullptr) {
    prefix.reason_ = Reason::kNotCacheable;
    return;
  }
  prefix.locations_.resize(prompt.size() / options_.block_tokens);
  Match match = index_.lookup(root, prompt, prefix.locations_);
  prefix.locations_.resize(match.blocks);
  count_pinned(*keyspace, 0, match.blocks);
  prefix.reason_ = index_.explain(root, prompt, match).reason;
  prefix.store_ = this;
  prefix.root_ = root;
  prefix.handle_ = std::move(match.handle);
}

uint32_t Store::peek(Root root, std::span<const Token> prompt) const {
  return opened(root) == nullptr ? 0 : index_.peek(root, prompt);
}

uint32_t Store::promote(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end) {
  return promote(prefix, prompt, first, end, true);
}

uint32_t Store::load(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end) {
  return promote(prefix, prompt, first, end, false);
}

LoadSplit Store::plan(const StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end) const {
  const size_t prompt_blocks = prompt.size() / options_.block_tokens;
  end = static_cast<uint32_t>(std::min<size_t>({end, prefix.blocks(), prompt_blocks}));
  LoadQuestion question{.block_tokens = options_.block_tokens};
  std::vector<uint32_t> below;
  for (uint32_t block = first; block < end && mover_ != nullptr; ++block) {
    const Location location = prefix.locations_[block];
    const BlockState state = table_.state(location);
    if (state == BlockState::kGone) end = block;
    if (state != BlockState::kBelow && state != BlockState::kLoading) continue;
    below.push_back(block);
    question.stored_bytes += table_.image_bytes(location);
  }
  LoadSplit split{.compute_from = end, .load_from = end, .end = end};
  if (below.empty()) return split;
  question.tokens = below.size() * options_.block_tokens;
  question.before = uint64_t{below.front()} * options_.block_tokens;
  question.bytes_in_flight = mover_->bytes_under_way();
  const LoadPlan plan = mover_->predict(question);
  const size_t computed = plan.split_compute_tokens / options_.block_tokens;
  split.compute_from = below.front();
  if (computed < below.size()) split.load_from = below[computed];
  split.compute_tokens = plan.split_compute_tokens;
  split.load_tokens = question.tokens - plan.split_compute_tokens;
  split.split_seconds = plan.split_seconds;
  split.load_seconds = plan.load_seconds;
  split.compute_seconds = plan.compute_seconds;
  return split;
}

uint32_t Store::promote(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end,
                        bool weighs) {
  const size_t prompt_blocks = prompt.size() / options_.block_tokens;
  end = static_cast<uint32_t>(std::min<size_t>({end, prefix.blocks(), prompt_blocks}));
  if (mover_ == nullptr || first >= end) return end;
  LoadQuestion question{.block_tokens = options_.block_tokens};
  uint32_t first_below = end;
  for (uint32_t block = first; block < end; ++block) {
    if (hold(prefix, block)) continue;
    if (first_below == end) first_below = block;
    question.stored_bytes += table_.image_bytes(prefix.locations_[block]);
    question.tokens += options_.block_tokens;
  }
  if (first_below == end) return end;
  question.before = uint64_t{first_below} * options_.block_tokens;
  question.bytes_in_flight = mover_->bytes_under_way();
  const LoadPlan plan = weighs ? mover_->plan(question) : mover_->predict(question);
  const bool loads = plan.load || !weighs;
  counters_.add(loads ? Counter::kDecisionsLoad : Counter::kDecisionsCompute);
  if (!loads) {
    prefix.reason_ = Reason::kLoadFailed;
    return first_below;
  }
  uint64_t wait = options_.tiering.load_wait_ns;
  if (plan.compute_seconds > 0) {
    wait =
        std::max(kLoadWaitMinNs, static_cast<uint64_t>(plan.compute_seconds * kComputeTimes * kNanosecondsPerSecond));
  }
  prefix.load_began_ns_ = now_ns();
  prefix.load_deadline_ns_ = prefix.load_began_ns_ + wait;
  return begin_loads(prefix, prompt, first_below, end, plan.load_seconds);
}

// Where there is no memory for a load, the prefix's part ends.
uint32_t Store::begin_loads(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t first, uint32_t end,
                            double predicted_seconds) {
  const Opened& keyspace = *opened(prefix.root_);
  std::vector<Mover::Load> loads;
  for (uint32_t block = first; block < end; ++block) {
    const Location location = prefix.locations_[block];
    prefix.held_[block].was_asked_for = true;
    const std::optional<BlockTable::Awaited> awaited = table_.await(location);
    if (!awaited) continue;  // it is here by now, or gone
    // One pin a block, however often it is asked for.
    if (prefix.held_[block].has_pin) table_.unpin(awaited->ref);
    prefix.held_[block].ref = awaited->ref;
    prefix.held_[block].has_pin = true;
    if (!awaited->begins) continue;
    std::optional<Reserved> slot = take_slot(keyspace);
    if (!slot) {
      table_.give_up_load(awaited->ref, false);
      end = block;
      break;
    }
    Mover::Load load;
    load.ref = awaited->ref;
    load.keyspace = keyspace.root.value;
    load.image_bytes = table_.image_bytes(location);
    load.parent = key_before(prefix, prompt, block);
    const Identity identity = identity_of(keyspace, prompt, block, load.parent);
    load.key = key_before(prefix, prompt, block + 1);
    load.position = identity.position;
    load.tokens.assign(identity.tokens.begin(), identity.tokens.end());
    load.slot = std::move(*slot);
    loads.push_back(std::move(load));
  }
  if (!loads.empty()) mover_->begin(std::move(loads), predicted_seconds, prefix.load_deadline_ns_);
  // Others have left for these slots, also where no load came of it.
  publish_used();
  return end;
}

Result<std::span<const std::byte>> Store::read(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t block,
                                               BlockCheck check) {
  if (block >= prefix.blocks()) return fail(Code::kOutOfRange, "the prefix has no such block");
  if (prompt.size() / options_.block_tokens <= block) return fail(Code::kOutOfRange, "the prompt has no such block");
  const Opened& keyspace = *opened(prefix.root_);
  const uint64_t copied_before = block_bytes_copied_here();
  if (!hold(prefix, block) && !await(prefix, prompt, block)) {
    end_before(prefix, block, Reason::kLoadFailed);
    return fail(Code::kUnavailable, "the block could not be loaded");
  }
  const Pinned& pinned = prefix.held_[block].pinned;
  const std::span<const std::byte> bytes = pinned.bytes();
  if (const uint64_t copied = block_bytes_copied_here() - copied_before; copied > 0) {
    counters_.add(Counter::kHitCopiedBytes, copied);
  }
  const char* wrong = nullptr;
  if (bytes.size() != keyspace.form.slot_bytes ||
      (check == BlockCheck::kIdentityAndChecksum && checksum(bytes) != pinned.checksum())) {
    counters_.add(Counter::kChecksumFailures);
    wrong = "checksum";
  } else if (!identity_matches(bytes.first(keyspace.form.identity_bytes),
                               identity_of(keyspace, prompt, block, key_before(prefix, prompt, block)))) {
    counters_.add(Counter::kIdentityMismatches);
    wrong = "identity";
  }
  if (wrong == nullptr) return bytes.subspan(keyspace.form.identity_bytes);
  quarantine(keyspace, prefix.handle_, block, wrong);
  end_before(prefix, block, Reason::kCorrupt);
  return fail(Code::kDataLoss, "a stored block did not verify");
}

// True: the block is in memory, and stays there while the prefix is held.
bool Store::hold(StoredPrefix& prefix, uint32_t block) {
  if (prefix.held_.size() < prefix.blocks()) prefix.held_.resize(prefix.blocks());
  StoredPrefix::Held& held = prefix.held_[block];
  if (held.is_held) return true;
  std::optional<SlotRef> slot;
  if (held.has_pin) {
    slot = table_.slot_of(held.ref);
  } else if (const auto found = table_.pin(prefix.locations_[block])) {
    held.ref = found->ref;
    held.has_pin = true;
    slot = found->slot;
  }
  if (!slot) return false;
  // The table lets no pinned block leave, and the handle none become another.
  Result<Pinned> pinned = slab_->pin(*slot);
  RHIZOME_CHECK(pinned.has_value());
  held.pinned = std::move(*pinned);
  held.is_held = true;
  if (held.was_asked_for) ++prefix.loaded_;
  return true;
}

// One attempt for each request: what promote() began, or one made here.
bool Store::await(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t block) {
  if (mover_ == nullptr) return false;
  const Location location = prefix.locations_[block];
  if (!prefix.held_[block].was_asked_for) {
    prefix.load_began_ns_ = now_ns();
    prefix.load_deadline_ns_ = prefix.load_began_ns_ + options_.tiering.load_wait_ns;
    begin_loads(prefix, prompt, block, block + 1, 0);
  }
  while (table_.state(location) == BlockState::kLoading && now_ns() < prefix.load_deadline_ns_) {
    if (options_.tiering.background || !step()) mover_->wait(location, prefix.load_deadline_ns_ - now_ns());
  }
  if (hold(prefix, block)) return true;
  if (table_.state(location) == BlockState::kLoading) {
    mover_->observe_late(table_.image_bytes(location), now_ns() - prefix.load_began_ns_);
  }
  if (mover_->take_gone()) forget_gone();
  return false;
}

void Store::let_go(StoredPrefix::Held& held) {
  held.pinned.release();
  if (held.has_pin) table_.unpin(held.ref);
  held = {};
}

void Store::end_before(StoredPrefix& prefix, uint32_t block, Reason reason) {
  for (size_t at = block; at < prefix.held_.size(); ++at)
    let_go(prefix.held_[at]);
  prefix.held_.resize(std::min<size_t>(prefix.held_.size(), block));
  prefix.locations_.resize(block);
  prefix.reason_ = reason;
}

const BlockKey& Store::key_before(StoredPrefix& prefix, std::span<const Token> prompt, uint32_t block) const {
  if (prefix.key_block_ == 0 || prefix.key_block_ > block) {
    prefix.key_ = root_key_of(prefix.root_);
    prefix.key_block_ = 0;
  }
  for (; prefix.key_block_ < block; ++prefix.key_block_) {
    const size_t at = size_t{prefix.key_block_} * options_.block_tokens;
    prefix.key_ = next_key(prefix.key_, prompt.subspan(at, options_.block_tokens));
  }
  return prefix.key_;
}

void Store::quarantine(const Opened& keyspace, const Handle& handle, uint32_t block, const char* what) {
  const size_t blocks = index_.remove(handle, block);
  reap();
  if (blocks == 0) return;  // somebody else found it first
  counters_.add(Counter::kQuarantines, blocks);
  log_once(what,
           "a stored block did not verify ({}): {} blocks of keyspace {} are forgotten and will be computed again",
           what, blocks, hex(keyspace.form.digest, 6));
}

}  // namespace rhizome
