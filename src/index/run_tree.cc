#include "index/run_tree.h"

#include <algorithm>
#include <cstring>

#include "concurrency/race_point.h"

namespace rhizome {
namespace {

// Runs of so many bytes of prompt are compared in pieces, so that the next run's lines come in meanwhile.
constexpr uint32_t kAheadBytesMin = 2048;
// A walk that finds its last run changed every time ends as a miss.
constexpr int kWalksMax = 64;

}  // namespace

template <class Policy>
RunTree<Policy>::RunTree(const IndexOptions& options, Runs& runs) : policy_(options), runs_(runs) {}

// A multiplication folded to 64 bits; its high half is never zero, which is what an empty entry has there.
template <class Policy>
uint64_t RunTree<Policy>::edge_of_word(RunId run, uint64_t word) {
  const uint64_t mixed = word ^ (uint64_t{run} + 1) * 0x9e3779b97f4a7c15u;
  const unsigned __int128 product = static_cast<unsigned __int128>(mixed) * 0xd6e8feb86659fd93u;
  const uint64_t folded = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  return folded >> 32 != 0 ? folded : folded | uint64_t{1} << 32;
}

template <class Policy>
uint64_t RunTree<Policy>::edge_of_stored(const void* policy, const Runs& runs, const RunView& run, uint32_t depth) {
  return edge_of_word(run.id, static_cast<const Policy*>(policy)->stored_word(runs.payload(run, depth)));
}

template <class Policy>
bool RunTree<Policy>::find_child(RunId parent, uint32_t depth, const Prompt<Element>& prompt, uint64_t edge,
                                 RunView& child, uint32_t& equal) const {
  return runs_.edges().find(edge, [&](RunId id) {
    if (!runs_.read_child(id, parent, depth, child)) return false;
    equal = match(child, depth, prompt, std::min(child.length(), prompt.end - depth));
    return equal > 0;
  });
}

template <class Policy>
void RunTree<Policy>::prefetch_child(uint64_t edge) const {
  runs_.edges().find(edge, [&](RunId id) {
    if (!runs_.arena().contains(id, 1)) return true;
    __builtin_prefetch(&runs_.at(id));
    return true;
  });
}

// Where the payload and the locations of a child are that is probably there: what is read here may be anything.
template <class Policy>
void RunTree<Policy>::prefetch_payload(uint64_t edge) const {
  runs_.edges().find(edge, [&](RunId id) {
    if (!runs_.arena().contains(id, 1)) return true;
    const Run& run = runs_.at(id);
    RunView child;
    child.owner = run.owner.load(std::memory_order_relaxed);
    child.base = run.base.load(std::memory_order_relaxed);
    child.capacity = run.capacity.load(std::memory_order_relaxed);
    if (!runs_.arena().contains(child.owner, runs_.units_for(child.capacity))) return true;
    const std::byte* const payload = runs_.payload(child, 0);
    for (int line = 0; line < 12; ++line)
      __builtin_prefetch(payload + line * kUnitBytes);
    const auto* const locations = reinterpret_cast<const std::byte*>(runs_.locations(child, 0));
    for (int line = 0; line < 4; ++line)
      __builtin_prefetch(locations + line * kUnitBytes);
    return true;
  });
}

// Like match() over the whole run, with the edge behind its end worked out and what it leads to on its way.
template <class Policy>
uint32_t RunTree<Policy>::match_ahead(const RunView& run, uint32_t depth, const Prompt<Element>& prompt,
                                      uint64_t& next_edge) const {
  const uint32_t length = run.length();
  const uint32_t quarter = length / 4;
  // Each step uses what the one before has fetched, and has a quarter of the run's time to arrive.
  next_edge = edge(run.id, block(prompt, depth + length));
  uint32_t equal = match(run, depth, prompt, quarter);
  if (equal < quarter) return equal;
  runs_.edges().prefetch(next_edge);
  equal += match(run, depth + equal, prompt, quarter);
  if (equal < 2 * quarter) return equal;
  prefetch_child(next_edge);
  equal += match(run, depth + equal, prompt, quarter);
  if (equal < 3 * quarter) return equal;
  prefetch_payload(next_edge);
  return equal + match(run, depth + equal, prompt, length - equal);
}

// `edge_on` is the one that leads on from `parent`, or 0 when it is not worked out yet; then that of the child found.
template <class Policy>
bool RunTree<Policy>::step(RunId parent, uint32_t depth, const Prompt<Element>& prompt, uint64_t& edge_on,
                           RunView& child, uint32_t& equal) const {
  if (edge_on == 0) {
    const RunId hint = runs_.at(parent).hint.load(std::memory_order_acquire);  // pairs with Insertion::attach()
    if (hint != 0 && runs_.read_child(hint, parent, depth, child)) {
      equal = match(child, depth, prompt, std::min(child.length(), prompt.end - depth));
      if (equal > 0) return true;
    }
    edge_on = edge(parent, block(prompt, depth));
  }
  const uint64_t wanted = edge_on;
  edge_on = 0;
  return runs_.edges().find(wanted, [&](RunId id) {
    if (!runs_.read_child(id, parent, depth, child)) return false;
    const uint32_t left = prompt.end - depth;
    const uint64_t bytes = uint64_t{child.length()} * policy_.block_elements() * sizeof(Element);
    if (left > child.length() && bytes >= kAheadBytesMin) {
      equal = match_ahead(child, depth, prompt, edge_on);
    } else {
      equal = match(child, depth, prompt, std::min(child.length(), left));
    }
    if (equal < child.length()) edge_on = 0;
    return equal > 0;
  });
}

template <class Policy>
typename RunTree<Policy>::Place RunTree<Policy>::walk(RunId from, uint32_t depth, const Prompt<Element>& prompt,
                                                      Location* out) const {
  Place place;
  place.depth = depth;
  if (!runs_.read_above(from, depth, place.run)) return place;
  RunView child;
  uint32_t equal = 0;
  const auto note = [&](const RunView& run) {
    if (out != nullptr) {
      std::memcpy(out + (place.depth - prompt.origin), runs_.locations(run, place.depth), equal * sizeof(Location));
    }
    place.depth += equal;
    return place.depth < run.end() || place.depth == prompt.end;
  };
  if (depth < place.run.end()) {
    equal = match(place.run, depth, prompt, std::min(place.run.end(), prompt.end) - depth);
    if (note(place.run)) return place;
  }
  uint64_t edge_on = 0;
  while (place.depth < prompt.end && step(place.run.id, place.depth, prompt, edge_on, child, equal)) {
    place.run = child;
    if (note(child)) break;
  }
  return place;
}

template <class Policy>
typename RunTree<Policy>::Place RunTree<Policy>::walk_and_pin(uint32_t slot, RunId from, uint32_t depth,
                                                              const Prompt<Element>& prompt, Location* out) {
  for (int walks = 0; walks < kWalksMax; ++walks) {
    const Place place = walk(from, depth, prompt, out);
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
  const uint64_t edge_between = edge_of_word(upper_id, policy_.stored_word(runs_.payload(at, at.start + offset)));
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
