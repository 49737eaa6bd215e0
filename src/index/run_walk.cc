#include "index/run_walk.h"

#include <algorithm>
#include <cstring>

namespace rhizome {
namespace {

// Runs of so many bytes of prompt are compared in pieces, so that the next run's lines come in meanwhile.
constexpr uint32_t kAheadBytesMin = 2048;

}  // namespace

// A multiplication folded to 64 bits; its high half is never zero, which is what an empty entry has there.
template <class Policy>
uint64_t RunWalk<Policy>::edge_of_word(RunId run, uint64_t word) {
  const uint64_t mixed = word ^ (uint64_t{run} + 1) * 0x9e3779b97f4a7c15u;
  const unsigned __int128 product = static_cast<unsigned __int128>(mixed) * 0xd6e8feb86659fd93u;
  const uint64_t folded = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  return folded >> 32 != 0 ? folded : folded | uint64_t{1} << 32;
}

template <class Policy>
bool RunWalk<Policy>::find_child(RunId parent, uint32_t depth, const Prompt<Element>& prompt, uint64_t edge,
                                 RunView& child, uint32_t& equal) const {
  return runs_.edge_reader().find(edge, [&](RunId id) {
    if (!runs_.read_child(id, parent, depth, child)) return false;
    equal = match(child, depth, prompt, std::min(child.length(), prompt.end - depth));
    return equal > 0;
  });
}

template <class Policy>
void RunWalk<Policy>::prefetch_child(uint64_t edge) const {
  runs_.edge_reader().find(edge, [&](RunId id) {
    if (!runs_.contains(id, 1)) return true;
    __builtin_prefetch(&runs_.at(id));
    return true;
  });
}

// Where the payload and the locations of a child are that is probably there: what is read here may be anything.
template <class Policy>
void RunWalk<Policy>::prefetch_payload(uint64_t edge) const {
  runs_.edge_reader().find(edge, [&](RunId id) {
    if (!runs_.contains(id, 1)) return true;
    const Run& run = runs_.at(id);
    RunView child;
    child.owner = run.owner.load(std::memory_order_relaxed);
    child.base = run.base.load(std::memory_order_relaxed);
    child.capacity = run.capacity.load(std::memory_order_relaxed);
    if (!runs_.contains(child.owner, runs_.units_for(child.capacity))) return true;
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
uint32_t RunWalk<Policy>::match_ahead(const RunView& run, uint32_t depth, const Prompt<Element>& prompt,
                                      uint64_t& next_edge) const {
  const uint32_t length = run.length();
  const uint32_t quarter = length / 4;
  // Each step uses what the one before has fetched, and has a quarter of the run's time to arrive.
  next_edge = edge(run.id, block(prompt, depth + length));
  uint32_t equal = match(run, depth, prompt, quarter);
  if (equal < quarter) return equal;
  runs_.edge_reader().prefetch(next_edge);
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
bool RunWalk<Policy>::step(RunId parent, uint32_t depth, const Prompt<Element>& prompt, uint64_t& edge_on,
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
  return runs_.edge_reader().find(wanted, [&](RunId id) {
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
typename RunWalk<Policy>::Place RunWalk<Policy>::walk(RunId from, uint32_t depth, const Prompt<Element>& prompt,
                                                      Location* out, RunPath* path) const {
  Place place;
  place.depth = depth;
  if (path != nullptr) path->count = 0;
  if (!runs_.read_above(from, depth, place.run)) return place;
  RunView child;
  uint32_t equal = 0;
  const auto note = [&](const RunView& run) {
    if (out != nullptr) {
      std::memcpy(out + (place.depth - prompt.origin), runs_.locations(run, place.depth), equal * sizeof(Location));
    }
    if (path != nullptr) path->steps[path->count++] = {run.id, run.ver};
    place.depth += equal;
    return (path != nullptr && path->count == RunPath::kRunsMax) || place.depth < run.end() ||
           place.depth == prompt.end;
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

template class RunWalk<ExactPolicy>;
template class RunWalk<FingerprintPolicy>;
template class RunWalk<PrehashedPolicy>;

}  // namespace rhizome
