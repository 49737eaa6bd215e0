// The handles of sequences, for callers that know a sequence by a number: they need not keep its tokens to release it,
// and no release can hit what another sequence with the same tokens holds.
//
// Thread-safety: may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "concurrency/mutex.h"
#include "contract/result.h"
#include "index/prefix_cache.h"

namespace rhizome {

class SequenceHandles {
 public:
  explicit SequenceHandles(PrefixCache& cache) : cache_(cache) {}
  // Releases all.
  ~SequenceHandles();
  SequenceHandles(const SequenceHandles&) = delete;
  SequenceHandles& operator=(const SequenceHandles&) = delete;

  // kAlreadyExists: the sequence has a handle, and this one stays the caller's.
  Status hold(uint64_t sequence, PrefixHandle&& handle);
  // To go on with it. kNotFound: it has none, or gave it back before.
  Result<PrefixHandle> take(uint64_t sequence);
  // kNotFound, the same.
  Status release(uint64_t sequence);

  size_t count() const;

 private:
  PrefixCache& cache_;
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, PrefixHandle> handles_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
