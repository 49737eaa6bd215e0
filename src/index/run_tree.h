// The run tree: the trees of runs of all keyspaces, walked without locks.
//
// Look-ups write nothing on their way (run_walk.h); only the deepest run is pinned, and if that run has changed
// meanwhile the walk is done again.
//
// An insert goes the same way with a pin, and where the prompt leaves what is stored it splits the run there, or
// appends to the run, or attaches a new one behind its end. The pin that it holds keeps the end where it is.
//
// Thread-safety: may be called from any thread, in an epoch section whose slot is passed.
#pragma once

#include <cstdint>
#include <span>

#include "index/index_types.h"
#include "index/policy.h"
#include "index/run_walk.h"
#include "index/runs.h"

namespace rhizome {

template <class Policy>
class RunTree : public RunWalk<Policy> {
 public:
  using Element = typename Policy::Element;
  using Place = typename RunWalk<Policy>::Place;

  RunTree(const IndexOptions& options, Runs& runs);

  // As walk(), and takes a pin on the deepest run. Nothing found behind `depth`: no pin, and an empty view.
  Place walk_and_pin(uint32_t slot, RunId from, uint32_t depth, const Prompt<Element>& prompt, Location* out);

  // The edge that would lead on from a run to its own block `depth`.
  static uint64_t edge_of_stored(const void* policy, const Runs& runs, const RunView& run, uint32_t depth);

  // Makes the first `offset` blocks of a run a run of their own, `upper`: allocated for nothing but a header, born with
  // `pins` pins, one of which is the lower run's. The caller has locked the run, which is as it was read; on success
  // it is unlocked. False: the edge table is full, nothing changed.
  bool cut(uint32_t slot, RunId upper, const RunView& at, uint32_t offset, uint32_t pins);

 private:
  Runs& runs_;
};

extern template class RunTree<ExactPolicy>;
extern template class RunTree<FingerprintPolicy>;
extern template class RunTree<PrehashedPolicy>;

}  // namespace rhizome
