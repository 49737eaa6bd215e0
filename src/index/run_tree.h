// The run tree: the trees of runs of all keyspaces, walked without locks.
//
// A walk goes from a run to the child whose first block agrees, comparing as many blocks as the child has. Nothing is
// written on the way; only the deepest run is pinned, and if that run has changed meanwhile the walk is done again.
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
#include "index/runs.h"

namespace rhizome {

// A prompt or the rest of one, in whole blocks: its first element stands at block `origin`.
template <class Element>
struct Prompt {
  const Element* elements = nullptr;
  uint32_t origin = 0;
  uint32_t end = 0;  // in blocks, from the beginning of the prompt
};

template <class Policy>
class RunTree {
 public:
  using Element = typename Policy::Element;

  // How far a prompt leads: `run` is the deepest one, the root where nothing was found.
  struct Place {
    RunView run;
    uint32_t depth = 0;
  };

  RunTree(const IndexOptions& options, Runs& runs);

  const Policy& policy() const { return policy_; }

  // From a run that is a root or that the caller pins, and a depth that lies on the path to it. Locations go to
  // out[depth - origin]; null: nowhere.
  Place walk(RunId from, uint32_t depth, const Prompt<Element>& prompt, Location* out) const;
  // The same, and takes a pin on the deepest run. Nothing found behind `depth`: no pin, and an empty view.
  Place walk_and_pin(uint32_t slot, RunId from, uint32_t depth, const Prompt<Element>& prompt, Location* out);

  // The edge that leads on from a run to a block.
  uint64_t edge(RunId run, const Element* block) const { return edge_of_word(run, policy_.word(block)); }
  static uint64_t edge_of_stored(const void* policy, const Runs& runs, const RunView& run, uint32_t depth);

  const Element* block(const Prompt<Element>& prompt, uint32_t depth) const {
    return prompt.elements + uint64_t{depth - prompt.origin} * policy_.block_elements();
  }
  uint32_t match(const RunView& run, uint32_t depth, const Prompt<Element>& prompt, uint32_t blocks) const {
    return policy_.match(runs_.payload(run, depth), block(prompt, depth), blocks);
  }
  // The child of `parent` that the prompt goes on with at `depth`, and how many of its blocks agree.
  bool find_child(RunId parent, uint32_t depth, const Prompt<Element>& prompt, uint64_t edge, RunView& child,
                  uint32_t& equal) const;

  static uint64_t edge_of_word(RunId run, uint64_t word);

  // Makes the first `offset` blocks of a run a run of their own, `upper`: allocated for nothing but a header, born with
  // `pins` pins, one of which is the lower run's. The caller has locked the run, which is as it was read; on success
  // it is unlocked. False: the edge table is full, nothing changed.
  bool cut(uint32_t slot, RunId upper, const RunView& at, uint32_t offset, uint32_t pins);

 private:
  bool step(RunId parent, uint32_t depth, const Prompt<Element>& prompt, uint64_t& edge, RunView& child,
            uint32_t& equal) const;
  uint32_t match_ahead(const RunView& run, uint32_t depth, const Prompt<Element>& prompt, uint64_t& next_edge) const;
  void prefetch_child(uint64_t edge) const;
  void prefetch_payload(uint64_t edge) const;

  const Policy policy_;
  Runs& runs_;
};

extern template class RunTree<ExactPolicy>;
extern template class RunTree<FingerprintPolicy>;
extern template class RunTree<PrehashedPolicy>;

}  // namespace rhizome
