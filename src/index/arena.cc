#include "index/arena.h"

#include <algorithm>
#include <bit>

#include "contract/check.h"

namespace rhizome {
namespace {

constexpr uint64_t kExactUnitsMax = 16;
constexpr uint64_t kUnitsMax = UINT32_MAX;
constexpr uint64_t kCarvedTogetherUnitsMax = 64;
constexpr uint64_t kCarvedTogether = 16;
// Of the arena, that one thread's free places of one class may take.
constexpr uint64_t kCachedShare = 1 << 13;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kPrefaultedTogether = 2 << 20;

}  // namespace

Arena::Arena(uint64_t bytes) : Arena(bytes, {}) {}

Arena::Arena(uint64_t bytes, std::span<std::byte> memory) {
  if (memory.empty()) {
    const uint64_t units = std::clamp<uint64_t>(bytes / kUnitBytes, 2 * kExactUnitsMax, kUnitsMax);
    Result<Mapping> mapped = Mapping::anonymous(units * kUnitBytes);
    RHIZOME_CHECK(mapped.has_value());
    mapping_ = std::move(*mapped);
    mapping_.prefer_huge_pages();
    memory = mapping_.bytes();
  }
  memory_ = memory.data();
  units_ = static_cast<uint32_t>(std::min<uint64_t>(memory.size() / kUnitBytes, kUnitsMax));
  RHIZOME_CHECK(units_ >= 2 * kExactUnitsMax);
  Result<Mapping> mapped = Mapping::anonymous((uint64_t{units_} / 64 + 1) * sizeof(uint64_t));
  RHIZOME_CHECK(mapped.has_value());
  headers_mapping_ = std::move(*mapped);
  headers_ = reinterpret_cast<std::atomic<uint64_t>*>(headers_mapping_.bytes().data());
}

// Above the exact ones: 8 to 15 times a power of two.
size_t Arena::class_of(uint64_t units) {
  if (units <= kExactUnitsMax) return units;
  uint64_t shift = static_cast<uint64_t>(std::bit_width(units)) - 4;
  uint64_t mantissa = (units + (uint64_t{1} << shift) - 1) >> shift;
  if (mantissa == 16) {
    mantissa = 8;
    ++shift;
  }
  return kExactUnitsMax + 1 + (shift - 1) * 8 + (mantissa - 8);
}

uint64_t Arena::class_units(size_t size_class) {
  if (size_class <= kExactUnitsMax) return size_class;
  const size_t above = size_class - kExactUnitsMax - 1;
  return (above % 8 + 8) << (above / 8 + 1);
}

uint64_t Arena::rounded(uint64_t units) {
  return class_units(class_of(units));
}

Arena::Cache& Arena::cache(uint32_t slot) {
  std::unique_ptr<Cache>& own = caches_[slot];
  if (own == nullptr) own = std::make_unique<Cache>();
  return *own;
}

size_t Arena::class_within(uint64_t units) {
  const size_t size_class = class_of(units);
  return class_units(size_class) > units ? size_class - 1 : size_class;
}

size_t Arena::cached_max(size_t size_class) const {
  return std::min<uint64_t>(kCacheMax, units_ / kCachedShare / class_units(size_class));
}

RunId Arena::allocate(uint32_t slot, uint64_t units) {
  if (units >= units_) return 0;
  const size_t size_class = class_of(units);
  const size_t cached = size_class < kCachedClasses ? cached_max(size_class) : 0;
  std::vector<RunId>* const own = size_class < kCachedClasses ? &cache(slot).free[size_class] : nullptr;
  RunId id = 0;
  if (own == nullptr || own->empty()) {
    const MutexLock lock(mutex_);
    std::vector<RunId>& shared = free_[size_class];
    if (shared.empty()) carve(size_class, std::clamp<uint64_t>(cached, 1, kCarvedTogether), shared);
    if (shared.empty()) {
      id = take_larger(size_class);
    } else {
      id = shared.back();
      shared.pop_back();
      const auto moved = static_cast<std::ptrdiff_t>(std::min(shared.size(), cached / 2));
      if (moved > 0) own->insert(own->end(), shared.end() - moved, shared.end());
      shared.resize(shared.size() - static_cast<size_t>(moved));
    }
  } else {
    id = own->back();
    own->pop_back();
  }
  if (id != 0) count(slot, id);
  return id;
}

RunId Arena::allocate_less(uint32_t slot, uint64_t units, uint64_t least) {
  RunId id = 0;
  const size_t smallest = class_of(least);
  {
    const MutexLock lock(mutex_);
    const uint64_t left = std::min<uint64_t>(units, units_ - carved_.load(std::memory_order_relaxed));
    if (left >= class_units(smallest)) {
      const size_t size_class = class_within(left);
      carve(size_class, 1, free_[size_class]);
    }
    for (size_t size_class = class_within(units); id == 0 && size_class >= smallest; --size_class) {
      if (free_[size_class].empty()) continue;
      id = free_[size_class].back();
      free_[size_class].pop_back();
    }
  }
  for (size_t size_class = std::min(class_within(units), kCachedClasses - 1); id == 0 && size_class >= smallest;
       --size_class) {
    std::vector<RunId>& own = cache(slot).free[size_class];
    if (own.empty()) continue;
    id = own.back();
    own.pop_back();
  }
  if (id != 0) count(slot, id);
  return id;
}

// Memory that was carved keeps its class, so the arena may be full of free places of other classes.
RunId Arena::take_larger(size_t size_class) {
  for (size_t larger = size_class + 1; larger < kClasses; ++larger) {
    if (free_[larger].empty()) continue;
    const RunId id = free_[larger].back();
    free_[larger].pop_back();
    return id;
  }
  return 0;
}

void Arena::free(uint32_t slot, RunId id) {
  const size_t size_class = at(id).size_class;
  units_used_[slot].fetch_sub(static_cast<int64_t>(class_units(size_class)), std::memory_order_relaxed);
  if (size_class >= kCachedClasses) {
    const MutexLock lock(mutex_);
    free_[size_class].push_back(id);
    return;
  }
  std::vector<RunId>& own = cache(slot).free[size_class];
  own.push_back(id);
  const size_t most = cached_max(size_class);
  if (own.size() <= most) return;
  const MutexLock lock(mutex_);
  std::vector<RunId>& shared = free_[size_class];
  const auto kept = own.begin() + static_cast<std::ptrdiff_t>(most / 2);
  shared.insert(shared.end(), kept, own.end());
  own.erase(kept, own.end());
}

void Arena::free_all(std::vector<RunId>& ids) {
  if (ids.empty()) return;
  uint64_t units = 0;
  const MutexLock lock(mutex_);
  for (const RunId id : ids) {
    const size_t size_class = at(id).size_class;
    units += class_units(size_class);
    free_[size_class].push_back(id);
  }
  ids.clear();
  units_freed_.fetch_add(static_cast<int64_t>(units), std::memory_order_relaxed);
}

void Arena::carve(size_t size_class, uint64_t most, std::vector<RunId>& out) {
  const uint64_t units = class_units(size_class);
  const uint32_t carved = carved_.load(std::memory_order_relaxed);
  uint64_t count = units <= kCarvedTogetherUnitsMax ? most : 1;
  count = std::min(count, (units_ - carved) / units);
  // Descending, so that they are used in ascending order.
  for (uint64_t i = count; i > 0; --i) {
    const RunId id = carved + static_cast<RunId>((i - 1) * units);
    Run& run = at(id);
    run.size_class = static_cast<uint16_t>(size_class);
    run.word.store(RunWord::kDead, std::memory_order_relaxed);
    run.ver.store(1, std::memory_order_relaxed);
    headers_[id / 64].fetch_or(uint64_t{1} << (id % 64), std::memory_order_relaxed);
    out.push_back(id);
  }
  // Pairs with the acquire in for_each(): below the mark every header has its size.
  carved_.store(carved + static_cast<uint32_t>(count * units), std::memory_order_release);
}

uint64_t Arena::bytes_used() const {
  int64_t units = -units_freed_.load(std::memory_order_relaxed);
  for (const std::atomic<int64_t>& used : units_used_)
    units += used.load(std::memory_order_relaxed);
  return static_cast<uint64_t>(std::max<int64_t>(units, 0)) * kUnitBytes;
}

void Arena::prefault(uint64_t bytes) {
  const uint64_t end = std::min<uint64_t>(bytes, uint64_t{units_} * kUnitBytes);
  for (uint64_t from = 0; from < end; from += kPrefaultedTogether) {
    // What is carved is in use, or will be at any moment; what is not is nobody's while the mutex is held.
    const MutexLock lock(mutex_);
    const uint64_t carved = uint64_t{carved_.load(std::memory_order_relaxed)} * kUnitBytes;
    uint64_t at_byte = (std::max(from, carved) + kPage - 1) / kPage * kPage;
    for (; at_byte < std::min(end, from + kPrefaultedTogether); at_byte += kPage)
      static_cast<volatile std::byte*>(memory_)[at_byte] = std::byte{0};
  }
}

}  // namespace rhizome
