#include "index/eviction.h"

#include <algorithm>

#include "concurrency/race_point.h"
#include "contract/check.h"

namespace rhizome {
namespace {

// Waiting for an epoch costs a fence on all processors, so it is done for many dead runs at once.
constexpr size_t kLimboStep = 512;
// Hot runs are looked through now and then only.
constexpr uint32_t kCallsPerCooling = 64;
// A reader that does not come out of its section is not waited for.
constexpr int kAdvancesMax = 64;

}  // namespace

size_t Eviction::evict(std::span<Location> out) {
  drain();
  if (++calls_ % kCallsPerCooling == 0) cool_hot_runs(false);
  size_t got = hand_out(ready_, out);
  while (got < out.size()) {
    begin_round();
    const size_t taken = round(out.subspan(got), nullptr);
    got += remote_ == nullptr ? taken : settle(out.subspan(got), false);
    if (taken == 0 && !find_more()) break;
  }
  end_rounds();
  collect(false);
  prefetch_oldest();
  return got;
}

void Eviction::take_touches() {
  if (remote_ == nullptr) return;
  remote_->take_touches([this](RunId id, uint32_t tick) {
    if (!runs_.arena().is_header(id)) return;
    Run& run = runs_.at(id);
    const uint32_t before = run.touch.load(std::memory_order_relaxed);
    const bool is_newer = static_cast<int32_t>(tick - before) > 0 && static_cast<int32_t>(runs_.now() - tick) >= 0;
    if (is_newer && !RunWord(run.word.load(std::memory_order_relaxed)).has(RunWord::kRoot)) {
      run.touch.store(tick, std::memory_order_relaxed);
    }
  });
}

void Eviction::begin_round() {
  if (remote_ == nullptr) return;
  take_touches();
  in_use_.clear();
  remote_->collect(in_use_);
  std::sort(in_use_.begin(), in_use_.end());
}

void Eviction::end_rounds() {
  for (const RunId id : spared_) {
    if (!RunWord(runs_.at(id).word.load(std::memory_order_relaxed)).has(RunWord::kRemoved)) runs_.touch(runs_.at(id));
    file(id);
  }
  spared_.clear();
}

size_t Eviction::round(std::span<Location> out, const MayLeave* may_leave) {
  size_t taken = 0;
  RunId id = 0;
  uint64_t tick = 0;
  while (taken < out.size() && pop_oldest(id, tick)) {
    // A run in a reader's slot looks idle; marked, it would be lost to everybody else.
    if (is_in_use(id)) {
      spared_.push_back(id);
    } else {
      taken += take_from(id, tick, out.subspan(taken), may_leave);
    }
  }
  return taken;
}

size_t Eviction::hand_out(std::vector<Location>& ready, std::span<Location> out) {
  const size_t count = std::min(out.size(), ready.size());
  std::copy(ready.end() - static_cast<std::ptrdiff_t>(count), ready.end(), out.begin());
  ready.resize(ready.size() - count);
  return count;
}

size_t Eviction::settle(std::span<Location> out, bool removed) {
  if (withheld_.empty()) return 0;
  RHIZOME_RACE_POINT("index.settle.before_fence");
  // With the fence in IndexReader::lookup(): one of the two sees what the other stored before.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  in_use_.clear();
  remote_->collect(in_use_);
  std::sort(in_use_.begin(), in_use_.end());
  size_t got = 0;
  size_t from = 0;
  size_t kept = 0;
  size_t kept_locations = 0;
  // Burying a run can make its parent a candidate, but withholds nothing.
  for (size_t i = 0; i < withheld_.size(); ++i) {
    const Withheld entry = withheld_[i];
    const auto blocks = std::span(withheld_locations_).subspan(from, entry.count);
    from += entry.count;
    if (is_in_use(entry.id)) {
      std::copy(blocks.begin(), blocks.end(),
                withheld_locations_.begin() + static_cast<std::ptrdiff_t>(kept_locations));
      kept_locations += entry.count;
      withheld_[kept++] = entry;
      continue;
    }
    const size_t now = entry.removed == removed ? std::min(blocks.size(), out.size() - got) : 0;
    std::copy_n(blocks.begin(), now, out.begin() + static_cast<std::ptrdiff_t>(got));
    got += now;
    std::vector<Location>& later = entry.removed ? orphans_ : ready_;
    later.insert(later.end(), blocks.begin() + static_cast<std::ptrdiff_t>(now), blocks.end());
    if (entry.removed) count_removed(-static_cast<int64_t>(now));
    if (entry.dies) bury(entry.id);
  }
  withheld_.resize(kept);
  withheld_locations_.resize(kept_locations);
  return got;
}

// What is evicted next was not used for long and is in no cache: it can be by the time that it is asked for.
void Eviction::prefetch_oldest() const {
  constexpr uint32_t kLines = 5;
  if (buckets_.empty()) return;
  const std::vector<RunId>& oldest = buckets_.begin()->second;
  for (size_t ahead = 1; ahead <= 2 && ahead <= oldest.size(); ++ahead) {
    const RunId id = oldest[oldest.size() - ahead];
    // The header of the one after next; of the next one, whose header has come meanwhile, what it leads to.
    if (ahead == 1) runs_.edges().prefetch(runs_.at(id).edge.load(std::memory_order_relaxed));
    for (uint32_t line = 0; line < (ahead == 1 ? kLines : 1); ++line)
      __builtin_prefetch(&runs_.at(id) + line, 1);
  }
}

size_t Eviction::evict_if(std::span<Location> out, const MayLeave& may_leave, bool thorough) {
  drain();
  cool_hot_runs(false);
  std::vector<std::pair<uint64_t, RunId>> looked_at;
  looked_at_ = &looked_at;
  size_t got = hand_out(ready_, out);
  bool is_done = false;
  while (!is_done && got < out.size()) {
    begin_round();
    const size_t taken = round(out.subspan(got), &may_leave);
    got += remote_ == nullptr ? taken : settle(out.subspan(got), false);
    is_done = !thorough || (taken == 0 && !find_more());
  }
  looked_at_ = nullptr;
  for (const auto& [last_use, candidate] : looked_at)
    buckets_[last_use].push_back(candidate);
  end_rounds();
  collect(false);
  return got;
}

size_t Eviction::reap(std::span<Location> out) {
  if (removed_blocks_.load(std::memory_order_relaxed) == 0) return 0;
  drain();
  size_t got = hand_out(orphans_, out);
  count_removed(-static_cast<int64_t>(got));
  if (remote_ != nullptr) got += settle(out.subspan(got), true);
  while (got < out.size()) {
    if (removed_.empty() && !find_removed()) break;
    const RunId id = removed_.back();
    removed_.pop_back();
    const size_t taken = take_from(id, 0, out.subspan(got));
    got += remote_ == nullptr ? taken : settle(out.subspan(got), true);
  }
  return got;
}

void Eviction::drain() {
  runs_.drain_candidates(drained_);
  for (const RunId id : drained_)
    file(id);
  drained_.clear();
}

void Eviction::file(RunId id) {
  const Run& run = runs_.at(id);
  if (RunWord(run.word.load(std::memory_order_relaxed)).has(RunWord::kRemoved)) {
    removed_.push_back(id);
  } else {
    buckets_[runs_.whole_tick(run.touch.load(std::memory_order_relaxed))].push_back(id);
  }
}

bool Eviction::pop_oldest(RunId& id, uint64_t& tick) {
  while (!buckets_.empty()) {
    const auto oldest = buckets_.begin();
    if (oldest->second.empty()) {
      buckets_.erase(oldest);
      continue;
    }
    id = oldest->second.back();
    tick = oldest->first;
    oldest->second.pop_back();
    return true;
  }
  return false;
}

// Candidates that only show when somebody looks: parents whose last child left limbo, hot runs that nobody uses.
bool Eviction::find_more() {
  bury_removed();
  collect(true);
  for (int advances = 0; buckets_.empty() && runs_.hot().any() && advances < kAdvancesMax; ++advances) {
    cool_hot_runs(true);
    runs_.epochs().try_advance();
  }
  return std::any_of(buckets_.begin(), buckets_.end(), [](const auto& bucket) { return !bucket.second.empty(); });
}

// The same for reap().
bool Eviction::find_removed() {
  collect(true);
  for (int advances = 0; removed_.empty() && advances < kAdvancesMax && runs_.hot().any_removed_idle(); ++advances) {
    cool_hot_runs(true);
    runs_.epochs().try_advance();
  }
  return !removed_.empty();
}

// Removed runs that nobody has reaped keep what is above them.
void Eviction::bury_removed() {
  std::vector<Location> blocks;
  while (!removed_.empty()) {
    const RunId id = removed_.back();
    removed_.pop_back();
    blocks.resize(RunWord(runs_.at(id).word.load(std::memory_order_relaxed)).length());
    blocks.resize(take_from(id, 0, blocks));
    if (remote_ != nullptr) continue;
    count_removed(static_cast<int64_t>(blocks.size()));
    orphans_.insert(orphans_.end(), blocks.begin(), blocks.end());
  }
  if (remote_ != nullptr) settle({}, true);
}

void Eviction::cool_hot_runs(bool all) {
  if (!runs_.hot().any()) return;
  std::vector<RunId> idle;
  runs_.hot().cool(all, static_cast<uint32_t>(runs_.last_now()), idle);
  for (const RunId id : idle)
    runs_.enqueue(kThreadSlotShared, id);
  drain();
}

bool Eviction::still_idle(RunId id) {
  Run& run = runs_.at(id);
  RunWord word(run.word.load(std::memory_order_acquire));  // pairs with unpin()
  const uint32_t dead_children = run.dead_children.load(std::memory_order_relaxed);
  if (word.pins() == dead_children) return true;
  RHIZOME_RACE_POINT("index.evict.pinned");
  run.word.fetch_and(~uint64_t{RunWord::kQueued}, std::memory_order_acq_rel);
  RHIZOME_RACE_POINT("index.evict.not_queued");
  // The last pin may have gone between the two, and its owner saw a run that was queued.
  word = RunWord(run.word.load(std::memory_order_acquire));  // pairs with unpin()
  if (word.pins() != dead_children) return false;
  return !RunWord(run.word.fetch_or(RunWord::kQueued, std::memory_order_acq_rel)).has(RunWord::kQueued);
}

void Eviction::put_back(RunId id, bool removed, uint64_t tick) {
  if (removed) {
    removed_.push_back(id);
  } else if (looked_at_ != nullptr) {
    looked_at_->emplace_back(tick, id);
  } else {
    buckets_[tick].push_back(id);
  }
}

size_t Eviction::take_from(RunId id, uint64_t tick, std::span<Location> out, const MayLeave* may_leave) {
  if (!still_idle(id)) return 0;
  RHIZOME_RACE_POINT("index.evict.still_idle");
  Run& run = runs_.at(id);
  RunView view;
  // Nobody changes an idle run but who pins it first, and then the exchange below fails. He may be at it right now.
  if (!runs_.read(id, view)) {
    RHIZOME_RACE_POINT("index.evict.put_back");
    put_back(id, RunWord(run.word.load(std::memory_order_relaxed)).has(RunWord::kRemoved), tick);
    return 0;
  }
  const bool removed = view.word.has(RunWord::kRemoved);
  const uint32_t touch = run.touch.load(std::memory_order_relaxed);
  // Not used since it was filed: then its age does not count, of which only the low half is kept.
  if (!removed && touch != static_cast<uint32_t>(tick) && runs_.whole_tick(touch) > tick) {
    file(id);
    return 0;
  }
  if (view.word.has(RunWord::kLocked) || view.word.pins() != run.dead_children.load(std::memory_order_relaxed)) {
    put_back(id, removed, tick);
    return 0;
  }
  const std::span<const Location> stored(runs_.locations(view, view.start), view.length());
  const size_t most = std::min(stored.size(), out.size());
  uint32_t count = 0;
  if (may_leave == nullptr) {
    count = static_cast<uint32_t>(most);
    std::reverse_copy(stored.end() - static_cast<std::ptrdiff_t>(most), stored.end(), out.begin());
  } else {
    for (; count < most && (*may_leave)(stored[stored.size() - 1 - count]); ++count)
      out[count] = stored[stored.size() - 1 - count];
  }
  if (count == 0) {
    put_back(id, removed, tick);
    return 0;
  }
  const bool all = count == view.length();
  const RunWord after = all ? view.word.with(RunWord::kDead) : view.word.shorter(count).with(RunWord::kTrimmed);
  uint64_t expected = view.word.bits();
  RHIZOME_RACE_POINT("index.evict.before_exchange");
  // Acquire: pairs with the release of the last unpin(). Release: who pins now sees what is gone.
  if (!run.word.compare_exchange_strong(expected, after.bits(), std::memory_order_acq_rel)) {
    put_back(id, removed, tick);
    return 0;
  }
  RHIZOME_RACE_POINT("index.evict.exchanged");
  if (removed) {
    if (remote_ == nullptr) count_removed(-int64_t{count});
  } else {
    runs_.count(kThreadSlotShared, -int64_t{count}, 0);
    // A reader that stops where these blocks were has come to the run above, or to what is left of this one.
    const uint64_t edge =
        all ? run.edge.load(std::memory_order_relaxed) : edge_of_(policy_, runs_, view, view.end() - count);
    const Run& above = all ? runs_.at(view.parent) : run;
    tombstones_.bury(edge, {runs_.last_now(), view.end() - count, above.ver.load(std::memory_order_relaxed)});
  }
  if (all) unlink(id);
  if (remote_ != nullptr) {
    withheld_.push_back({id, count, all, removed});
    withheld_locations_.insert(withheld_locations_.end(), out.begin(), out.begin() + count);
  } else if (all) {
    bury(id);
  }
  if (!all) put_back(id, removed, tick);
  return count;
}

void Eviction::unlink(RunId id) {
  Run& run = runs_.at(id);
  const uint64_t edge = run.edge.load(std::memory_order_relaxed);
  if (edge == 0) return;
  {
    const EdgeTable::Lock lock(runs_.edges(), edge);
    runs_.edges().remove(edge, id);
    run.edge.store(0, std::memory_order_relaxed);
  }
  Run& parent = runs_.at(run.parent.load(std::memory_order_relaxed));
  RunId hinted = id;
  parent.hint.compare_exchange_strong(hinted, 0, std::memory_order_relaxed);
}

void Eviction::bury(RunId id) {
  Run& run = runs_.at(id);
  const RunId parent_id = run.parent.load(std::memory_order_relaxed);
  Run& parent = runs_.at(parent_id);
  // A trunk is as fresh as what ended in its branches.
  const uint32_t touch = run.touch.load(std::memory_order_relaxed);
  const uint32_t parent_touch = parent.touch.load(std::memory_order_relaxed);
  const RunWord parent_word(parent.word.load(std::memory_order_acquire));  // pairs with unpin()
  const uint32_t dead_children = parent.dead_children.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!parent_word.has(RunWord::kRoot)) {
    if (static_cast<int32_t>(touch - parent_touch) > 0) parent.touch.store(touch, std::memory_order_relaxed);
    if (RunWord(parent.word.load(std::memory_order_acquire)).pins() == dead_children &&
        !RunWord(parent.word.fetch_or(RunWord::kQueued, std::memory_order_acq_rel)).has(RunWord::kQueued)) {
      file(parent_id);
    }
  }
  limbo_.push_back({id, runs_.epochs().current()});
}

bool Eviction::collect(bool force) {
  if (limbo_.empty() || (!force && limbo_.size() < limbo_at_next_advance_)) return false;
  Epochs& epochs = runs_.epochs();
  const uint64_t newest = limbo_.back().epoch;
  for (int i = 0; i < (force ? kAdvancesMax : 2) && !epochs.is_past(newest); ++i) {
    if (!epochs.try_advance() && !force) break;
  }
  bool any = false;
  while (!limbo_.empty() && epochs.is_past(limbo_.front().epoch)) {
    const RunId id = limbo_.front().id;
    limbo_.pop_front();
    free_run(id);
    any = true;
  }
  runs_.arena().free_all(freed_);
  limbo_at_next_advance_ = limbo_.size() + kLimboStep;
  return any;
}

// Its children have left limbo before it: they came there before, and what comes first leaves first.
void Eviction::free_run(RunId id) {
  Run& run = runs_.at(id);
  RHIZOME_CHECK(run.dead_children.load(std::memory_order_relaxed) == 0);
  const RunId parent_id = run.parent.load(std::memory_order_relaxed);
  const RunId owner_id = run.owner.load(std::memory_order_relaxed);
  const bool is_root = RunWord(run.word.load(std::memory_order_relaxed)).has(RunWord::kRoot);
  // Whoever still names this place finds an odd ver, and later another one.
  run.ver.fetch_add(1, std::memory_order_release);
  runs_.count(kThreadSlotShared, 0, -1);
  if (is_root || owner_id != id) freed_.push_back(id);
  if (is_root) return;
  if (runs_.at(owner_id).shares.fetch_sub(1, std::memory_order_acq_rel) == 1) freed_.push_back(owner_id);

  Run& parent = runs_.at(parent_id);
  parent.dead_children.fetch_sub(1, std::memory_order_relaxed);
  const RunWord word(parent.word.fetch_sub(RunWord::kOnePin, std::memory_order_acq_rel));
  RHIZOME_CHECK(word.pins() > 0);
  if (word.pins() > 1 || word.has(RunWord::kDead)) return;
  if (word.has(RunWord::kRoot)) {
    // The pin of an open keyspace is gone: this was the last of a cleared tree.
    parent.word.fetch_or(RunWord::kDead, std::memory_order_acq_rel);
    limbo_.push_back({parent_id, runs_.epochs().current()});
  } else if (!RunWord(parent.word.fetch_or(RunWord::kQueued, std::memory_order_acq_rel)).has(RunWord::kQueued)) {
    file(parent_id);
  }
}

void Eviction::let_go_root(RunId id) {
  Run& root = runs_.at(id);
  root.word.fetch_or(RunWord::kRemoved, std::memory_order_acq_rel);
  if (RunWord(root.word.fetch_sub(RunWord::kOnePin, std::memory_order_acq_rel)).pins() > 1) return;
  root.word.fetch_or(RunWord::kDead, std::memory_order_acq_rel);
  limbo_.push_back({id, runs_.epochs().current()});
}

void Eviction::sort_out_removed() {
  drain();
  for (auto& [tick, ids] : buckets_) {
    const auto removed = std::stable_partition(ids.begin(), ids.end(), [&](RunId id) {
      return !RunWord(runs_.at(id).word.load(std::memory_order_relaxed)).has(RunWord::kRemoved);
    });
    removed_.insert(removed_.end(), removed, ids.end());
    ids.erase(removed, ids.end());
  }
}

}  // namespace rhizome
