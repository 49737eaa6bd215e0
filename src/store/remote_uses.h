// What readers in other processes have used, handed on twice: to the index, which they tell through RemoteReaders, and
// to the store, which keeps the order in which blocks leave memory.
//
// Thread-safety: everything here may be called from any thread.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "concurrency/mutex.h"
#include "index/remote_readers.h"

namespace rhizome {

class RemoteUses final : public RemoteReaders {
 public:
  explicit RemoteUses(RemoteReaders& readers) : readers_(readers) {}

  void collect(std::vector<RunId>& in_use) override { readers_.collect(in_use); }
  void take_touches(const std::function<void(RunId, uint32_t)>& touched) override {
    readers_.take_touches([&](RunId run, uint32_t tick) {
      touched(run, tick);
      const MutexLock lock(mutex_);
      if (runs_.size() < kRunsMax) runs_.push_back(run);
    });
  }

  // The runs that were touched since the last call, each once, as far as they are known.
  std::vector<RunId> take() {
    std::vector<RunId> taken;
    {
      const MutexLock lock(mutex_);
      taken = std::exchange(runs_, {});
    }
    std::ranges::sort(taken);
    taken.erase(std::unique(taken.begin(), taken.end()), taken.end());
    return taken;
  }

 private:
  static constexpr size_t kRunsMax = 4096;

  RemoteReaders& readers_;
  Mutex mutex_;
  std::vector<RunId> runs_ GUARDED_BY(mutex_);
};

}  // namespace rhizome
