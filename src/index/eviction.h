// Eviction: which blocks leave when room is needed, and when the memory of what left may be used again.
//
// A run is a candidate from the moment its last pin goes until it is popped here: once in a queue or a bucket, told by
// kQueued. Buckets hold candidates by the tick of their last use; one that was used since is put where it belongs when
// it is popped (as in SIEVE: nothing is moved while look-ups come). The victim is the candidate used longest ago; its
// blocks go from its end.
//
// A dead run stays in limbo until its epoch is past, and keeps its pin on its parent meanwhile. A parent whose pins
// are all those of dead children can already be a victim; it comes to limbo behind them and leaves it behind them.
//
// Thread-safety: everything REQUIRES the evictor's mutex, which the caller holds; never in an epoch section.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "concurrency/mutex.h"
#include "index/runs.h"
#include "index/tombstones.h"

namespace rhizome {

class Eviction {
 public:
  // The edge that would lead on from a run to one of its own blocks, were the run to end before it.
  using EdgeOf = uint64_t (*)(const void* policy, const Runs& runs, const RunView& run, uint32_t depth);

  Eviction(Runs& runs, EdgeOf edge_of, const void* policy) : runs_(runs), edge_of_(edge_of), policy_(policy) {}

  using MayLeave = std::function<bool(Location)>;

  size_t evict(std::span<Location> out);
  // Only blocks that may leave; each candidate is looked at once.
  size_t evict_if(std::span<Location> out, const MayLeave& may_leave);
  // Blocks of runs that carry kRemoved and that nobody pins.
  size_t reap(std::span<Location> out);

  // Unlinks a run that is linked; nobody inserts meanwhile.
  void unlink(RunId id);
  // Takes the pin of an open keyspace off its root, which nobody inserts below any more.
  void let_go_root(RunId id);
  // After runs were given kRemoved: candidates among them go to reap().
  void sort_out_removed();
  void count_removed(int64_t blocks) { removed_blocks_.fetch_add(blocks, std::memory_order_relaxed); }
  uint64_t removed_blocks() const { return static_cast<uint64_t>(removed_blocks_.load(std::memory_order_relaxed)); }

  // Frees what can be freed now; true when something was.
  bool collect(bool force);
  const Tombstones& tombstones() const { return tombstones_; }

 private:
  struct InLimbo {
    RunId id;
    uint64_t epoch;
  };

  void drain();
  void file(RunId id);
  bool pop_oldest(RunId& id, uint64_t& tick);
  void prefetch_oldest() const;
  bool find_more();
  void cool_hot_runs(bool all);
  bool find_removed();
  void bury_removed();
  // Takes up to out.size() blocks of a popped candidate; with `may_leave`, none before one that may not.
  size_t take_from(RunId id, uint64_t tick, std::span<Location> out, const MayLeave* may_leave = nullptr);
  void put_back(RunId id, bool removed, uint64_t tick);
  // False, and the run is no candidate any more, when somebody pins it.
  bool still_idle(RunId id);
  void bury(RunId id);
  void free_run(RunId id);

  Runs& runs_;
  const EdgeOf edge_of_;
  const void* const policy_;
  std::map<uint64_t, std::vector<RunId>> buckets_;
  std::vector<RunId> removed_;     // candidates that carry kRemoved
  std::vector<Location> orphans_;  // of removed runs that are dead, for reap()
  std::vector<RunId> drained_;     // these two keep their memory
  std::vector<RunId> freed_;
  // During evict_if(): candidates that it has looked at. They go back to their buckets when it is done.
  std::vector<std::pair<uint64_t, RunId>>* looked_at_ = nullptr;
  std::deque<InLimbo> limbo_;
  size_t limbo_at_next_advance_ = 0;
  uint32_t calls_ = 0;
  std::atomic<int64_t> removed_blocks_{0};
  Tombstones tombstones_;
};

}  // namespace rhizome
