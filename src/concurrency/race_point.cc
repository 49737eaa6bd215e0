#include "concurrency/race_point.h"

#if defined(RHIZOME_RACE_POINTS) && RHIZOME_RACE_POINTS

#include <algorithm>
#include <atomic>
#include <string_view>
#include <vector>

#include "concurrency/mutex.h"

namespace rhizome {

struct RaceHold::State {
  std::string_view name;
  bool reached = false;   // somebody has come
  bool let_go = false;    // he may go on, and nobody else is held
  bool standing = false;  // he has not left yet
};

namespace {

struct Registry {
  Mutex mutex;
  CondVar changed;
  std::vector<RaceHold::State*> holds GUARDED_BY(mutex);
  // Read without the mutex, so that points do not order threads that no test holds.
  std::atomic<size_t> holds_count{0};
};

Registry& registry() {
  static Registry* const kRegistry = new Registry;
  return *kRegistry;
}

}  // namespace

RaceHold::RaceHold(const char* name) : state_(std::make_unique<State>()) {
  state_->name = name;
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  all.holds.push_back(state_.get());
  all.holds_count.fetch_add(1, std::memory_order_relaxed);
}

RaceHold::~RaceHold() {
  let_go();
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  std::erase(all.holds, state_.get());
  all.holds_count.fetch_sub(1, std::memory_order_relaxed);
}

void RaceHold::wait_reached() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  while (!state_->reached)
    all.changed.wait(all.mutex);
}

bool RaceHold::reached() const {
  const MutexLock lock(registry().mutex);
  return state_->reached;
}

void RaceHold::let_go() {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  state_->let_go = true;
  all.changed.notify_all();
  while (state_->standing)
    all.changed.wait(all.mutex);
}

void race_point_reached(const char* name) {
  Registry& all = registry();
  if (all.holds_count.load(std::memory_order_relaxed) == 0) return;
  const MutexLock lock(all.mutex);
  for (RaceHold::State* const hold : all.holds) {
    if (hold->name != name || hold->reached || hold->let_go) continue;
    hold->reached = true;
    hold->standing = true;
    all.changed.notify_all();
    while (!hold->let_go)
      all.changed.wait(all.mutex);
    hold->standing = false;
    all.changed.notify_all();
    return;
  }
}

}  // namespace rhizome

#endif
