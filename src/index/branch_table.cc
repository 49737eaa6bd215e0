#include "index/branch_table.h"

#include <utility>

#include "contract/check.h"

namespace rhizome {

void BranchTable::add(RunId id) {
  if (count_ == buckets_.size()) grow();
  Run& run = *runs_[id];
  RunId& head = buckets_[run.hash & (buckets_.size() - 1)];
  run.next_in_bucket = std::exchange(head, id);
  ++count_;
}

void BranchTable::take_out(RunId id) {
  Run& run = *runs_[id];
  RunId* link = &buckets_[run.hash & (buckets_.size() - 1)];
  while (*link != id) {
    RHIZOME_CHECK(*link != 0);
    link = &runs_[*link]->next_in_bucket;
  }
  *link = std::exchange(run.next_in_bucket, 0);
  --count_;
}

void BranchTable::grow() {
  std::vector<RunId> old = std::exchange(buckets_, std::vector<RunId>(buckets_.size() * 2, 0));
  for (RunId id : old) {
    while (id != 0) {
      Run& run = *runs_[id];
      const RunId next = run.next_in_bucket;
      RunId& head = buckets_[run.hash & (buckets_.size() - 1)];
      run.next_in_bucket = std::exchange(head, id);
      id = next;
    }
  }
}

}  // namespace rhizome
