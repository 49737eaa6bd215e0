#include "index/edge_table.h"

#include <algorithm>
#include <bit>

#include "contract/check.h"

namespace rhizome {
namespace {

// Beyond that a segment gets more buckets: 80 % of the entries.
constexpr uint32_t kLoadMaxPer10 = 56;
constexpr uint32_t kBucketsInAPage = 64;
constexpr uint64_t kPageBytes = 4096;
// A header, and behind it locations and tokens of at least a few blocks; those that splits cut off have only a header.
constexpr uint32_t kUnitsOfARun = 4;

int segment_bits(uint32_t units) {
  return std::clamp(static_cast<int>(std::bit_width(units)) - 15, 2, 8);
}

Mapping reserved(uint64_t bytes) {
  Result<Mapping> made = Mapping::anonymous(bytes);
  RHIZOME_CHECK(made.has_value());
  return std::move(*made);
}

}  // namespace

EdgeShape EdgeShape::growing(uint32_t units) {
  const int bits = segment_bits(units);
  EdgeShape shape;
  shape.segment_mask_ = (uint64_t{1} << bits) - 1;
  // A segment may get more than its share, but hardly so much more.
  const uint64_t entries_max = (uint64_t{units} >> bits) * 5 / 4 + 64;
  // Whole pages, of which a segment with a single entry has one anyway, then half as many again and twice as many in
  // turn: a little more than needed costs memory, a little too little costs a copy.
  for (uint32_t step = 0;; ++step) {
    const uint32_t pages = step == 0 ? 1 : (step % 2 == 1 ? 2u : 3u) << ((step - 1) / 2);
    const uint32_t buckets = pages * kBucketsInAPage;
    shape.extents_.push_back({shape.stride_, buckets});
    shape.stride_ += buckets;
    if (uint64_t{buckets} * kLoadMaxPer10 / 10 >= entries_max) break;
  }
  return shape;
}

EdgeShape EdgeShape::fixed(uint32_t units) {
  const int bits = segment_bits(units);
  EdgeShape shape;
  shape.segment_mask_ = (uint64_t{1} << bits) - 1;
  const uint64_t entries_max = (uint64_t{units} / kUnitsOfARun >> bits) * 5 / 4 + 64;
  shape.stride_ = (entries_max * 10 / kLoadMaxPer10 / kBucketsInAPage + 1) * kBucketsInAPage;
  shape.extents_.push_back({0, static_cast<uint32_t>(shape.stride_)});
  return shape;
}

uint64_t EdgeShape::first_bucket_bytes() const {
  // A whole page, so that arrays that are used up can be given back.
  return (segments() * sizeof(uint32_t) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

uint64_t EdgeShape::bytes() const {
  return first_bucket_bytes() + segments() * stride_ * kUnitBytes;
}

EdgeReader::EdgeReader(const std::byte* memory, EdgeShape shape)
    : shape_(std::move(shape)),
      growth_(reinterpret_cast<const std::atomic<uint32_t>*>(memory)),
      buckets_(reinterpret_cast<const Bucket*>(memory + shape_.first_bucket_bytes())) {}

EdgeTable::EdgeTable(const Arena& arena, std::byte* memory)
    : EdgeTable(arena, memory, memory == nullptr ? reserved(EdgeShape::growing(arena.units()).bytes()) : Mapping(),
                memory == nullptr ? EdgeShape::growing(arena.units()) : EdgeShape::fixed(arena.units())) {}

EdgeTable::EdgeTable(const Arena& arena, std::byte* memory, Mapping own, const EdgeShape& shape)
    : EdgeReader(memory == nullptr ? own.bytes().data() : memory, shape),
      arena_(arena),
      own_(std::move(own)),
      memory_(memory == nullptr ? own_.bytes().data() : memory),
      segments_(shape.segments()) {}

bool EdgeTable::put(const Writable& array, uint64_t edge, RunId id) {
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

std::atomic<uint64_t>* EdgeTable::find_entry(const Writable& array, uint64_t edge, RunId id, uint32_t& bucket) {
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
  Segment& own = segment(edge);
  RHIZOME_DCHECK(own.lock.held());
  const Writable now = current(edge);
  const bool crowded = uint64_t{own.count + 1} * 10 > uint64_t{now.buckets} * kLoadMaxPer10;
  if (crowded || !put(now, edge, id)) {
    do {
      if (!grow(segment_of(edge))) return false;
    } while (!put(current(edge), edge, id));
  }
  ++own.count;
  return true;
}

void EdgeTable::replace(uint64_t edge, RunId id, RunId by) {
  RHIZOME_DCHECK(segment(edge).lock.held());
  uint32_t bucket = 0;
  std::atomic<uint64_t>* const slot = find_entry(current(edge), edge, id, bucket);
  RHIZOME_CHECK(slot != nullptr);
  slot->store(uint64_t{high_half(edge)} << 32 | by, std::memory_order_release);  // pairs with probe()
}

void EdgeTable::remove(uint64_t edge, RunId id) {
  RHIZOME_DCHECK(segment(edge).lock.held());
  const Writable now = current(edge);
  uint32_t bucket = 0;
  std::atomic<uint64_t>* const slot = find_entry(now, edge, id, bucket);
  RHIZOME_CHECK(slot != nullptr);
  slot->store(0, std::memory_order_release);
  for (uint32_t passed = home(now, edge); passed != bucket; passed = passed + 1 == now.buckets ? 0 : passed + 1)
    now.first[passed].passed_over.fetch_sub(1, std::memory_order_relaxed);
  --segment(edge).count;
}

// False: there is no larger array.
bool EdgeTable::grow(uint64_t segment) {
  const uint32_t before = growth(segment).load(std::memory_order_relaxed);
  const Writable old = writable(segment, before);
  for (uint32_t next = before + 1; next < shape().extents_.size(); ++next) {
    const Writable larger = writable(segment, next);
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
      growth(segment).store(next, std::memory_order_release);  // pairs with the acquires of readers
      if (!own_.bytes().empty()) {
        own_.discard(static_cast<uint64_t>(reinterpret_cast<std::byte*>(old.first) - memory_),
                     uint64_t{old.buckets} * sizeof(Bucket));
      }
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
  for (uint64_t segment = 0; segment < shape().segments(); ++segment)
    buckets += shape().extents_[growth_of(segment)].buckets;
  return buckets * sizeof(Bucket);
}

// In the order of their places, so that two lockers cannot wait for each other.
EdgeTable::Lock::Lock(EdgeTable& table, uint64_t edge, uint64_t other) NO_THREAD_SAFETY_ANALYSIS
    : first_(&table.segment(edge).lock),
      second_(&table.segment(other).lock) {
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
