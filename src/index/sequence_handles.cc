#include "index/sequence_handles.h"

#include <utility>

#include "contract/check.h"

namespace rhizome {

SequenceHandles::~SequenceHandles() {
  MutexLock lock(mutex_);
  for (auto& [sequence, handle] : handles_) {
    const Status released = cache_.release(std::move(handle));
    RHIZOME_CHECK(released.has_value());
  }
}

Status SequenceHandles::hold(uint64_t sequence, PrefixHandle&& handle) {
  MutexLock lock(mutex_);
  // Does not move from the handle when the sequence is known.
  const bool added = handles_.try_emplace(sequence, std::move(handle)).second;
  if (!added) return fail(Code::kAlreadyExists, "the sequence has a handle");
  return {};
}

Result<PrefixHandle> SequenceHandles::take(uint64_t sequence) {
  MutexLock lock(mutex_);
  const auto known = handles_.find(sequence);
  if (known == handles_.end()) return fail(Code::kNotFound, "the sequence has no handle");
  PrefixHandle handle = std::move(known->second);
  handles_.erase(known);
  return handle;
}

Status SequenceHandles::release(uint64_t sequence) {
  Result<PrefixHandle> handle = take(sequence);
  if (!handle) return fail(handle.error());
  return cache_.release(std::move(*handle));
}

size_t SequenceHandles::count() const {
  MutexLock lock(mutex_);
  return handles_.size();
}

}  // namespace rhizome
