#include "index/edge_table.h"

#include <algorithm>
#include <bit>

#include "contract/check.h"

namespace rhizome {
namespace {

// Beyond that a segment gets more buckets: 80 % of the entries.
constexpr uint32_t kLoadMaxPer10 = 56;
constexpr uint32_t kBucketsInAPage = 64;

}  // namespace

EdgeTable::EdgeTable(const Arena& arena) : arena_(arena) {
  const int width = std::clamp(static_cast<int>(std::bit_width(arena.units())) - 15, 2, 8);
  segment_mask_ = (uint64_t{1} << width) - 1;
  // A segment may get more than its share, but hardly so much more.
  const uint64_t entries_max = (uint64_t{arena.units()} >> width) * 5 / 4 + 64;
  // 1, 2, 3, 4, 6, 8, 12, 16 ...: a little more than needed costs memory, a little too little costs a copy.
  uint64_t offset = 0;
  for (uint32_t step = 0;; ++step) {
    const uint32_t buckets = step == 0 ? 1 : (step % 2 == 1 ? 2u : 3u) << ((step - 1) / 2);
    if (buckets >= kBucketsInAPage) offset = (offset + kBucketsInAPage - 1) / kBucketsInAPage * kBucketsInAPage;
    extents_.push_back({offset, buckets});
    offset += buckets;
    if (uint64_t{buckets} * kLoadMaxPer10 / 10 >= entries_max) break;
  }
  const uint64_t stride = (offset + kBucketsInAPage - 1) / kBucketsInAPage * kBucketsInAPage;
  Result<Mapping> mapped = Mapping::anonymous((stride * sizeof(Bucket)) << width);
  RHIZOME_CHECK(mapped.has_value());
  mapping_ = std::move(*mapped);
  segments_ = std::vector<Segment>(segment_mask_ + 1);
  Bucket* const first = reinterpret_cast<Bucket*>(mapping_.bytes().data());
  for (size_t i = 0; i < segments_.size(); ++i)
    segments_[i].first = first + i * stride;
}

bool EdgeTable::put(const Array& array, uint64_t edge, RunId id) {
  const uint64_t entry = uint64_t{high_half(edge)} << 32 | id;
  const uint32_t start = home(array, edge);
  uint32_t bucket = start;
  for (uint32_t probes = 0; probes < std::min(kProbesMax, array.buckets); ++probes) {
    for (std::atomic<uint64_t>& slot : array.first[bucket].entries) {
      if (slot.load(std::memory_order_relaxed) != 0) continue;
      // First the way there, then the entry: a reader that needs it does not stop before it.
      for (uint32_t passed = start; passed != bucket; passed = passed + 1 == array.buckets ? 0 : passed + 1)
        array.first[passed].passed_over.fetch_add(1, std::memory_order_relaxed);
      slot.store(entry, std::memory_order_release);  // pairs with the acquire in probe()
      return true;
    }
    bucket = bucket + 1 == array.buckets ? 0 : bucket + 1;
  }
  return false;
}

std::atomic<uint64_t>* EdgeTable::find_entry(const Array& array, uint64_t edge, RunId id, uint32_t& bucket) {
  const uint64_t entry = uint64_t{high_half(edge)} << 32 | id;
  bucket = home(array, edge);
  for (uint32_t probes = 0; probes < std::min(kProbesMax, array.buckets); ++probes) {
    for (std::atomic<uint64_t>& slot : array.first[bucket].entries) {
      if (slot.load(std::memory_order_relaxed) == entry) return &slot;
    }
    bucket = bucket + 1 == array.buckets ? 0 : bucket + 1;
  }
  return nullptr;
}

bool EdgeTable::insert(uint64_t edge, RunId id) {
  Segment& segment = segment_of(edge);
  RHIZOME_DCHECK(segment.lock.held());
  const Array now = array(segment, segment.growth.load(std::memory_order_relaxed));
  const bool crowded = uint64_t{segment.count + 1} * 10 > uint64_t{now.buckets} * kLoadMaxPer10;
  if (crowded || !put(now, edge, id)) {
    do {
      if (!grow(segment)) return false;
    } while (!put(array(segment, segment.growth.load(std::memory_order_relaxed)), edge, id));
  }
  ++segment.count;
  return true;
}

void EdgeTable::replace(uint64_t edge, RunId id, RunId by) {
  Segment& segment = segment_of(edge);
  RHIZOME_DCHECK(segment.lock.held());
  uint32_t bucket = 0;
  std::atomic<uint64_t>* const slot =
      find_entry(array(segment, segment.growth.load(std::memory_order_relaxed)), edge, id, bucket);
  RHIZOME_CHECK(slot != nullptr);
  slot->store(uint64_t{high_half(edge)} << 32 | by, std::memory_order_release);  // pairs with probe()
}

void EdgeTable::remove(uint64_t edge, RunId id) {
  Segment& segment = segment_of(edge);
  RHIZOME_DCHECK(segment.lock.held());
  const Array now = array(segment, segment.growth.load(std::memory_order_relaxed));
  uint32_t bucket = 0;
  std::atomic<uint64_t>* const slot = find_entry(now, edge, id, bucket);
  RHIZOME_CHECK(slot != nullptr);
  slot->store(0, std::memory_order_release);
  for (uint32_t passed = home(now, edge); passed != bucket; passed = passed + 1 == now.buckets ? 0 : passed + 1)
    now.first[passed].passed_over.fetch_sub(1, std::memory_order_relaxed);
  --segment.count;
}

// False: there is no larger array.
bool EdgeTable::grow(Segment& segment) {
  const uint32_t before = segment.growth.load(std::memory_order_relaxed);
  const Array old = array(segment, before);
  for (uint32_t next = before + 1; next < extents_.size(); ++next) {
    const Array larger = array(segment, next);
    bool all = true;
    RHIZOME_RACE_POINT("index.edges.growing");
    for (uint32_t i = 0; i < old.buckets && all; ++i) {
      for (const std::atomic<uint64_t>& slot : old.first[i].entries) {
        const RunId id = static_cast<RunId>(slot.load(std::memory_order_relaxed));
        // The edge of a run whose entry is here changes only under this segment's lock.
        if (id != 0) all = all && put(larger, arena_.at(id).edge.load(std::memory_order_relaxed), id);
      }
    }
    if (all) {
      segment.growth.store(next, std::memory_order_release);  // pairs with the acquires in find()
      const auto* const base = mapping_.bytes().data();
      mapping_.discard(static_cast<uint64_t>(reinterpret_cast<std::byte*>(old.first) - base),
                       uint64_t{old.buckets} * sizeof(Bucket));
      return true;
    }
    for (uint32_t i = 0; i < larger.buckets; ++i) {
      for (std::atomic<uint64_t>& slot : larger.first[i].entries)
        slot.store(0, std::memory_order_relaxed);
      larger.first[i].passed_over.store(0, std::memory_order_relaxed);
    }
  }
  return false;
}

uint64_t EdgeTable::bytes_used() const {
  uint64_t buckets = 0;
  for (const Segment& segment : segments_)
    buckets += extents_[segment.growth.load(std::memory_order_relaxed)].buckets;
  return buckets * sizeof(Bucket);
}

// In the order of their places, so that two lockers cannot wait for each other.
EdgeTable::Lock::Lock(EdgeTable& table, uint64_t edge, uint64_t other) NO_THREAD_SAFETY_ANALYSIS
    : first_(&table.segment_of(edge).lock),
      second_(&table.segment_of(other).lock) {
  if (first_ == second_) second_ = nullptr;
  if (second_ != nullptr && second_ < first_) std::swap(first_, second_);
  first_->lock();
  if (second_ != nullptr) second_->lock();
}

EdgeTable::Lock::~Lock() NO_THREAD_SAFETY_ANALYSIS {
  if (second_ != nullptr) second_->unlock();
  first_->unlock();
}

}  // namespace rhizome
