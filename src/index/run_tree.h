// The trees of runs: what the index does, without its lock.
//
// Thread-safety: none; the index's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "index/branch_table.h"
#include "index/index.h"
#include "index/run.h"

namespace rhizome {

class RunTree {
 public:
  using EdgeHash = uint64_t(RunId run, std::span<const Token> block);

  // A place in a tree: `depth` blocks from its root, the last of them in `run` (or `run` is the root).
  struct Place {
    RunId run = 0;
    uint32_t depth = 0;
  };
  struct Attached {
    Place place;
    uint32_t split_at = Inserted::kNoSplit;
  };

  RunTree(uint32_t block_tokens, EdgeHash* hash);

  // Ordinals count from 1. Returns the root's own run.
  RunId add_root(uint32_t ordinal);

  // The deepest place at or below `from` that the tokens lead to.
  Place walk(Place from, std::span<const Token> tokens) const;
  // Why the walk stopped there; the token goes to `stopped_at`.
  Reason why_stopped(Place place, std::span<const Token> tokens, uint64_t& stopped_at) const;
  // The deepest place above `place`, or itself, that look-ups can still find, at most `depth_max` deep.
  Place nearest_live(Place place, uint32_t depth_max) const;
  // Locations of the blocks [first, place.depth), or as many as fit.
  void copy_locations(Place place, uint32_t first, std::span<Location> out) const;

  // Puts blocks below `place`, which no stored continuation leads on from. `own` is the caller's pinned run:
  // a run that only the caller pins grows in place.
  Attached attach(Place place, RunId own, std::span<const Token> tokens, std::span<const Location> locations);

  bool is_pinned(RunId run) const;
  void pin(RunId run);
  // The run must be pinned.
  void unpin(RunId run);
  void touch(RunId run) { at(run).touch = ++clock_; }

  size_t evict(std::span<Location> out);
  // Block `first` must lie on the path to `place`.
  size_t remove(Place place, uint32_t first);
  size_t reap(std::span<Location> out);

  uint64_t held_blocks(uint32_t ordinal) const { return held_blocks_[ordinal]; }
  const IndexUsage& usage() const { return usage_; }
  uint32_t depth_of(RunId run) const { return at(run).end(); }

 private:
  Run& at(RunId id) { return *runs_[id]; }
  const Run& at(RunId id) const { return *runs_[id]; }

  RunId add_run();
  void drop_run(RunId id);
  RunId find_child(RunId parent, std::span<const Token> block) const;
  void link(RunId child);
  void unlink(RunId child);
  // Cuts `run` before its block `offset`; the part before becomes a new run, which is returned.
  RunId split(RunId run, uint32_t offset);
  void hold(RunId run);
  void unhold(RunId run);
  void set_idle(RunId run, bool idle);
  void child_gone(RunId parent, uint64_t child_touch);
  void bury(RunId run);

  const uint32_t block_tokens_;
  EdgeHash* const hash_;
  std::vector<std::unique_ptr<Run>> runs_;
  std::vector<RunId> unused_;
  BranchTable branches_;
  std::set<std::pair<uint64_t, RunId>> idle_;  // leaves that may be evicted, least recently used first
  std::vector<Location> orphans_;              // of removed blocks that are gone
  std::vector<uint64_t> held_blocks_;          // by ordinal
  uint64_t clock_ = 0;
  IndexUsage usage_;
};

}  // namespace rhizome
