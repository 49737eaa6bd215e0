// A walk through the tree of a keyspace: from a run to the child whose first block agrees, comparing as many blocks as
// the child has. Nothing is written on the way, so it works in another process's memory, too.
//
// Thread-safety: may be called from any thread; in the index's own process, in an epoch section.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "index/index_types.h"
#include "index/policy.h"
#include "index/run_reader.h"

namespace rhizome {

// A prompt or the rest of one, in whole blocks: its first element stands at block `origin`.
template <class Element>
struct Prompt {
  const Element* elements = nullptr;
  uint32_t origin = 0;
  uint32_t end = 0;  // in blocks, from the beginning of the prompt
};

// The runs that a walk went through, as they were.
struct RunPath {
  static constexpr uint32_t kRunsMax = 512;

  struct Step {
    RunId id;
    uint32_t ver;
  };

  uint32_t count = 0;
  std::array<Step, kRunsMax> steps;
};

template <class Policy>
class RunWalk {
 public:
  using Element = typename Policy::Element;

  // How far a prompt leads: `run` is the deepest one, the root where nothing was found.
  struct Place {
    RunView run;
    uint32_t depth = 0;
  };

  RunWalk(const Policy& policy, const RunReader& runs) : policy_(policy), runs_(runs) {}

  const Policy& policy() const { return policy_; }

  // From a run that is a root or that the caller pins, and a depth that lies on the path to it. Locations go to
  // out[depth - origin]; null: nowhere. With `path` each run that agrees is noted, and the walk ends where it is full.
  Place walk(RunId from, uint32_t depth, const Prompt<Element>& prompt, Location* out, RunPath* path = nullptr) const;

  // The edge that leads on from a run to a block.
  uint64_t edge(RunId run, const Element* block) const { return edge_of_word(run, policy_.word(block)); }
  static uint64_t edge_of_word(RunId run, uint64_t word);

  const Element* block(const Prompt<Element>& prompt, uint32_t depth) const {
    return prompt.elements + uint64_t{depth - prompt.origin} * policy_.block_elements();
  }
  uint32_t match(const RunView& run, uint32_t depth, const Prompt<Element>& prompt, uint32_t blocks) const {
    return policy_.match(runs_.payload(run, depth), block(prompt, depth), blocks);
  }
  // The child of `parent` that the prompt goes on with at `depth`, and how many of its blocks agree.
  bool find_child(RunId parent, uint32_t depth, const Prompt<Element>& prompt, uint64_t edge, RunView& child,
                  uint32_t& equal) const;

 private:
  bool step(RunId parent, uint32_t depth, const Prompt<Element>& prompt, uint64_t& edge, RunView& child,
            uint32_t& equal) const;
  uint32_t match_ahead(const RunView& run, uint32_t depth, const Prompt<Element>& prompt, uint64_t& next_edge) const;
  void prefetch_child(uint64_t edge) const;
  void prefetch_payload(uint64_t edge) const;

  const Policy policy_;
  const RunReader& runs_;
};

extern template class RunWalk<ExactPolicy>;
extern template class RunWalk<FingerprintPolicy>;
extern template class RunWalk<PrehashedPolicy>;

}  // namespace rhizome
