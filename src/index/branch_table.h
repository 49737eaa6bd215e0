// The branch table: from the hash of an edge (a run and the block that continues it) to the runs
// that may be behind it. Chains go through Run::next_in_bucket.
//
// Thread-safety: none; the index's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "index/run.h"

namespace rhizome {

class BranchTable {
 public:
  using Runs = std::vector<std::unique_ptr<Run>>;

  // `runs` must outlive the table; a run's hash must not change while it is in the table.
  explicit BranchTable(Runs& runs) : runs_(runs), buckets_(kBucketsMin, 0) {}

  void add(RunId id);
  void take_out(RunId id);
  // The first run of the chain for `hash`; hashes must still be compared.
  RunId chain(uint64_t hash) const { return buckets_[hash & (buckets_.size() - 1)]; }

 private:
  static constexpr size_t kBucketsMin = 64;

  void grow();

  Runs& runs_;
  std::vector<RunId> buckets_;
  size_t count_ = 0;
};

}  // namespace rhizome
