#include "index/run_tree.h"

#include "concurrency/race_point.h"

namespace rhizome {
namespace {

// A walk that finds its last run changed every time ends as a miss.
constexpr int kWalksMax = 64;

}  // namespace

template <class Policy>
RunTree<Policy>::RunTree(const IndexOptions& options, Runs& runs)
    : RunWalk<Policy>(Policy(options), runs), runs_(runs) {}

template <class Policy>
uint64_t RunTree<Policy>::edge_of_stored(const void* policy, const Runs& runs, const RunView& run, uint32_t depth) {
  return RunWalk<Policy>::edge_of_word(run.id,
                                       static_cast<const Policy*>(policy)->stored_word(runs.payload(run, depth)));
}

template <class Policy>
typename RunTree<Policy>::Place RunTree<Policy>::walk_and_pin(uint32_t slot, RunId from, uint32_t depth,
                                                              const Prompt<Element>& prompt, Location* out) {
  for (int walks = 0; walks < kWalksMax; ++walks) {
    const Place place = this->walk(from, depth, prompt, out);
    if (place.run.word.has(RunWord::kRoot) || place.depth == depth) break;
    RHIZOME_RACE_POINT("index.lookup.before_pin");
    const RunWord word = runs_.pin(slot, place.run.id);
    const Run& run = runs_.at(place.run.id);
    // Acquire: pairs with the last store of a change.
    const bool same = run.ver.load(std::memory_order_acquire) == place.run.ver;
    if (same && !word.has(RunWord::kDead | RunWord::kRemoved) && place.run.start + word.length() >= place.depth) {
      return place;
    }
    runs_.unpin(slot, place.run.id);
  }
  Place nothing;
  nothing.depth = depth;
  return nothing;
}

template <class Policy>
bool RunTree<Policy>::cut(uint32_t slot, RunId upper_id, const RunView& at, uint32_t offset, uint32_t pins) {
  Run& run = runs_.at(at.id);
  Run& upper = runs_.at(upper_id);
  const uint64_t edge_above = run.edge.load(std::memory_order_relaxed);
  const uint64_t edge_between =
      this->edge_of_word(upper_id, this->policy().stored_word(runs_.payload(at, at.start + offset)));
  upper.start.store(at.start, std::memory_order_relaxed);
  upper.parent.store(at.parent, std::memory_order_relaxed);
  upper.owner.store(at.owner, std::memory_order_relaxed);
  upper.base.store(at.base, std::memory_order_relaxed);
  upper.capacity.store(at.capacity, std::memory_order_relaxed);
  upper.touch.store(run.touch.load(std::memory_order_relaxed), std::memory_order_relaxed);
  upper.root.store(run.root.load(std::memory_order_relaxed), std::memory_order_relaxed);
  upper.hint.store(at.id, std::memory_order_relaxed);
  upper.edge.store(edge_above, std::memory_order_relaxed);
  upper.shares.store(0, std::memory_order_relaxed);
  upper.dead_children.store(0, std::memory_order_relaxed);
  // Locked, so that nobody splits it before the edges are in order.
  upper.word.store(RunWord::make(pins, offset, RunWord::kLocked).bits(), std::memory_order_relaxed);
  {
    const EdgeTable::Lock lock(runs_.edges(), edge_above, edge_between);
    if (!runs_.edges().insert(edge_between, at.id)) return false;
    runs_.at(at.owner).shares.fetch_add(1, std::memory_order_relaxed);
    upper.ver.fetch_add(1, std::memory_order_release);  // live
    // Acquire, so that the changes stay behind it; read() loads them in turn before it looks at ver again.
    run.ver.fetch_add(1, std::memory_order_acq_rel);
    RHIZOME_RACE_POINT("index.split.half_way");
    run.start.store(at.start + offset, std::memory_order_release);
    run.base.store(at.base + offset, std::memory_order_release);
    run.parent.store(upper_id, std::memory_order_release);
    run.edge.store(edge_between, std::memory_order_release);
    run.word.fetch_sub(offset * RunWord::kOneBlock, std::memory_order_acq_rel);
    run.ver.fetch_add(1, std::memory_order_release);  // pairs with the acquire of ver in read()
    RunId hinted = at.id;
    runs_.at(at.parent).hint.compare_exchange_strong(hinted, upper_id, std::memory_order_acq_rel);
    runs_.edges().replace(edge_above, at.id, upper_id);
  }
  runs_.unlock(upper);
  runs_.unlock(run);
  runs_.count(slot, 0, 1);
  return true;
}

template class RunTree<ExactPolicy>;
template class RunTree<FingerprintPolicy>;
template class RunTree<PrehashedPolicy>;

}  // namespace rhizome
