#include "index/insertion.h"

#include <algorithm>
#include <cstring>

#include "concurrency/race_point.h"
#include "contract/check.h"

namespace rhizome {
namespace {

constexpr int kStepsMax = 1 << 16;
// Runs that grow by a block or two at a time get room for more, twice as much each time.
constexpr uint32_t kGrowthBlocksMax = 2;
constexpr uint32_t kGrowthCapacityMin = Runs::kGrowthCapacityMin;
constexpr uint32_t kGrowthCapacityMax = 256;

}  // namespace

template <class Policy>
Status Insertion<Policy>::run() {
  Step last = Step::kGoOn;
  for (int steps = 0; steps < kStepsMax && last == Step::kGoOn; ++steps)
    last = step();
  const bool done = last == Step::kDone;
  if (owned_ && kept_) {
    // On success what was held before is let go, on an error what is held now.
    const RunId let_go = done ? request_.held : held_;
    if (let_go != 0) runs_.unpin(slot_, let_go);
    if (!done) held_ = request_.held;
  }
  if (done) return {};
  if (last == Step::kGoOn) return fail(Code::kResourceExhausted, "others change the same runs all the time");
  if (depth_ < request_.first_block) {
    return fail(Code::kFailedPrecondition, "a block before the first one is not stored");
  }
  return fail(Code::kResourceExhausted, "the index is full");
}

template <class Policy>
typename Insertion<Policy>::Step Insertion<Policy>::step() {
  RunView at;
  // Our pin keeps the whole path; a run that is being split is read again.
  if (!runs_.read_above(held_ != 0 ? held_ : request_.root, depth_, at)) return Step::kGoOn;
  if (depth_ < at.end()) {
    const uint32_t equal = tree_.match(at, depth_, request_.prompt, std::min(at.end(), request_.prompt.end) - depth_);
    note_stored(at, equal);
    if (depth_ == request_.prompt.end) return finish(at);
    if (depth_ < at.end()) return depth_ < request_.first_block ? Step::kFull : split(at);
    if (equal > 0) return Step::kGoOn;
  }
  if (depth_ == request_.prompt.end) return finish(at);
  if (append(at)) return Step::kDone;
  return attach(at);
}

// All is there. The pin need not be deeper than that.
template <class Policy>
typename Insertion<Policy>::Step Insertion<Policy>::finish(const RunView& at) {
  if (at.id != held_) {
    runs_.pin(slot_, at.id);
    hold_pinned(at.id);
  }
  if (!anything_new_) stored_before_ = depth_ - std::min(depth_, request_.first_block);
  return Step::kDone;
}

// Goes over to a run that carries a pin for us.
template <class Policy>
void Insertion<Policy>::hold_pinned(RunId id) {
  if (owned_) runs_.unpin(slot_, held_);
  held_ = id;
  owned_ = true;
}

template <class Policy>
void Insertion<Policy>::note_stored(const RunView& run, uint32_t equal) {
  const uint32_t end = depth_ + equal;
  const uint32_t from = std::max(depth_, request_.first_block);
  if (from < end) {
    std::memcpy(request_.canonical.data() + (from - request_.first_block), runs_.locations(run, from),
                (end - from) * sizeof(Location));
  }
  depth_ = end;
}

// The prompt leaves the run at depth_, inside it: what is before becomes a run of its own, to which we then attach.
template <class Policy>
typename Insertion<Policy>::Step Insertion<Policy>::split(const RunView& at) {
  const uint32_t offset = depth_ - at.start;
  RHIZOME_CHECK(offset > 0);
  const RunId upper = runs_.arena().allocate(slot_, 1);
  if (upper == 0) return Step::kFull;
  RHIZOME_RACE_POINT("index.split.before_lock");
  Run& run = runs_.at(at.id);
  runs_.lock(run);
  if (run.ver.load(std::memory_order_acquire) != at.ver || !tree_.cut(slot_, upper, at, offset, 2)) {
    runs_.unlock(run);
    const bool changed = run.ver.load(std::memory_order_relaxed) != at.ver;
    runs_.at(upper).word.store(RunWord::kDead, std::memory_order_relaxed);
    runs_.arena().free(slot_, upper);
    return changed ? Step::kGoOn : Step::kFull;
  }
  split_at_ = depth_;
  // The upper run was made with a pin for us.
  hold_pinned(upper);
  return Step::kGoOn;
}

// Behind the end of a run that only we pin, when its payload has room.
template <class Policy>
bool Insertion<Policy>::append(const RunView& at) {
  constexpr uint64_t kMustNot =
      RunWord::kTrimmed | RunWord::kLocked | RunWord::kHot | RunWord::kRemoved | RunWord::kRoot | RunWord::kDead;
  const uint32_t count = request_.prompt.end - depth_;
  const auto may = [&](const RunWord& word, const RunView& view) {
    return word.pins() == 1 && !word.has(kMustNot) && view.base + uint64_t{word.length()} + count <= view.capacity &&
           view.start + word.length() == depth_ && word.length() + uint64_t{count} <= RunWord::kLengthMax;
  };
  if (at.id != held_ || depth_ < request_.first_block || !may(at.word, at)) return false;
  Run& run = runs_.at(at.id);
  if (runs_.at(at.owner).shares.load(std::memory_order_acquire) != 1) return false;  // pairs with free_run()
  uint64_t word = at.word.bits();
  if (!run.word.compare_exchange_strong(word, at.word.with(RunWord::kLocked).bits(), std::memory_order_acquire)) {
    return false;
  }
  // Unlocked, the run may have been split since it was read; locked, it stays as it is.
  bool appended = run.ver.load(std::memory_order_acquire) == at.ver;
  if (appended) {
    const uint32_t offset = at.base + at.length();
    std::byte* const memory = runs_.arena().behind(at.owner);
    std::memcpy(reinterpret_cast<Location*>(memory) + offset, new_locations(depth_, count).data(),
                count * sizeof(Location));
    std::byte* const payload = memory + Runs::payload_offset(at.capacity);
    tree_.policy().store(payload + offset * Policy::payload_bytes(tree_.policy().block_elements()),
                         tree_.block(request_.prompt, depth_), count);
    word = at.word.with(RunWord::kLocked).bits();
    RHIZOME_RACE_POINT("index.append.before_publish");
    // Release: whoever sees the new length sees the blocks.
    appended = run.word.compare_exchange_strong(word, at.word.longer(count).bits(), std::memory_order_acq_rel);
  }
  if (!appended) {
    runs_.unlock(run);
    return false;
  }
  if (!anything_new_) stored_before_ = depth_ - request_.first_block;
  anything_new_ = true;
  depth_ += count;
  runs_.count(slot_, count, 0);
  return true;
}

// The rest of the prompt behind the end of `at`, unless somebody else has put the same blocks there.
template <class Policy>
typename Insertion<Policy>::Step Insertion<Policy>::attach(const RunView& at) {
  const uint32_t count = request_.prompt.end - depth_;
  const uint64_t edge = tree_.edge(at.id, tree_.block(request_.prompt, depth_));
  RunView child;
  uint32_t equal = 0;
  const auto find = [&] { return tree_.find_child(at.id, depth_, request_.prompt, edge, child, equal); };
  // Where the caller's own pin ends he has just found nothing more; elsewhere, look before memory is spent.
  const bool must_be_there = depth_ < request_.first_block;
  if ((at.id != request_.held || must_be_there) && find()) return descend(child, equal);
  if (must_be_there) return Step::kFull;
  const Chain made = make_chain(at, edge, count);
  if (made.top == 0) return find() ? descend(child, equal) : Step::kFull;
  bool found = false;
  bool linked = false;
  RHIZOME_RACE_POINT("index.attach.before_lock");
  {
    const EdgeTable::Lock lock(runs_.edges(), edge);
    found = find();
    linked = !found && link(at, edge, made);
  }
  if (!linked) {
    unmake(made);
    return found ? descend(child, equal) : Step::kFull;
  }
  RHIZOME_RACE_POINT("index.attach.linked");
  if (at.id != held_) {
    hold_pinned(made.bottom);
  } else {
    // Our pin there is the child's now.
    if (!owned_) kept_ = false;
    held_ = made.bottom;
    owned_ = true;
  }
  if (!anything_new_) stored_before_ = depth_ - request_.first_block;
  anything_new_ = true;
  depth_ += count;
  runs_.count(slot_, count, made.runs);
  return Step::kDone;
}

// The caller holds the edge's lock.
template <class Policy>
bool Insertion<Policy>::link(const RunView& at, uint64_t edge, const Chain& made) {
  Run& run = runs_.at(made.top);
  Run& parent = runs_.at(at.id);
  // Our pin on the parent becomes the child's, unless it is on a run below or there is none.
  if (at.id != held_) parent.word.fetch_add(RunWord::kOnePin, std::memory_order_acq_rel);
  run.ver.fetch_add(1, std::memory_order_release);  // live; pairs with the acquire in read()
  if (!runs_.edges().insert(edge, made.top)) {
    run.ver.fetch_add(1, std::memory_order_release);
    if (at.id != held_) parent.word.fetch_sub(RunWord::kOnePin, std::memory_order_acq_rel);
    return false;
  }
  // Under the lock, so that the hint is a child: a split of it replaces the hint, and its end takes it away.
  RunId none = 0;
  // Release: pairs with the acquire in step(): who follows the hint finds the run filled.
  if (!at.word.has(RunWord::kRoot) && parent.hint.load(std::memory_order_relaxed) == 0)
    parent.hint.compare_exchange_strong(none, made.top, std::memory_order_acq_rel);
  return true;
}

// All of it or nothing: what is stored in part would be found, with locations that the caller takes back.
template <class Policy>
typename Insertion<Policy>::Chain Insertion<Policy>::make_chain(const RunView& at, uint64_t edge, uint32_t count) {
  Chain made;
  for (uint32_t start = depth_; start < depth_ + count;) {
    const RunId parent = made.bottom == 0 ? at.id : made.bottom;
    const uint64_t above = made.bottom == 0 ? edge : tree_.edge(parent, tree_.block(request_.prompt, start));
    const RunId id = make_run(at, parent, above, start, depth_ + count - start);
    if (id == 0) {
      unmake(made);
      return {};
    }
    if (made.top == 0) {
      made.top = id;
    } else if (!link_inner(parent, id)) {
      runs_.at(id).word.store(RunWord::kDead, std::memory_order_relaxed);
      runs_.arena().free(slot_, id);
      unmake(made);
      return {};
    }
    made.bottom = id;
    ++made.runs;
    start += RunWord(runs_.at(id).word.load(std::memory_order_relaxed)).length();
  }
  return made;
}

template <class Policy>
bool Insertion<Policy>::link_inner(RunId parent, RunId id) {
  Run& run = runs_.at(id);
  const uint64_t edge = run.edge.load(std::memory_order_relaxed);
  const EdgeTable::Lock lock(runs_.edges(), edge);
  run.ver.fetch_add(1, std::memory_order_release);  // live; pairs with the acquire in read()
  if (!runs_.edges().insert(edge, id)) {
    run.ver.fetch_add(1, std::memory_order_release);
    return false;
  }
  runs_.at(parent).hint.store(id, std::memory_order_relaxed);
  return true;
}

// A chain whose top one is not linked.
template <class Policy>
void Insertion<Policy>::unmake(const Chain& made) {
  for (RunId id = made.bottom; id != 0;) {
    Run& run = runs_.at(id);
    const RunId above = run.parent.load(std::memory_order_relaxed);
    if (id != made.top) {
      const uint64_t edge = run.edge.load(std::memory_order_relaxed);
      const EdgeTable::Lock lock(runs_.edges(), edge);
      runs_.edges().remove(edge, id);
      run.ver.fetch_add(1, std::memory_order_release);
    }
    run.word.store(RunWord::kDead, std::memory_order_relaxed);
    runs_.arena().free(slot_, id);
    id = id == made.top ? 0 : above;
  }
}

// Filled with up to `count` blocks from `start` on, with a pin, and unknown to everybody. 0: the arena is full.
template <class Policy>
RunId Insertion<Policy>::make_run(const RunView& at, RunId parent, uint64_t edge, uint32_t start, uint32_t count) {
  count = std::min(count, RunWord::kLengthMax);
  uint32_t wanted = count;
  uint64_t flags = 0;
  if (count <= kGrowthBlocksMax && parent == at.id && at.id == held_) {
    const bool again = at.word.has(RunWord::kGrowth);
    wanted = again ? std::clamp(2 * at.capacity, kGrowthCapacityMin, kGrowthCapacityMax) : kGrowthCapacityMin;
    flags = RunWord::kGrowth;
  }
  uint32_t capacity = runs_.capacity_for(wanted);
  RunId id = runs_.arena().allocate(slot_, runs_.units_for(capacity));
  if (id == 0) {
    // What all free places together cannot hold takes none of them: others need them meanwhile, and the rest of the
    // arena would be carved into large ones that short runs then take whole.
    if (parent == at.id && runs_.units_for(count) > runs_.arena().units_free()) return 0;
    // No room to grow into, or none in one piece.
    id = runs_.arena().allocate_less(slot_, runs_.units_for(wanted), runs_.units_for(1));
    if (id == 0) return 0;
    capacity = runs_.capacity_of_units(runs_.arena().units_of(id));
    count = std::min(count, capacity);
  }
  Run& run = runs_.at(id);
  run.start.store(start, std::memory_order_relaxed);
  run.parent.store(parent, std::memory_order_relaxed);
  run.owner.store(id, std::memory_order_relaxed);
  run.base.store(0, std::memory_order_relaxed);
  run.capacity.store(capacity, std::memory_order_relaxed);
  run.touch.store(static_cast<uint32_t>(runs_.now()), std::memory_order_relaxed);
  run.root.store(request_.root, std::memory_order_relaxed);
  run.hint.store(0, std::memory_order_relaxed);
  run.edge.store(edge, std::memory_order_relaxed);
  run.shares.store(1, std::memory_order_relaxed);
  run.dead_children.store(0, std::memory_order_relaxed);
  run.word.store(RunWord::make(1, count, flags).bits(), std::memory_order_relaxed);
  std::byte* const memory = runs_.arena().behind(id);
  std::memcpy(memory, new_locations(start, count).data(), count * sizeof(Location));
  tree_.policy().store(memory + Runs::payload_offset(capacity), tree_.block(request_.prompt, start), count);
  return id;
}

// The prompt goes on in a child: pins it and lets go of what was pinned.
template <class Policy>
typename Insertion<Policy>::Step Insertion<Policy>::descend(const RunView& child, uint32_t equal) {
  RHIZOME_RACE_POINT("index.insert.before_pin");
  const RunWord word = runs_.pin(slot_, child.id);
  const bool same = runs_.at(child.id).ver.load(std::memory_order_acquire) == child.ver;  // pairs with a change's end
  if (!same || word.has(RunWord::kDead | RunWord::kRemoved) || child.start + word.length() < depth_ + equal) {
    runs_.unpin(slot_, child.id);
    return Step::kGoOn;
  }
  hold_pinned(child.id);
  note_stored(child, equal);
  return Step::kGoOn;
}

template class Insertion<ExactPolicy>;
template class Insertion<FingerprintPolicy>;
template class Insertion<PrehashedPolicy>;

}  // namespace rhizome
