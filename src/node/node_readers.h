// The lease pages of all clients, as the index of the store asks for them.
//
// Thread-safety: everything here may be called from any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "attach/lease_page.h"
#include "concurrency/mutex.h"
#include "index/remote_readers.h"
#include "machine/clock.h"

namespace rhizome {

class NodeReaders final : public RemoteReaders {
 public:
  // Before the client is given its page.
  void add(LeaseReader& reader) {
    const MutexLock lock(mutex_);
    readers_.push_back(&reader);
  }
  // Once the client cannot read any more, or has been told that it must not.
  void remove(const LeaseReader& reader) {
    const MutexLock lock(mutex_);
    std::erase(readers_, &reader);
  }

  void collect(std::vector<RunId>& in_use) override {
    const MutexLock lock(mutex_);
    for (const LeaseReader* const reader : readers_)
      reader->collect_slots(UINT32_MAX, in_use);
  }
  void take_touches(const std::function<void(RunId, uint32_t)>& touched) override {
    const MutexLock lock(mutex_);
    touches_.clear();
    for (LeaseReader* const reader : readers_)
      reader->take_touches(UINT32_MAX, static_cast<uint32_t>(coarse_now_ticks()), touches_);
    for (const LeaseTouch& touch : touches_)
      touched(touch.run, touch.tick);
  }

 private:
  Mutex mutex_;
  std::vector<LeaseReader*> readers_ GUARDED_BY(mutex_);
  std::vector<LeaseTouch> touches_ GUARDED_BY(mutex_);  // kept for its memory
};

}  // namespace rhizome
