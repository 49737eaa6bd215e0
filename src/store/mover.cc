#include "store/mover.h"

#include <algorithm>
#include <utility>

#include "block/checksum.h"
#include "contract/check.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

constexpr size_t kCollectedAtOnce = 32;
constexpr uint64_t kWritesUnderWayMax = 8;
// What is not written because the budget is used up is asked about again after so long.
constexpr uint64_t kBudgetPauseNs = 100000000;
constexpr size_t kDemotedAtOnce = 64;
constexpr size_t kLooksPerDemotion = 1024;
// A reader looks again after so long, whatever he was told.
constexpr uint64_t kWaitAtOnceNs = 100000000;
constexpr uint64_t kRestMinNs = 20000000;
constexpr uint64_t kRestInTierMaxNs = 20000000;
constexpr double kNanosecondsPerSecond = 1e9;

uint64_t nanoseconds(double seconds) {
  return static_cast<uint64_t>(std::max(seconds, 0.0) * kNanosecondsPerSecond);
}

}  // namespace

Mover::Mover(std::unique_ptr<Tier> tier, Slab& slab, uint64_t slots_bytes, BlockTable& table, Demotion& demotion,
             Counters& counters, const TieringOptions& options)
    : options_(options),
      clock_(options.clock != nullptr ? *options.clock : real_clock()),
      tier_(std::move(tier)),
      slab_(slab),
      slots_bytes_(slots_bytes),
      table_(table),
      demotion_(demotion),
      counters_(counters),
      staging_(options.staging_bytes),
      admission_(options.admission) {
  RHIZOME_CHECK(options.watermarks.low <= options.watermarks.high && options.watermarks.high <= 100);
  publish_usage();
}

Mover::~Mover() {
  // The tier's requests point into our buffers: all must come back.
  std::vector<uint64_t> tags;
  {
    const MutexLock lock(mutex_);
    for (const auto& [tag, flight] : flights_)
      tags.push_back(tag);
  }
  for (const uint64_t tag : tags)
    tier_->cancel(tag);
  const MutexLock step(step_mutex_);
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (flights_.empty()) return;
    }
    TierCompletion completions[kCollectedAtOnce];
    const size_t count = tier_->collect(completions, kRestInTierMaxNs);
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < count; ++i)
      flights_.erase(completions[i].tag);
  }
}

void Mover::open(uint32_t keyspace, const KeyspaceForm& form) {
  const uint64_t image_bytes = image_room_bytes(form.geometry, default_codec(form.geometry.element_type));
  const MutexLock lock(mutex_);
  forms_.emplace(keyspace, form);
  read_room_most_ = std::max(read_room_most_, tier_->read_room_bytes(image_bytes));
}

// Forms are never changed or removed, and their addresses stay.
const KeyspaceForm& Mover::form(uint32_t keyspace) const {
  const MutexLock lock(mutex_);
  const auto found = forms_.find(keyspace);
  RHIZOME_CHECK(found != forms_.end());
  return found->second;
}

// --- loads

void Mover::begin(std::vector<Load> loads, double predicted_seconds, uint64_t deadline_ns) {
  Batch batch{.began_ns = clock_.monotonic_ns(), .left = loads.size(), .predicted_seconds = predicted_seconds};
  {
    const MutexLock lock(mutex_);
    const uint64_t id = ++last_batch_;
    for (Load& load : loads) {
      batch.bytes += load.image_bytes;
      Flight flight;
      flight.kind = Kind::kLoad;
      flight.key = load.key;
      flight.ref = load.ref;
      flight.keyspace = load.keyspace;
      flight.load = std::move(load);
      flight.batch = id;
      flight.deadline_ns = deadline_ns;
      waiting_.push_back(std::move(flight));
    }
    bytes_under_way_ += batch.bytes;
    batches_.emplace(id, batch);
  }
  submit_loads();
  wake();
}

bool Mover::submit_loads() {
  bool any = false;
  for (;;) {
    Flight flight;
    {
      const MutexLock lock(mutex_);
      if (waiting_.empty()) return any;
      flight = std::move(waiting_.front());
      waiting_.pop_front();
    }
    if (clock_.monotonic_ns() >= flight.deadline_ns) {
      give_up(flight, false);
      any = true;
      continue;
    }
    flight.buffer = staging_.take(tier_->read_room_bytes(flight.load.image_bytes));
    if (!flight.buffer) {
      const MutexLock lock(mutex_);
      waiting_.push_front(std::move(flight));
      return any;
    }
    const std::span<std::byte> into = flight.buffer.bytes();
    if (!submit(std::move(flight), into, {})) return any;
    any = true;
  }
}

// False: the tier is busy, and a load is the first to wait again.
bool Mover::submit(Flight flight, std::span<std::byte> into, std::span<const std::byte> from) {
  TierRequest request{.key = flight.key, .into = into, .from = from, .deadline_ns = flight.deadline_ns};
  const Kind kind = flight.kind;
  request.operation = kind == Kind::kLoad    ? TierOperation::kRead
                      : kind == Kind::kFind  ? TierOperation::kFind
                      : kind == Kind::kWrite ? TierOperation::kWrite
                                             : TierOperation::kRemove;
  {
    const MutexLock lock(mutex_);
    request.tag = ++last_tag_;
    flights_.emplace(request.tag, std::move(flight));
  }
  if (tier_->submit(std::span(&request, 1)) == 1) return true;
  Flight back;
  {
    const MutexLock lock(mutex_);
    const auto found = flights_.find(request.tag);
    back = std::move(found->second);
    flights_.erase(found);
  }
  staging_.give_back(std::exchange(back.buffer, {}));
  if (kind == Kind::kLoad) {
    const MutexLock lock(mutex_);
    waiting_.push_front(std::move(back));
  } else if (kind != Kind::kRemove) {
    write_is_over(back, false, true);
  }
  return false;
}

void Mover::wait(Location location, uint64_t at_most_ns) {
  const MutexLock lock(mutex_);
  // Whoever lands it does so before he takes the mutex to tell.
  if (table_.state(location) != BlockState::kLoading) return;
  changed_.wait_for(mutex_, std::min(at_most_ns, options_.background ? kWaitAtOnceNs : kRestMinNs / 20));
}

void Mover::finish_load(Flight flight, const TierCompletion& completion) {
  const uint64_t now = clock_.monotonic_ns();
  if (completion.outcome != TierOutcome::kDone) {
    if (completion.outcome == TierOutcome::kFailed && completion.error.code == Code::kDataLoss) {
      counters_.add(Counter::kChecksumFailuresTier);
    }
    // A wrong size: it is another image than the one that was promised.
    const bool is_gone = completion.outcome == TierOutcome::kMissing || completion.outcome == TierOutcome::kTooSmall ||
                         (completion.outcome == TierOutcome::kFailed && completion.error.code == Code::kDataLoss);
    give_up(flight, is_gone);
    return;
  }
  counters_.add(Counter::kBytesReadTier, completion.bytes);
  const std::span<const std::byte> image = flight.buffer.bytes().subspan(completion.offset, completion.bytes);
  const std::optional<SlotRef> slot = decode(flight, image);
  if (!slot) {
    forget_below(std::span(&flight.key, 1));
    give_up(flight, true);
    return;
  }
  if (table_.land(flight.ref, *slot, options_.is_inclusive, now, slab_.place(*slot))) {
    counters_.add(Counter::kPromotions);
    if (!options_.is_inclusive) forget_below(std::span(&flight.key, 1));
  } else {
    const Status freed = slab_.free(*slot);
    RHIZOME_CHECK(freed.has_value());
  }
  staging_.give_back(std::exchange(flight.buffer, {}));
  load_is_over(flight, false);
}

std::optional<SlotRef> Mover::decode(Flight& flight, std::span<const std::byte> image) {
  const KeyspaceForm& keyspace = form(flight.keyspace);
  const Load& load = flight.load;
  ImageRequest request;
  request.content = {.geometry = keyspace.geometry,
                     .identity = {.keyspace = keyspace.digest,
                                  .parent = load.parent,
                                  .position = load.position,
                                  .tokens = load.tokens},
                     .key = load.key};
  request.raw_bytes_max = UINT32_MAX;
  const std::span<std::byte> slot = flight.load.slot.bytes();
  const Result<CheckedImage> checked =
      check_image(image, request, tier_->verifies_reads() ? ImageCheck::kByTheCaller : ImageCheck::kDigest);
  const Status decoded = checked ? decode_image(*checked, workspace_, slot.subspan(keyspace.identity_bytes))
                                 : Status(tl::unexpected(checked.error()));
  if (!decoded) {
    counters_.add(Counter::kIdentityMismatchesTier);
    counters_.add(Counter::kQuarantines);
    log_once("load",
             "a block in the {} tier is not what was asked for ({}): it is forgotten and will be computed again",
             tier_->name(), decoded.error().reason);
    return std::nullopt;
  }
  encode_identity(request.content.identity, slot.first(keyspace.identity_bytes));
  const uint64_t sum = checksum(slot);
  return slab_.commit(std::move(flight.load.slot), sum);
}

void Mover::give_up(Flight& flight, bool is_gone) {
  flight.load.slot.abort();
  staging_.give_back(std::exchange(flight.buffer, {}));
  counters_.add(Counter::kLoadsFailed);
  table_.give_up_load(flight.ref, is_gone);
  if (is_gone) gone_.store(true, std::memory_order_release);
  load_is_over(flight, true);
}

void Mover::load_is_over(const Flight& flight, bool failed) {
  const uint64_t now = clock_.monotonic_ns();
  const MutexLock lock(mutex_);
  bytes_under_way_ -= flight.load.image_bytes;
  changed_.notify_all();
  const auto found = batches_.find(flight.batch);
  Batch& batch = found->second;
  batch.failed = batch.failed || failed;
  if (--batch.left > 0) return;
  if (!batch.failed) {
    const uint64_t took_ns = now - batch.began_ns;
    model_.observe_load(batch.bytes, static_cast<double>(took_ns) / kNanosecondsPerSecond, now);
    if (batch.predicted_seconds > 0) {
      counters_.add(Counter::kLoadPredicted, nanoseconds(batch.predicted_seconds));
      counters_.add(Counter::kLoadActual, took_ns);
    }
  }
  batches_.erase(found);
}

void Mover::observe_late(uint64_t bytes, uint64_t waited_ns) {
  const MutexLock lock(mutex_);
  model_.observe_load(bytes, static_cast<double>(waited_ns) / kNanosecondsPerSecond, clock_.monotonic_ns());
}

LoadPlan Mover::plan(const LoadQuestion& question) {
  const MutexLock lock(mutex_);
  model_.forget_old_loads(clock_.monotonic_ns());
  return model_.plan(question);
}

LoadPlan Mover::predict(const LoadQuestion& question) const {
  const MutexLock lock(mutex_);
  return model_.predict(question);
}

void Mover::observe_compute(uint64_t tokens, uint64_t before, double seconds) {
  const uint64_t now = clock_.monotonic_ns();
  const MutexLock lock(mutex_);
  if (model_.compute_cost().is_known()) {
    counters_.add(Counter::kComputePredicted, nanoseconds(model_.compute_cost().seconds(tokens, before)));
    counters_.add(Counter::kComputeActual, nanoseconds(seconds));
  }
  model_.observe_compute(tokens, before, seconds, now);
}

uint64_t Mover::bytes_under_way() const {
  const MutexLock lock(mutex_);
  return bytes_under_way_;
}

// --- writes

bool Mover::write_behind(bool demotes) {
  bool any = false;
  if (clock_.monotonic_ns() < no_write_before_ns_) return false;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (writes_under_way_ >= kWritesUnderWayMax) return any;
    }
    const std::optional<bool> began = write_one(demotes);
    if (!began.value_or(false)) return any;
    any = true;
  }
}

WriteDecision Mover::decide(WriteCandidate candidate, const KeyspaceForm& keyspace, uint64_t now_ns) {
  candidate.bytes = keyspace.slot_bytes;
  const auto tokens = static_cast<uint64_t>(keyspace.geometry.tokens_count);
  const MutexLock lock(mutex_);
  model_.forget_old_loads(now_ns);
  if (model_.compute_cost().is_known() && model_.load_cost().is_known() && tokens > 0) {
    // A block is loaded with others: the latency of a load alone says nothing about it.
    candidate.load_seconds = static_cast<double>(candidate.bytes) / model_.load_cost().bytes_per_second();
    candidate.compute_seconds = model_.compute_cost().seconds(tokens, 0);
  }
  return admission_.decide(candidate, now_ns);
}

// Nothing: there is no block to write. False: none that may be written now.
std::optional<bool> Mover::write_one(bool demotes) {
  const uint64_t now = clock_.monotonic_ns();
  const bool hurry = demotes || is_flushing_.load(std::memory_order_relaxed);
  const uint64_t age_min = hurry ? 0 : options_.admission.unused_wait_ns;
  std::optional<BlockTable::Unwritten> block = table_.next_unwritten(now, age_min);
  if (!block) return std::nullopt;
  const WriteDecision decision = decide({.age_ns = hurry ? options_.admission.unused_wait_ns : block->age_ns,
                                         .uses = block->uses,
                                         .asked_for = block->asked_for,
                                         .has_children = block->has_children},
                                        form(block->keyspace), now);
  Flight flight;
  flight.kind = Kind::kFind;
  flight.key = block->key;
  flight.ref = block->ref;
  flight.keyspace = block->keyspace;
  flight.demotes = demotes;
  Result<Pinned> pinned = slab_.pin(block->slot);
  if (decision != WriteDecision::kNow || !pinned) {
    if (decision == WriteDecision::kNever) counters_.add(Counter::kWritesDeclined);
    table_.write_later(block->ref, decision == WriteDecision::kLater && pinned);
    if (decision == WriteDecision::kLater) no_write_before_ns_ = now + kBudgetPauseNs;
    return decision == WriteDecision::kNever;
  }
  flight.source = std::move(*pinned);
  {
    const MutexLock lock(mutex_);
    ++writes_under_way_;
  }
  return submit(std::move(flight), {}, {});
}

void Mover::finish_find(Flight flight, const TierCompletion& completion) {
  if (completion.outcome == TierOutcome::kDone) {
    flight.image_bytes = completion.bytes;
    write_is_over(flight, true, false);
    return;
  }
  const KeyspaceForm& keyspace = form(flight.keyspace);
  const std::span<const std::byte> slot =
      flight.around ? flight.around->buffer.bytes().first(keyspace.slot_bytes) : flight.source.bytes();
  const uint64_t sum = flight.around ? flight.around->checksum : flight.source.checksum();
  // What rots in memory must not become a verified image.
  if (completion.outcome != TierOutcome::kMissing || checksum(slot) != sum) {
    write_is_over(flight, false, false);
    return;
  }
  const Codec codec = default_codec(keyspace.geometry.element_type);
  flight.buffer = staging_.take(image_room_bytes(keyspace.geometry, codec));
  if (!flight.buffer) {
    write_is_over(flight, false, true);
    return;
  }
  const Result<IdentityRecord> head =
      decode_identity(slot.first(keyspace.identity_bytes), keyspace.geometry.tokens_count);
  RHIZOME_CHECK(head.has_value());  // the checksum says that it is what commit() wrote
  const ImageContent content{.geometry = keyspace.geometry, .identity = head->identity(), .key = flight.key};
  const ImageDigest digest = tier_->verifies_reads() ? ImageDigest::kLeaveOut : ImageDigest::kWrite;
  const Result<size_t> size =
      encode_image(content, codec, digest, slot.subspan(keyspace.identity_bytes), workspace_, flight.buffer.bytes());
  if (!size) {
    log_once("encode", "blocks are not written to the {} tier: {}", tier_->name(), size.error().reason);
    write_is_over(flight, false, false);
    return;
  }
  flight.kind = Kind::kWrite;
  flight.image_bytes = *size;
  {
    const MutexLock lock(mutex_);
    // With the padding that the tier's own budget counts.
    admission_.wrote(tier_->read_room_bytes(*size), clock_.monotonic_ns());
  }
  const std::span<const std::byte> image = flight.buffer.bytes().first(*size);
  submit(std::move(flight), {}, image);
}

void Mover::finish_write(Flight flight, const TierCompletion& completion) {
  const bool is_done = completion.outcome == TierOutcome::kDone;
  if (is_done) {
    counters_.add(Counter::kBlocksWritten);
    counters_.add(Counter::kBytesWrittenTier, flight.image_bytes);
  } else {
    // A tier that wants nothing now is no tier that failed.
    const bool is_refused = completion.outcome == TierOutcome::kRefused;
    counters_.add(is_refused ? Counter::kWritesDeclined : Counter::kWritesFailed);
  }
  write_is_over(flight, is_done, false);
}

void Mover::write_is_over(Flight& flight, bool is_written, bool again) {
  staging_.give_back(std::exchange(flight.buffer, {}));
  flight.source.release();
  if (flight.around) {
    around_is_over(flight, *flight.around, is_written, again);
  } else if (is_written) {
    table_.written(flight.ref, static_cast<uint32_t>(flight.image_bytes));
    if (flight.demotes) {
      // Others may have come to use it, or it is another block by now: then it stays.
      if (!demotion_.demote(flight.ref)) counters_.add(Counter::kDemotionsAborted);
    }
  } else {
    table_.write_later(flight.ref, again);
  }
  const MutexLock lock(mutex_);
  --writes_under_way_;
  changed_.notify_all();
}

// --- around memory

Staging::Buffer Mover::lend(uint32_t keyspace) {
  const KeyspaceForm& form_of = form(keyspace);
  uint64_t left_bytes = 0;
  {
    const MutexLock lock(mutex_);
    left_bytes = read_room_most_;
  }
  Staging::Buffer buffer = staging_.lend(form_of.slot_bytes, left_bytes);
  if (!buffer) return buffer;
  // There is no time to find out whether it is used again.
  const WriteCandidate candidate{.age_ns = options_.admission.unused_wait_ns};
  if (decide(candidate, form_of, clock_.monotonic_ns()) != WriteDecision::kNow) {
    staging_.give_back(std::move(buffer));
    return {};
  }
  // It was another tenant's, perhaps.
  std::ranges::fill(buffer.bytes().first(form_of.slot_bytes), std::byte{0});
  return buffer;
}

void Mover::write_around(std::vector<Around> blocks) {
  {
    const MutexLock lock(mutex_);
    for (Around& block : blocks)
      waiting_around_.push_back(std::move(block));
  }
  wake();
}

bool Mover::submit_around() {
  bool any = false;
  for (;;) {
    Flight flight;
    {
      const MutexLock lock(mutex_);
      // Loads that wait for a buffer come first.
      if (waiting_around_.empty() || !waiting_.empty() || writes_under_way_ >= kWritesUnderWayMax) return any;
      flight.around = std::move(waiting_around_.front());
      waiting_around_.pop_front();
      ++writes_under_way_;
    }
    flight.kind = Kind::kFind;
    flight.key = flight.around->key;
    flight.keyspace = flight.around->keyspace;
    flight.deadline_ns = flight.around->deadline_ns;
    if (clock_.monotonic_ns() >= flight.deadline_ns) {
      write_is_over(flight, false, false);
    } else if (!submit(std::move(flight), {}, {})) {
      return any;
    }
    any = true;
  }
}

void Mover::around_is_over(const Flight& flight, Around& around, bool is_written, bool again) {
  if (again) {
    const MutexLock lock(mutex_);
    waiting_around_.push_front(std::move(around));
    return;
  }
  staging_.give_back(std::exchange(around.buffer, {}));
  std::optional<Location> location;
  if (is_written) {
    location = table_.add_below(flight.keyspace, flight.key, static_cast<uint32_t>(flight.image_bytes));
    counters_.add(Counter::kBlocksWrittenAround);
  }
  around_.end(around.ticket, location);
}

// --- room

bool Mover::is_above(uint32_t percent) const {
  return slab_.usage().free_bytes * 100 < slots_bytes_ * (100 - percent);
}

bool Mover::is_below(uint32_t percent) const {
  return slab_.usage().free_bytes * 100 > slots_bytes_ * (100 - percent);
}

bool Mover::keep_free() {
  // Somebody found no slot: whatever the marks say.
  const bool is_pressed = is_pressed_.exchange(false, std::memory_order_relaxed);
  is_demoting_ = is_demoting_ ? !is_below(options_.watermarks.low) : is_above(options_.watermarks.high);
  if (!is_demoting_ && !is_pressed) return false;
  bool any = false;
  for (size_t i = 0; i < kDemotedAtOnce && !is_below(options_.watermarks.low); ++i) {
    if (demotion_.demote(1, kLooksPerDemotion) == 0) break;
    any = true;
  }
  // Nothing leaves that the tier has: write what it has not, oldest first, and let that leave.
  return any || write_behind(true);
}

// --- steps

bool Mover::step() {
  if (!step_mutex_.try_lock()) return false;
  bool any = collect(0);
  any = collect_forgotten() || any;
  any = submit_loads() || any;
  any = submit_around() || any;
  any = keep_free() || any;
  // What is only in one place is written to leave the other.
  if (options_.is_inclusive || is_flushing_.load(std::memory_order_relaxed)) any = write_behind(false) || any;
  if (any) publish_usage();
  step_mutex_.unlock();
  return any;
}

bool Mover::collect(uint64_t wait_ns) {
  TierCompletion completions[kCollectedAtOnce];
  const size_t count = tier_->collect(completions, wait_ns);
  for (size_t i = 0; i < count; ++i) {
    Flight flight;
    {
      const MutexLock lock(mutex_);
      const auto found = flights_.find(completions[i].tag);
      RHIZOME_CHECK(found != flights_.end());
      flight = std::move(found->second);
      flights_.erase(found);
    }
    finish(std::move(flight), completions[i]);
  }
  return count > 0;
}

void Mover::finish(Flight flight, const TierCompletion& completion) {
  switch (flight.kind) {
    case Kind::kLoad:
      return finish_load(std::move(flight), completion);
    case Kind::kFind:
      return finish_find(std::move(flight), completion);
    case Kind::kWrite:
      return finish_write(std::move(flight), completion);
    case Kind::kRemove:
      return;
  }
}

bool Mover::collect_forgotten() {
  BlockKey keys[kCollectedAtOnce];
  bool any = false;
  for (;;) {
    bool is_complete = true;
    const size_t count = tier_->collect_forgotten(keys, is_complete);
    for (size_t i = 0; i < count; ++i) {
      if (table_.forgotten_below(keys[i])) gone_.store(true, std::memory_order_release);
    }
    // More were forgotten than the tier could list: readers of the others will find out.
    if (!is_complete) log_once("forgotten", "the {} tier lost count of what it has forgotten", tier_->name());
    any = any || count > 0;
    if (count < kCollectedAtOnce) return any;
  }
}

void Mover::rest(uint64_t at_most_ns) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(woken_, false)) return;
    if (flights_.empty()) {
      const uint64_t next =
          options_.is_inclusive ? table_.next_write_ns(options_.admission.unused_wait_ns) : UINT64_MAX;
      const uint64_t now = clock_.monotonic_ns();
      uint64_t until_next = next == UINT64_MAX ? at_most_ns : std::max(next, now + kRestMinNs) - now;
      if (!waiting_around_.empty()) until_next = std::min(until_next, kRestMinNs);
      changed_.wait_for(mutex_, std::min(at_most_ns, until_next));
      woken_ = false;
      return;
    }
  }
  // Something is under way: the tier knows when it is done.
  const MutexLock step(step_mutex_);
  if (collect(std::min(at_most_ns, kRestInTierMaxNs))) publish_usage();
}

void Mover::wake() {
  const MutexLock lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

void Mover::forget_below(std::span<const BlockKey> keys) {
  for (const BlockKey& key : keys) {
    Flight flight;
    flight.kind = Kind::kRemove;
    flight.key = key;
    if (!submit(std::move(flight), {}, {})) return;
  }
}

void Mover::flush(uint64_t deadline_ns) {
  is_flushing_.store(true, std::memory_order_relaxed);
  while (clock_.monotonic_ns() < deadline_ns) {
    const bool any = step();
    const MutexLock lock(mutex_);
    // Between what the tier says of a block and its write there is no flight.
    const bool is_idle = flights_.empty() && writes_under_way_ == 0 && waiting_around_.empty();
    if (!any && is_idle && !table_.has_unwritten()) break;
    if (!any) changed_.wait_for(mutex_, 1000000);
  }
  is_flushing_.store(false, std::memory_order_relaxed);
  const uint64_t now = clock_.monotonic_ns();
  if (now < deadline_ns) tier_->settle(deadline_ns - now);
}

void Mover::publish_usage() {
  const TierUsage usage = tier_->usage();
  counters_.set(Counter::kTierCapacity, usage.bytes_max);
  counters_.set(Counter::kTierUsed, usage.bytes);
  counters_.set(Counter::kBlocksBelow, table_.counts().copies);
}

}  // namespace rhizome
