#include "index/hot_pins.h"

#include "contract/check.h"

namespace rhizome {

HotPins::HotPins(Epochs& epochs) : epochs_(epochs) {
  Result<Mapping> mapped = Mapping::anonymous(sizeof(Counters) * kThreadSlots);
  RHIZOME_CHECK(mapped.has_value());
  mapping_ = std::move(*mapped);
  counters_ = reinterpret_cast<Counters*>(mapping_.bytes().data());
}

void HotPins::try_promote(RunId id, Run& run) {
  if (used_.load(std::memory_order_relaxed) == kPlaces || !mutex_.try_lock()) return;
  for (size_t i = 0; i < kPlaces; ++i) {
    Place& place = places_[i];
    if (place.state != State::kUnused) continue;
    uint64_t word = run.word.load(std::memory_order_acquire);
    if (RunWord(word).has(RunWord::kDead | RunWord::kHot) || RunWord(word).pins() >= kBias) break;
    run.hot_slot.store(static_cast<uint16_t>(i), std::memory_order_relaxed);
    // Release: who sees kHot sees the place. Others may pin or lock meanwhile; nobody else sets kHot.
    while (!run.word.compare_exchange_weak(word, RunWord(word).with(RunWord::kHot).bits() + kBias,
                                           std::memory_order_acq_rel)) {
    }
    place = {State::kHot, id, &run, 0};
    used_.fetch_add(1, std::memory_order_relaxed);
    break;
  }
  mutex_.unlock();
}

int64_t HotPins::sum(size_t place) const {
  int64_t pins = 0;
  const uint32_t end = thread_slots_end();
  for (uint32_t slot = 0; slot < end; ++slot)
    pins += counters_[slot].of[place].load(std::memory_order_relaxed);
  return pins;
}

void HotPins::cool(bool all, uint32_t tick, std::vector<RunId>& idle) {
  if (!any()) return;
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < kPlaces; ++i) {
    Place& place = places_[i];
    if (place.state == State::kHot) {
      const RunWord word(place.run->word.load(std::memory_order_relaxed));
      const int64_t pins = int64_t{word.pins()} - kBias + sum(i);
      const auto idle_ticks = static_cast<int32_t>(tick - place.run->touch.load(std::memory_order_relaxed));
      if (all ? pins > 0 : pins >= kPromoteAt / 4 || idle_ticks < kCoolAfterTicks) continue;
      place.run->word.fetch_and(~uint64_t{RunWord::kHot}, std::memory_order_acq_rel);
      place.state = State::kCooling;
      place.cooling_since = epochs_.current();
    } else if (place.state == State::kCooling && epochs_.is_past(place.cooling_since)) {
      fold(place, i, idle);
    }
  }
}

bool HotPins::any_removed_idle() {
  if (!any()) return false;
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < kPlaces; ++i) {
    if (places_[i].state == State::kUnused) continue;
    const RunWord word(places_[i].run->word.load(std::memory_order_relaxed));
    if (word.has(RunWord::kRemoved) && int64_t{word.pins()} - kBias + sum(i) <= 0) return true;
  }
  return false;
}

void HotPins::fold(Place& place, size_t index, std::vector<RunId>& idle) {
  // Nobody changes these counters any more: sections that saw kHot have ended.
  const int64_t counted = sum(index);
  for (uint32_t slot = 0; slot < kThreadSlots; ++slot) {
    std::atomic<int32_t>& counter = counters_[slot].of[index];
    if (counter.load(std::memory_order_relaxed) != 0) counter.store(0, std::memory_order_relaxed);
  }
  const uint64_t change = static_cast<uint64_t>(counted - int64_t{kBias});
  const RunWord before(place.run->word.fetch_add(change, std::memory_order_acq_rel));
  const int64_t pins = int64_t{before.pins()} - kBias + counted;
  RHIZOME_CHECK(pins >= 0);
  if (pins == 0) idle.push_back(place.id);
  place = {};
  used_.fetch_sub(1, std::memory_order_relaxed);
}

int64_t HotPins::hidden_pins(const Run& run) const {
  const RunWord word(run.word.load(std::memory_order_relaxed));
  if (word.pins() < kBias / 2) return 0;
  return sum(run.hot_slot.load(std::memory_order_relaxed)) - int64_t{kBias};
}

}  // namespace rhizome
