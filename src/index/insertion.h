// One insert into a run tree: from the caller's pin down to where the prompt leaves what is stored, and there the new
// blocks.
//
// Order of locks: a run's kLocked, then segments of the edge table. Never two runs but a run and the one that is split
// off it, which is born locked and unknown.
//
// Thread-safety: belongs to one thread, in an epoch section that lasts as long as the object.
#pragma once

#include <cstdint>
#include <span>

#include "contract/result.h"
#include "index/index_types.h"
#include "index/run_tree.h"

namespace rhizome {

template <class Policy>
class Insertion {
 public:
  using Element = typename Policy::Element;

  // `held` is a pinned run below which, or in which, block `depth` of the prompt begins or ends, or 0: then from the
  // root. locations[i] is of block first_block + i, the last of which ends the prompt; canonical[i] begins as
  // locations[i].
  struct Request {
    RunId root = 0;
    RunId held = 0;
    uint32_t depth = 0;
    Prompt<Element> prompt;
    uint32_t first_block = 0;
    std::span<const Location> locations;
    std::span<Location> canonical;
  };

  Insertion(RunTree<Policy>& tree, Runs& runs, uint32_t slot, const Request& request)
      : tree_(tree), runs_(runs), slot_(slot), request_(request), held_(request.held), depth_(request.depth) {}

  // kFailedPrecondition: a block before first_block is not stored. kResourceExhausted: no memory, or others changed
  // the same runs all the time. Then nothing that look-ups find has changed.
  Status run();

  // The run that the caller pins now: request.held or, without an error, what replaced it.
  RunId held() const { return held_; }
  uint32_t stored_before() const { return stored_before_; }
  uint32_t split_at() const { return split_at_; }

 private:
  enum class Step : uint8_t { kGoOn, kDone, kFull };
  // New runs, one behind the other, which nobody can come to before the top one is linked. The bottom one carries our
  // pin, and each of the others that of the next. One run, but where no place is large enough.
  struct Chain {
    RunId top = 0;
    RunId bottom = 0;
    uint32_t runs = 0;
  };

  Step step();
  Step finish(const RunView& at);
  void note_stored(const RunView& run, uint32_t equal);
  Step split(const RunView& at);
  bool append(const RunView& at);
  Step attach(const RunView& at);
  bool link(const RunView& at, uint64_t edge, const Chain& made);
  Chain make_chain(const RunView& at, uint64_t edge, uint32_t count);
  RunId make_run(const RunView& at, RunId parent, uint64_t edge, uint32_t start, uint32_t count);
  bool link_inner(RunId parent, RunId id);
  void unmake(const Chain& made);
  Step descend(const RunView& child, uint32_t equal);
  void hold_pinned(RunId id);
  std::span<const Location> new_locations(uint32_t start, uint32_t count) const {
    return request_.locations.subspan(start - request_.first_block, count);
  }

  RunTree<Policy>& tree_;
  Runs& runs_;
  const uint32_t slot_;
  const Request& request_;
  RunId held_;
  uint32_t depth_;
  bool owned_ = false;  // held_ carries a pin that this insertion took or made
  bool kept_ = true;    // the pin of request.held is still there: an error gives it back as it was
  bool anything_new_ = false;
  uint32_t stored_before_ = 0;
  uint32_t split_at_ = Inserted::kNoSplit;
};

extern template class Insertion<ExactPolicy>;
extern template class Insertion<FingerprintPolicy>;
extern template class Insertion<PrehashedPolicy>;

}  // namespace rhizome
