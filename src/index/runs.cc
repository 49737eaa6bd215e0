#include "index/runs.h"

#include "concurrency/race_point.h"
#include "contract/check.h"
#include "machine/clock.h"

namespace rhizome {

namespace {

// As much as there is address space for: a process may have little, or have to account for all of it.
uint64_t reservable(uint64_t memory_bytes) {
  // Arena and edge table together reserve less than this many times as much.
  constexpr uint64_t kTimes = 3;
  constexpr uint64_t kLeast = 1 << 20;
  while (memory_bytes > kLeast && !Mapping::anonymous(kTimes * memory_bytes))
    memory_bytes /= 2;
  return memory_bytes;
}

}  // namespace

Runs::Runs(const IndexOptions& options, uint64_t payload_bytes)
    : IndexMemory(options.shared_memory.empty() ? reservable(options.memory_bytes) : 0, options.shared_memory),
      RunReader(arena().memory(), arena().units(), payload_bytes, edges()),
      recency_(options.recency),
      hot_(epochs_) {}

uint32_t Runs::capacity_of_units(uint64_t units) const {
  const uint64_t bytes = (units - 1) * kUnitBytes;
  uint64_t capacity = bytes / (sizeof(Location) + payload_bytes());
  while (payload_offset(capacity) + capacity * payload_bytes() > bytes)
    --capacity;
  return static_cast<uint32_t>(std::min<uint64_t>(capacity, RunWord::kLengthMax));
}

RunWord Runs::pin(uint32_t slot, RunId id) {
  Run& run = at(id);
  RunWord word(run.word.load(std::memory_order_acquire));  // pairs with try_promote(): the place is there
  if (word.has(RunWord::kHot)) {
    RHIZOME_RACE_POINT("index.pin.hot");
    hot_.add(slot, run.hot_slot.load(std::memory_order_relaxed), 1);
    return word;
  }
  const RunWord seen = word;
  // Acquire: pairs with the releases that changed the run before. Release: see unpin().
  word = RunWord(run.word.fetch_add(RunWord::kOnePin, std::memory_order_acq_rel));
  if (word.pins() >= HotPins::kBias / 2) return word;
  // Many pins, or few that get into each other's way: the word has changed since it was read a moment ago.
  const bool contended = word.bits() != seen.bits() && ++slots_[slot].contended % kContendedPerPromotion == 0;
  if (contended || word.pins() >= HotPins::kPromoteAt) hot_.try_promote(id, run);
  return word;
}

void Runs::unpin(uint32_t slot, RunId id) {
  Run& run = at(id);
  RunWord word(run.word.load(std::memory_order_acquire));  // pairs with try_promote()
  if (word.has(RunWord::kHot)) {
    hot_.add(slot, run.hot_slot.load(std::memory_order_relaxed), -1);
    return;
  }
  // Release: what was read under the pin was read before the evictor's compare-and-swap (acquire) finds none.
  word = RunWord(run.word.fetch_sub(RunWord::kOnePin, std::memory_order_acq_rel));
  RHIZOME_CHECK(word.pins() > 0);
  RHIZOME_RACE_POINT("index.unpin.before_enqueue");
  // A dead child in limbo pins too, but does not keep its parent from being a candidate.
  const uint32_t left = word.pins() - 1;
  if (left == 0 || left == run.dead_children.load(std::memory_order_relaxed)) enqueue(slot, id);
}

void Runs::lock(Run& run) {
  Spin spin;
  // Acquire: pairs with the release of unlock().
  while (RunWord(run.word.fetch_or(RunWord::kLocked, std::memory_order_acquire)).has(RunWord::kLocked)) {
    while (RunWord(run.word.load(std::memory_order_relaxed)).has(RunWord::kLocked))
      spin.wait();
  }
}

void Runs::enqueue(uint32_t slot, RunId id) {
  constexpr uint64_t kNoCandidate = RunWord::kDead | RunWord::kQueued | RunWord::kRoot;
  Run& run = at(id);
  if (RunWord(run.word.load(std::memory_order_relaxed)).has(kNoCandidate)) return;
  if (RunWord(run.word.fetch_or(RunWord::kQueued, std::memory_order_acq_rel)).has(kNoCandidate)) return;
  Slot& own = slots_[slot];
  own.lock.lock();
  if (own.candidates == nullptr) own.candidates = std::make_unique<std::deque<RunId>>();
  own.candidates->push_back(id);
  own.lock.unlock();
  own.any.store(true, std::memory_order_release);  // pairs with the acquire in drain_candidates()
}

void Runs::drain_candidates(std::vector<RunId>& out) {
  const uint32_t end = thread_slots_end();
  for (uint32_t i = 0; i < end; ++i) {
    Slot& slot = slots_[i];
    if (!slot.any.load(std::memory_order_acquire)) continue;  // pairs with the release in enqueue()
    slot.lock.lock();
    // Under the lock: a candidate that comes later sets it later.
    slot.any.store(false, std::memory_order_relaxed);
    out.insert(out.end(), slot.candidates->begin(), slot.candidates->end());
    slot.candidates->clear();
    slot.lock.unlock();
  }
}

int64_t Runs::blocks_count() const {
  int64_t sum = 0;
  for (const Slot& slot : slots_)
    sum += slot.blocks.load(std::memory_order_relaxed);
  return sum;
}

int64_t Runs::runs_count() const {
  int64_t sum = 0;
  for (const Slot& slot : slots_)
    sum += slot.runs.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace rhizome
