#include "index/index.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "concurrency/mutex.h"
#include "concurrency/race_point.h"
#include "contract/check.h"
#include "index/eviction.h"
#include "index/in_flight.h"
#include "index/insertion.h"
#include "index/keyspaces.h"
#include "index/run_tree.h"

namespace rhizome {

Handle::~Handle() {
  // A pin that is dropped is never given back: what it holds could not be evicted any more.
  RHIZOME_DCHECK(empty());
}

Handle& Handle::operator=(Handle&& other) noexcept {
  RHIZOME_CHECK(empty());
  run_ = std::exchange(other.run_, 0);
  depth_ = std::exchange(other.depth_, 0);
  return *this;
}

uint64_t Handle::pack(Handle handle) {
  const uint64_t packed = uint64_t{handle.depth_} << 32 | handle.run_;
  handle.run_ = 0;
  return packed;
}

Handle Handle::unpack(uint64_t packed) {
  return {static_cast<uint32_t>(packed), static_cast<uint32_t>(packed >> 32)};
}

namespace {

// Headers that one call looks through on the search for the runs of cleared keyspaces.
constexpr uint64_t kMarkedPerCall = 1 << 14;

}  // namespace

template <class Policy>
struct BasicIndex<Policy>::State {
  explicit State(const IndexOptions& chosen)
      : options(chosen),
        runs(chosen, Policy::payload_bytes(chosen.block_tokens)),
        tree(chosen, runs),
        keyspaces(chosen.roots_max),
        in_flight(tree.policy().block_elements(), chosen.clock != nullptr ? *chosen.clock : real_clock()),
        eviction(runs, &RunTree<Policy>::edge_of_stored, &tree.policy(), chosen.remote_readers) {}

  using Section = Epochs::Section;

  // While one exists, no insert is under way and none begins. With the mutex held, in no section.
  class Closed {
   public:
    explicit Closed(State& state) : state_(state) {
      // Sequentially consistent, with the fence of a section: an insert that did not see this is waited for.
      state_.inserts_closed.store(true, std::memory_order_seq_cst);
      state_.runs.epochs().wait_for_sections();
    }
    ~Closed() { state_.inserts_closed.store(false, std::memory_order_release); }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    State& state_;
  };

  RunId make_root() REQUIRES(mutex);
  RunId try_make_root();
  bool is_stale(RunId root) const {
    return runs.at(root).touch.load(std::memory_order_relaxed) != runs.epoch().load(std::memory_order_acquire);
  }
  // 0: not open, or nothing was stored since the last epoch began.
  RunId current_root(Root root) const {
    const RunId run = keyspaces.find(root);
    return run == 0 || is_stale(run) ? 0 : run;
  }
  Status renew(Root root) EXCLUDES(mutex);
  Status swap_root(Root root, bool close) REQUIRES(mutex);

  // Whether `handle` pins something under `root`; `depth` becomes the deepest place on its path that is not removed.
  bool resolve(const Handle& handle, RunId root, uint32_t& depth) const;
  bool is_pinned(uint32_t run, uint32_t depth) const;
  // The locations of the blocks [first, depth) on the path to a pinned run.
  void copy_above(RunId run, uint32_t depth, uint32_t first, std::span<Location> out) const;
  Result<Inserted> insert_once(Root root, Handle& handle, const Prompt<Element>& prompt, uint32_t first_block,
                               std::span<const Location> locations, std::span<Location> canonical, bool& again);
  Result<Inserted> insert(Root root, Handle& handle, const Prompt<Element>& prompt, uint32_t first_block,
                          std::span<const Location> locations, std::span<Location> canonical);
  void why_missing(const RunView& at, const Prompt<Element>& prompt, uint32_t depth, Explanation& out) const;
  uint64_t agreeing(const RunView& run, const Prompt<Element>& prompt, uint32_t depth) const;

  // These two may be read without the mutex.
  const Tombstones& tombstones() const NO_THREAD_SAFETY_ANALYSIS { return eviction.tombstones(); }
  uint64_t removed_blocks() const NO_THREAD_SAFETY_ANALYSIS { return eviction.removed_blocks(); }

  void collect_path(RunId run, std::vector<Location>& out, std::set<RunId>& seen) const;

  uint64_t mark(RunId id) REQUIRES(mutex);
  uint64_t take_out(RunView at, uint32_t first_block) REQUIRES(mutex);
  uint64_t mark_below(uint32_t first_block) REQUIRES(mutex);
  void mark_step(uint64_t budget) REQUIRES(mutex);

  const IndexOptions options;
  Runs runs;
  RunTree<Policy> tree;
  Keyspaces keyspaces;  // changed under the mutex
  InFlight<Element> in_flight;
  std::atomic<bool> inserts_closed{false};
  std::atomic<bool> marking{false};  // runs of cleared keyspaces may be unmarked
  mutable Mutex mutex;
  Eviction eviction GUARDED_BY(mutex);
  RunId mark_cursor GUARDED_BY(mutex) = 0;
};

template <class Policy>
BasicIndex<Policy>::BasicIndex(const IndexOptions& options) {
  RHIZOME_CHECK(options.block_tokens > 0 && options.block_tokens <= kKernelBlockTokensMax);
  RHIZOME_CHECK(options.shared_memory.empty() || kIsShareable<Policy>);
  state_ = std::make_unique<State>(options);
  if constexpr (kIsShareable<Policy>) {
    state_->runs.publish(state_->tree.policy().key(), options.block_tokens,
                         Policy::payload_bytes(options.block_tokens));
  }
}

template <class Policy>
BasicIndex<Policy>::~BasicIndex() = default;

// --- keyspaces

template <class Policy>
RunId BasicIndex<Policy>::State::make_root() {
  const RunId id = try_make_root();
  // Roots that were let go may still wait in limbo.
  return id == 0 && eviction.collect(true) ? try_make_root() : id;
}

template <class Policy>
RunId BasicIndex<Policy>::State::try_make_root() {
  const Section section(runs.epochs());
  const RunId id = runs.arena().allocate(section.slot(), 1);
  if (id == 0) return 0;
  Run& root = runs.at(id);
  root.start.store(0, std::memory_order_relaxed);
  root.parent.store(0, std::memory_order_relaxed);
  root.owner.store(id, std::memory_order_relaxed);
  root.base.store(0, std::memory_order_relaxed);
  root.capacity.store(0, std::memory_order_relaxed);
  root.touch.store(runs.epoch().load(std::memory_order_relaxed), std::memory_order_relaxed);
  root.root.store(id, std::memory_order_relaxed);
  root.hint.store(0, std::memory_order_relaxed);
  root.edge.store(0, std::memory_order_relaxed);
  root.shares.store(0, std::memory_order_relaxed);
  root.dead_children.store(0, std::memory_order_relaxed);
  // The pin is that of the open keyspace.
  root.word.store(RunWord::make(1, 0, RunWord::kRoot).bits(), std::memory_order_relaxed);
  root.ver.fetch_add(1, std::memory_order_release);  // live
  runs.count(section.slot(), 0, 1);
  return id;
}

template <class Policy>
Result<Root> BasicIndex<Policy>::open(std::span<const std::byte> encoding) {
  MutexLock lock(state_->mutex);
  const Root known = state_->keyspaces.find(encoding);
  if (known.value != 0) return known;
  if (state_->keyspaces.full()) return fail(Code::kResourceExhausted, "too many keyspaces");
  const RunId run = state_->make_root();
  if (run == 0) return fail(Code::kResourceExhausted, "the index is full");
  return state_->keyspaces.add(encoding, run);
}

// Everything under the old root becomes unreachable with one store.
template <class Policy>
Status BasicIndex<Policy>::State::swap_root(Root root, bool close) {
  const RunId before = keyspaces.find(root);
  if (before == 0) return fail(Code::kNotFound, "the keyspace is not open");
  const Closed closed(*this);
  if (close) {
    keyspaces.take_out(root);
  } else {
    const RunId run = make_root();
    if (run == 0) return fail(Code::kResourceExhausted, "the index is full");
    keyspaces.set(root, run);
  }
  eviction.let_go_root(before);
  mark_cursor = 0;
  marking.store(true, std::memory_order_relaxed);
  return {};
}

template <class Policy>
Status BasicIndex<Policy>::close(Root root) {
  MutexLock lock(state_->mutex);
  return state_->swap_root(root, true);
}

template <class Policy>
Status BasicIndex<Policy>::clear(Root root) {
  MutexLock lock(state_->mutex);
  return state_->swap_root(root, false);
}

template <class Policy>
void BasicIndex<Policy>::start_epoch() {
  State& state = *state_;
  MutexLock lock(state.mutex);
  const typename State::Closed closed(state);
  state.runs.epoch().fetch_add(1, std::memory_order_acq_rel);  // pairs with is_stale()
  state.mark_cursor = 0;
  state.marking.store(true, std::memory_order_relaxed);
}

// A keyspace's first insert in a new epoch. Looks again: another first insert may have been faster, and what it stored
// must stay.
template <class Policy>
Status BasicIndex<Policy>::State::renew(Root root) {
  RHIZOME_RACE_POINT("index.renew.before_lock");
  MutexLock lock(mutex);
  const RunId before = keyspaces.find(root);
  if (before == 0 || !is_stale(before)) return {};
  return swap_root(root, false);
}

// --- look-ups

template <class Policy>
Match BasicIndex<Policy>::lookup(Root root, std::span<const Element> elements, std::span<Location> out) {
  State& state = *state_;
  const size_t blocks = elements.size() / state.tree.policy().block_elements();
  RHIZOME_CHECK(out.size() >= blocks && blocks <= UINT32_MAX);
  Match match;
  const typename State::Section section(state.runs.epochs());
  const RunId run = state.current_root(root);
  if (run == 0) return match;
  const Prompt<Element> prompt{elements.data(), 0, static_cast<uint32_t>(blocks)};
  const auto place = state.tree.walk_and_pin(section.slot(), run, 0, prompt, out.data());
  match.handle.run_ = place.run.id;
  match.handle.depth_ = place.depth;
  match.blocks = place.depth;
  return match;
}

template <class Policy>
uint32_t BasicIndex<Policy>::peek(Root root, std::span<const Element> elements) const {
  State& state = *state_;
  const typename State::Section section(state.runs.epochs());
  const RunId run = state.current_root(root);
  if (run == 0) return 0;
  const size_t blocks = std::min<size_t>(elements.size() / state.tree.policy().block_elements(), UINT32_MAX);
  const Prompt<Element> prompt{elements.data(), 0, static_cast<uint32_t>(blocks)};
  return state.tree.walk(run, 0, prompt, nullptr).depth;
}

template <class Policy>
Match BasicIndex<Policy>::resume(Root root, Handle& handle, std::span<const Element> rest, std::span<Location> out) {
  if (handle.empty()) return lookup(root, rest, out);
  State& state = *state_;
  const size_t blocks = rest.size() / state.tree.policy().block_elements();
  RHIZOME_CHECK(out.size() >= blocks && handle.blocks() + blocks <= UINT32_MAX);
  Match match;
  const typename State::Section section(state.runs.epochs());
  const RunId run = state.current_root(root);
  uint32_t depth = 0;
  if (run != 0 && state.resolve(handle, run, depth) && depth == handle.depth_) {
    const Prompt<Element> prompt{rest.data(), depth, depth + static_cast<uint32_t>(blocks)};
    const auto place = state.tree.walk_and_pin(section.slot(), handle.run_, depth, prompt, out.data());
    if (place.run.id != 0) {
      state.runs.unpin(section.slot(), handle.run_);
      handle.run_ = place.run.id;
      handle.depth_ = place.depth;
    }
  }
  match.blocks = handle.depth_;
  match.handle = std::move(handle);
  return match;
}

// How many elements of the block at `depth` agree with the run's.
template <class Policy>
uint64_t BasicIndex<Policy>::State::agreeing(const RunView& run, const Prompt<Element>& prompt, uint32_t depth) const {
  if constexpr (Policy::kStoresElements) {
    const auto* const stored = reinterpret_cast<const Element*>(runs.payload(run, depth));
    const Element* const asked = tree.block(prompt, depth);
    const auto differs = std::mismatch(stored, stored + options.block_tokens, asked);
    return static_cast<uint64_t>(differs.first - stored);
  } else {
    return 0;
  }
}

// The walk stopped at the end of `at`.
template <class Policy>
void BasicIndex<Policy>::State::why_missing(const RunView& at, const Prompt<Element>& prompt, uint32_t depth,
                                            Explanation& out) const {
  Tombstone tombstone;
  if (tombstones().find(tree.edge(at.id, tree.block(prompt, depth)), depth, at.ver, tombstone)) {
    out.reason = Reason::kEvicted;
    out.evicted_ticks_ago = runs.last_now() - std::min(runs.last_now(), tombstone.when);
    return;
  }
  RunView child;
  const RunId hint = runs.at(at.id).hint.load(std::memory_order_acquire);  // pairs with Insertion::attach()
  if (hint == 0 || !runs.read_child(hint, at.id, depth, child)) return;
  out.reason = Reason::kDiverged;
  out.stopped_at += agreeing(child, prompt, depth);
}

template <class Policy>
Explanation BasicIndex<Policy>::explain(Root root, std::span<const Element> elements, const Match& match) const {
  State& state = *state_;
  const size_t block_elements = state.tree.policy().block_elements();
  const uint32_t end = static_cast<uint32_t>(elements.size() / block_elements);
  Explanation out;
  out.stopped_at = uint64_t{match.blocks} * state.options.block_tokens;
  if (match.blocks >= end) {
    out.reason = elements.size() == end * block_elements ? Reason::kFull : Reason::kPartialBlock;
    return out;
  }
  const bool in_flight = state.in_flight.covers(root, elements, match.blocks);
  const typename State::Section section(state.runs.epochs());
  const RunId any_root = state.keyspaces.find(root);
  if (any_root == 0) return out;
  RunView at;
  if (state.is_stale(any_root)) {
    const RunWord word(state.runs.at(any_root).word.load(std::memory_order_relaxed));
    if (word.pins() > 1) out.reason = Reason::kStaleEpoch;
    return out;
  }
  const bool pinned = !match.handle.empty();
  if (pinned && !state.is_pinned(match.handle.run_, match.handle.depth_)) return out;
  if (in_flight) {
    out.reason = Reason::kInFlight;
    return out;
  }
  if (!state.runs.read_above(pinned ? match.handle.run_ : any_root, match.blocks, at)) return out;
  const Prompt<Element> prompt{elements.data(), 0, end};
  if (match.blocks < at.end()) {
    out.reason = Reason::kDiverged;
    out.stopped_at += state.agreeing(at, prompt, match.blocks);
  } else {
    state.why_missing(at, prompt, match.blocks, out);
  }
  return out;
}

template <class Policy>
typename BasicIndex<Policy>::Elsewhere BasicIndex<Policy>::find_elsewhere(Root root,
                                                                          std::span<const Element> elements) const {
  std::vector<Root> others;
  {
    MutexLock lock(state_->mutex);
    others = state_->keyspaces.all();
  }
  Elsewhere best;
  for (const Root other : others) {
    const uint32_t blocks = other == root ? 0 : peek(other, elements);
    if (blocks > best.blocks) best = {other, blocks};
  }
  return best;
}

template <class Policy>
SharedRoot BasicIndex<Policy>::shared_root(Root root) const {
  const State& state = *state_;
  const RunId run = state.current_root(root);
  return run == 0 ? SharedRoot{} : SharedRoot{run, state.runs.at(run).ver.load(std::memory_order_acquire)};
}

// `seen`: runs whose path was collected before.
template <class Policy>
void BasicIndex<Policy>::State::collect_path(RunId run, std::vector<Location>& out, std::set<RunId>& seen) const {
  RunView view;
  while (runs.arena().is_header(run) && seen.insert(run).second) {
    while (!runs.read(run, view)) {
      // A free place; one that is being split is read again, its splitter does not wait for us.
      if (RunWord(runs.at(run).word.load(std::memory_order_acquire)).has(RunWord::kDead)) return;
    }
    if (view.word.has(RunWord::kRoot)) return;
    const Location* const first = runs.locations(view, view.start);
    out.insert(out.end(), first, first + view.length());
    run = view.parent;
  }
}

template <class Policy>
void BasicIndex<Policy>::collect_in_use(std::vector<Location>& out) const {
  const State& state = *state_;
  if (state.options.remote_readers == nullptr) return;
  MutexLock lock(state.mutex);
  RHIZOME_RACE_POINT("index.collect_in_use.before_fence");
  // With the fence in IndexReader::lookup(): one of the two sees what the other stored before.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::vector<RunId> in_use;
  state.options.remote_readers->collect(in_use);
  std::set<RunId> seen;
  const typename State::Section section(state_->runs.epochs());
  for (const RunId run : in_use)
    state.collect_path(run, out, seen);
  const std::span<const Location> withheld = state.eviction.withheld();
  out.insert(out.end(), withheld.begin(), withheld.end());
}

template <class Policy>
void BasicIndex<Policy>::take_touches() {
  MutexLock lock(state_->mutex);
  state_->eviction.take_touches();
}

template <class Policy>
void BasicIndex<Policy>::collect_path(uint32_t run, std::vector<Location>& out) const {
  const typename State::Section section(state_->runs.epochs());
  std::set<RunId> seen;
  state_->collect_path(run, out, seen);
}

template <class Policy>
uint64_t BasicIndex<Policy>::shared_bytes(uint64_t runs_bytes) {
  return IndexMemory::shared_bytes(runs_bytes);
}

// --- inserts

template <class Policy>
bool BasicIndex<Policy>::State::is_pinned(uint32_t run, uint32_t depth) const {
  if (depth == 0 || !runs.arena().is_header(run)) return false;
  const RunWord word(runs.at(run).word.load(std::memory_order_acquire));  // pairs with whoever pinned
  if (word.has(RunWord::kDead | RunWord::kRoot) || word.pins() == 0) return false;
  // A run that is being split right now is no stale one.
  RunView view;
  return !runs.read(run, view) || depth <= view.end();
}

template <class Policy>
bool BasicIndex<Policy>::State::resolve(const Handle& handle, RunId root, uint32_t& depth) const {
  depth = 0;
  if (handle.empty()) return true;
  if (!is_pinned(handle.run_, handle.depth_)) return false;
  if (runs.at(handle.run_).root.load(std::memory_order_relaxed) != root) return false;
  depth = handle.depth_;
  RunView view;
  RunId run = handle.run_;
  while (runs.read(run, view) && view.word.has(RunWord::kRemoved) && !view.word.has(RunWord::kRoot)) {
    depth = std::min(depth, view.start);
    run = view.parent;
  }
  return true;
}

template <class Policy>
void BasicIndex<Policy>::State::copy_above(RunId run, uint32_t depth, uint32_t first, std::span<Location> out) const {
  RunView view;
  while (depth > first) {
    // A run that is being split is read again: its splitter does not wait for us.
    if (!runs.read_above(run, depth, view)) continue;
    const uint32_t from = std::max(first, view.start);
    std::copy_n(runs.locations(view, from), depth - from, out.begin() + (from - first));
    depth = from;
  }
}

template <class Policy>
Result<Inserted> BasicIndex<Policy>::State::insert_once(Root root, Handle& handle, const Prompt<Element>& prompt,
                                                        uint32_t first_block, std::span<const Location> locations,
                                                        std::span<Location> canonical, bool& again) {
  const Section section(runs.epochs());
  again = inserts_closed.load(std::memory_order_acquire);  // pairs with ~Closed()
  if (again) return fail(Code::kUnavailable, "inserts are closed");
  const RunId run = keyspaces.find(root);
  if (run == 0) return fail(Code::kFailedPrecondition, "the keyspace is not open");
  again = is_stale(run);
  if (again) return fail(Code::kUnavailable, "the keyspace's tree is of an older epoch");
  typename Insertion<Policy>::Request request{run, handle.run_, 0, prompt, first_block, locations, canonical};
  if (!resolve(handle, run, request.depth)) return fail(Code::kFailedPrecondition, "a handle that pins nothing here");
  request.depth = std::min(request.depth, prompt.end);
  if (request.depth < prompt.origin) return fail(Code::kFailedPrecondition, "the blocks before are not stored");
  std::copy(locations.begin(), locations.end(), canonical.begin());
  copy_above(handle.run_, request.depth, first_block, canonical);
  Insertion<Policy> insertion(tree, runs, section.slot(), request);
  const Status done = insertion.run();
  handle.run_ = insertion.held();
  if (!done) return fail(done.error());
  Inserted inserted;
  handle.depth_ = prompt.end;
  inserted.handle = std::move(handle);
  inserted.stored_before = insertion.stored_before();
  inserted.split_at = insertion.split_at();
  return inserted;
}

template <class Policy>
Result<Inserted> BasicIndex<Policy>::State::insert(Root root, Handle& handle, const Prompt<Element>& prompt,
                                                   uint32_t first_block, std::span<const Location> locations,
                                                   std::span<Location> canonical) {
  for (bool collected = false;;) {
    bool again = false;
    Result<Inserted> inserted = insert_once(root, handle, prompt, first_block, locations, canonical, again);
    if (inserted) {
      runs.epochs().light_fence();
      in_flight.blocks_are_there();
      return inserted;
    }
    if (again) {
      if (const Status renewed = renew(root); !renewed) return fail(renewed.error());
      continue;
    }
    if (collected || inserted.error().code != Code::kResourceExhausted) return inserted;
    // What was evicted may still wait in limbo.
    MutexLock lock(mutex);
    eviction.collect(true);
    collected = true;
  }
}

template <class Policy>
Result<Inserted> BasicIndex<Policy>::insert(Root root, Handle& handle, std::span<const Element> elements,
                                            uint32_t first_block, std::span<const Location> locations,
                                            std::span<Location> canonical) {
  const uint64_t total = uint64_t{first_block} + locations.size();
  if (locations.empty()) return fail(Code::kInvalidArgument, "no blocks to insert");
  if (elements.size() != total * state_->tree.policy().block_elements() || canonical.size() != locations.size() ||
      total > UINT32_MAX) {
    return fail(Code::kInvalidArgument, "elements and locations do not fit together");
  }
  const Prompt<Element> prompt{elements.data(), 0, static_cast<uint32_t>(total)};
  return state_->insert(root, handle, prompt, first_block, locations, canonical);
}

template <class Policy>
Result<Inserted> BasicIndex<Policy>::extend(Root root, Handle& handle, std::span<const Element> rest,
                                            std::span<const Location> locations, std::span<Location> canonical) {
  const uint64_t total = uint64_t{handle.blocks()} + locations.size();
  if (locations.empty()) return fail(Code::kInvalidArgument, "no blocks to insert");
  if (rest.size() != locations.size() * state_->tree.policy().block_elements() ||
      canonical.size() != locations.size() || total > UINT32_MAX) {
    return fail(Code::kInvalidArgument, "elements and locations do not fit together");
  }
  const Prompt<Element> prompt{rest.data(), handle.blocks(), static_cast<uint32_t>(total)};
  return state_->insert(root, handle, prompt, handle.blocks(), locations, canonical);
}

template <class Policy>
Status BasicIndex<Policy>::release(Handle handle) {
  const RunId run = std::exchange(handle.run_, 0);
  if (run == 0) return {};
  const typename State::Section section(state_->runs.epochs());
  if (!state_->is_pinned(run, handle.depth_)) return fail(Code::kFailedPrecondition, "a handle that pins nothing");
  // A use counts when it ends, since what is pinned stays anyway. A run of which an insert used only the beginning is
  // cut there, and what is behind the cut is as old as it was.
  Run& used = state_->runs.at(run);
  if (handle.depth_ > used.start.load(std::memory_order_relaxed)) state_->runs.touch(used);
  state_->runs.unpin(section.slot(), run);
  return {};
}

// --- eviction and removal

template <class Policy>
size_t BasicIndex<Policy>::evict(std::span<Location> out) {
  if (out.empty()) return 0;
  MutexLock lock(state_->mutex);
  return state_->eviction.evict(out);
}

template <class Policy>
size_t BasicIndex<Policy>::evict_if(std::span<Location> out, const std::function<bool(Location)>& may_leave) {
  if (out.empty()) return 0;
  MutexLock lock(state_->mutex);
  return state_->eviction.evict_if(out, may_leave, /*thorough=*/false);
}

template <class Policy>
size_t BasicIndex<Policy>::evict_all_if(std::span<Location> out, const std::function<bool(Location)>& may_leave) {
  if (out.empty()) return 0;
  MutexLock lock(state_->mutex);
  return state_->eviction.evict_if(out, may_leave, /*thorough=*/true);
}

// Returns the blocks that became removed.
template <class Policy>
uint64_t BasicIndex<Policy>::State::mark(RunId id) {
  const RunWord before(runs.at(id).word.fetch_or(RunWord::kRemoved, std::memory_order_acq_rel));
  if (before.has(RunWord::kRemoved | RunWord::kDead)) return 0;
  runs.count(kThreadSlotShared, -int64_t{before.length()}, 0);
  eviction.count_removed(before.length());
  return before.length();
}

// Cuts the run before `first_block`, unlinks what is from there on and marks it.
template <class Policy>
uint64_t BasicIndex<Policy>::State::take_out(RunView at, uint32_t first_block) {
  if (at.start < first_block) {
    const Section section(runs.epochs());
    const RunId upper = runs.arena().allocate(section.slot(), 1);
    runs.lock(runs.at(at.id));
    // Without memory for a cut, the blocks before go, too.
    if (upper == 0 || !tree.cut(section.slot(), upper, at, first_block - at.start, 1)) {
      runs.unlock(runs.at(at.id));
      if (upper != 0) {
        runs.at(upper).word.store(RunWord::kDead, std::memory_order_relaxed);
        runs.arena().free(section.slot(), upper);
      }
    }
  }
  eviction.unlink(at.id);
  return mark(at.id);
}

// Marks what continues a marked run; none of those begins before `first_block`.
template <class Policy>
uint64_t BasicIndex<Policy>::State::mark_below(uint32_t first_block) {
  uint64_t blocks = 0;
  runs.arena().for_each(0, UINT64_MAX, [&](RunId id) NO_THREAD_SAFETY_ANALYSIS {
    RunView below;
    if (!runs.read(id, below) || below.word.has(RunWord::kDead | RunWord::kRoot | RunWord::kRemoved)) return;
    RunView above = below;
    while (above.start > first_block && !above.word.has(RunWord::kRemoved) && runs.read(above.parent, above)) {
    }
    if (above.word.has(RunWord::kRemoved)) blocks += mark(id);
  });
  eviction.sort_out_removed();
  return blocks;
}

template <class Policy>
size_t BasicIndex<Policy>::remove(const Handle& handle, uint32_t first_block) {
  State& state = *state_;
  MutexLock lock(state.mutex);
  RHIZOME_CHECK(state.is_pinned(handle.run_, handle.depth_) && first_block < handle.depth_);
  const typename State::Closed closed(state);
  RHIZOME_RACE_POINT("index.remove.closed");
  RunView at;
  if (!state.runs.read_above(handle.run_, first_block + 1, at) || at.word.has(RunWord::kRemoved)) return 0;
  const uint64_t blocks = state.take_out(at, first_block);
  return blocks + state.mark_below(first_block);
}

template <class Policy>
size_t BasicIndex<Policy>::remove_if(const std::function<bool(Location)>& is_gone) {
  State& state = *state_;
  Runs& runs = state.runs;
  MutexLock lock(state.mutex);
  const typename State::Closed closed(state);
  constexpr uint64_t kOver = RunWord::kDead | RunWord::kRoot | RunWord::kRemoved;
  std::vector<std::pair<RunId, uint32_t>> hit;
  runs.arena().for_each(0, UINT64_MAX, [&](RunId id) {
    RunView run;
    if (!runs.read(id, run) || run.word.has(kOver)) return;
    const std::span<const Location> stored(runs.locations(run, run.start), run.length());
    const auto first = std::find_if(stored.begin(), stored.end(), is_gone);
    if (first != stored.end()) hit.emplace_back(id, run.start + static_cast<uint32_t>(first - stored.begin()));
  });
  uint64_t blocks = 0;
  for (const auto& [id, first_block] : hit) {
    RunView run;
    if (runs.read(id, run) && !run.word.has(kOver)) blocks += state.take_out(run, first_block);
  }
  return hit.empty() ? 0 : blocks + state.mark_below(0);
}

template <class Policy>
void BasicIndex<Policy>::State::mark_step(uint64_t budget) {
  mark_cursor = runs.arena().for_each(mark_cursor, budget, [&](RunId id) NO_THREAD_SAFETY_ANALYSIS {
    RunView view;
    if (!runs.read(id, view) || view.word.has(RunWord::kDead | RunWord::kRoot | RunWord::kRemoved)) return;
    const RunId root = runs.at(id).root.load(std::memory_order_relaxed);
    const bool gone = RunWord(runs.at(root).word.load(std::memory_order_relaxed)).has(RunWord::kRemoved);
    if (gone || is_stale(root)) mark(id);
  });
  if (mark_cursor != 0) return;
  marking.store(false, std::memory_order_relaxed);
  eviction.sort_out_removed();
}

template <class Policy>
size_t BasicIndex<Policy>::reap(std::span<Location> out) {
  State& state = *state_;
  if (out.empty()) return 0;
  if (!state.marking.load(std::memory_order_relaxed)) {
    // No lock when there is nothing to do, which is nearly always.
    if (state.removed_blocks() == 0) return 0;
  }
  MutexLock lock(state.mutex);
  while (state.marking.load(std::memory_order_relaxed))
    state.mark_step(kMarkedPerCall);
  return state.eviction.reap(out);
}

// --- in flight

template <class Policy>
Result<Claim> BasicIndex<Policy>::announce(Root root, std::span<const Element> elements, uint32_t first_block,
                                           uint64_t owner, uint64_t deadline_ns) {
  State& state = *state_;
  const size_t block_elements = state.tree.policy().block_elements();
  const size_t blocks = elements.size() / block_elements;
  if (first_block >= blocks) return fail(Code::kInvalidArgument, "no blocks to announce");
  const Result<uint64_t> id =
      state.in_flight.announce(root, elements.first(blocks * block_elements), first_block, owner, deadline_ns);
  if (!id) return fail(id.error());
  Claim claim;
  claim.board_ = &state.in_flight;
  claim.withdraw_ = [](void* board, uint64_t claimed) { static_cast<InFlight<Element>*>(board)->withdraw(claimed); };
  claim.id_ = *id;
  return claim;
}

template <class Policy>
WaitEnd BasicIndex<Policy>::wait(Root root, std::span<const Element> elements, uint32_t blocks, uint64_t give_up_ns) {
  State& state = *state_;
  return state.in_flight.wait(
      root, elements, blocks, give_up_ns, [&] { return peek(root, elements); },
      [&] { state.runs.epochs().heavy_fence(); });
}

template <class Policy>
size_t BasicIndex<Policy>::owner_is_gone(uint64_t owner) {
  return state_->in_flight.withdraw_all(owner);
}

template <class Policy>
IndexUsage BasicIndex<Policy>::usage() const {
  State& state = *state_;
  IndexUsage usage;
  usage.blocks = static_cast<uint64_t>(std::max<int64_t>(state.runs.blocks_count(), 0));
  usage.runs = static_cast<uint64_t>(std::max<int64_t>(state.runs.runs_count(), 0));
  usage.bytes = state.runs.arena().bytes_used() + state.runs.edges().bytes_used();
  MutexLock lock(state.mutex);
  usage.removed_blocks = state.eviction.removed_blocks();
  usage.withheld_blocks = state.eviction.withheld().size();
  usage.roots = state.keyspaces.count();
  return usage;
}

template <class Policy>
IndexPins BasicIndex<Policy>::pins(Root root) const {
  State& state = *state_;
  Runs& runs = state.runs;
  MutexLock lock(state.mutex);
  const RunId wanted = root.value == 0 ? 0 : state.keyspaces.find(root);
  struct Seen {
    RunView view;
    int64_t pins = 0;
    int64_t children = 0;
    bool counted = false;
  };
  std::map<RunId, Seen> all;
  runs.arena().for_each(0, UINT64_MAX, [&](RunId id) {
    RunView view;
    if (!runs.read(id, view)) return;
    all[view.parent].children += 1;
    Seen& own = all[id];
    own.view = view;
    own.pins = int64_t{view.word.pins()} + runs.hot().hidden_pins(runs.at(id));
  });
  IndexPins pins;
  for (auto& [id, run] : all) {
    if (run.pins <= run.children || run.view.word.has(RunWord::kRoot | RunWord::kDead)) continue;
    if (wanted != 0 && runs.at(id).root.load(std::memory_order_relaxed) != wanted) continue;
    pins.handles += static_cast<uint64_t>(run.pins - run.children);
    for (Seen* above = &run; above->view.id != 0 && !above->counted; above = &all[above->view.parent]) {
      above->counted = true;
      pins.blocks += above->view.length();
    }
  }
  return pins;
}

template <class Policy>
void BasicIndex<Policy>::prefault(uint64_t bytes) {
  state_->runs.arena().prefault(bytes);
}

template <class Policy>
uint64_t BasicIndex<Policy>::block_bytes_max(uint32_t block_tokens) {
  constexpr uint64_t blocks = Runs::kGrowthCapacityMin;
  const uint64_t bytes = Runs::payload_offset(blocks) + blocks * Policy::payload_bytes(block_tokens);
  const uint64_t units = 1 + (bytes + kUnitBytes - 1) / kUnitBytes;
  // Two places of the edge table, which is half full after it grew; the header's bit and the candidate's number.
  constexpr uint64_t edges = 2 * 2 * 64 / 7 + 8;
  return Arena::rounded(units) * kUnitBytes + kUnitBytes + edges;
}

template class BasicIndex<ExactPolicy>;
template class BasicIndex<FingerprintPolicy>;
template class BasicIndex<PrehashedPolicy>;

}  // namespace rhizome
