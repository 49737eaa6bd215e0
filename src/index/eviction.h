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
// With readers in other processes (remote_readers.h) a run that was marked is withheld first: its blocks are given
// away, and it goes to limbo, once it is in nobody's slot. Until then its pin on its parent counts like that of a live
// child, so its ancestors stay.
//
// Thread-safety: everything REQUIRES the evictor's mutex, which the caller holds; never in an epoch section.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "concurrency/mutex.h"
#include "index/remote_readers.h"
#include "index/runs.h"
#include "index/tombstones.h"

namespace rhizome {

class Eviction {
 public:
  // The edge that would lead on from a run to one of its own blocks, were the run to end before it.
  using EdgeOf = uint64_t (*)(const void* policy, const Runs& runs, const RunView& run, uint32_t depth);

  // `remote`: null without readers in other processes.
  Eviction(Runs& runs, EdgeOf edge_of, const void* policy, RemoteReaders* remote)
      : runs_(runs), edge_of_(edge_of), policy_(policy), remote_(remote) {}

  using MayLeave = std::function<bool(Location)>;

  size_t evict(std::span<Location> out);
  // Only blocks that may leave; each candidate is looked at once. `thorough`: also runs that are candidates only once
  // somebody looks for them.
  size_t evict_if(std::span<Location> out, const MayLeave& may_leave, bool thorough);
  // Blocks of runs that carry kRemoved and that nobody pins.
  size_t reap(std::span<Location> out);

  // What readers in other processes have used counts from now on.
  void take_touches();

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
  // Blocks that are marked and wait for readers in other processes.
  std::span<const Location> withheld() const { return withheld_locations_; }

 private:
  struct InLimbo {
    RunId id;
    uint64_t epoch;
  };

  // Marked, and perhaps still in a reader's slot. Its blocks lie in withheld_locations_, in the same order.
  struct Withheld {
    RunId id;
    uint32_t count;
    bool dies;     // all of the run is gone
    bool removed;  // it carried kRemoved
  };

  void drain();
  void begin_round();
  void end_rounds();
  bool is_in_use(RunId id) const { return std::binary_search(in_use_.begin(), in_use_.end(), id); }
  size_t round(std::span<Location> out, const MayLeave* may_leave);
  size_t hand_out(std::vector<Location>& ready, std::span<Location> out);
  // Gives away what is in no slot (any more): blocks of removed runs, or the others. The rest of either kind is kept
  // for the call that asks for it.
  size_t settle(std::span<Location> out, bool removed);
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
  RemoteReaders* const remote_;
  std::map<uint64_t, std::vector<RunId>> buckets_;
  std::vector<RunId> removed_;      // candidates that carry kRemoved
  std::vector<Location> orphans_;   // of removed runs that are dead, for reap()
  std::vector<Location> ready_;     // of others that were withheld, for the next evict()
  std::vector<Withheld> withheld_;  // children before parents
  std::vector<Location> withheld_locations_;
  std::vector<RunId> in_use_;   // sorted: what was in readers' slots when the round began
  std::vector<RunId> spared_;   // candidates that were among them
  std::vector<RunId> drained_;  // these two keep their memory
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
