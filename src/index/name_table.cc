#include "index/name_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "contract/check.h"
#include "machine/random.h"

namespace rhizome {
namespace {

// On average, at most: one name in eight then lies behind its home.
constexpr uint64_t kNamesPerLineMax = 5;
constexpr uint64_t kPageBytes = 4096;

Mapping mapping_of(uint64_t bytes) {
  Result<Mapping> mapped = Mapping::anonymous(bytes);
  RHIZOME_CHECK(mapped.has_value());
  mapped->prefer_huge_pages();
  return std::move(*mapped);
}

void touch_pages(std::span<std::byte> bytes) {
  for (size_t at = 0; at < bytes.size(); at += kPageBytes) {
    volatile std::byte& byte = bytes[at];
    byte = byte;
  }
}

}  // namespace

NameTable::NameTable(uint64_t locations_max)
    : key_(random_u64()),
      names_mapping_(mapping_of(locations_max * sizeof(uint64_t))),
      names_(reinterpret_cast<uint64_t*>(names_mapping_.bytes().data()), locations_max) {
  RHIZOME_CHECK(locations_max < UINT32_MAX);
  resize(kBitsAtFirst);
}

void NameTable::prefault(uint64_t names) {
  uint32_t bits = bits_;
  while (bits < kBitsMax && (kNamesPerLineMax << bits) < names)
    ++bits;
  if (bits > bits_) resize(bits);
  touch_pages(lines_mapping_.bytes());
  touch_pages(names_mapping_.bytes().first(std::min(names, names_.size()) * sizeof(uint64_t)));
}

#if defined(__SSE2__)
uint32_t NameTable::slots_with(const Line& line, uint32_t tag) {
  const auto* const words = reinterpret_cast<const __m128i*>(&line);
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag));
  const __m128i low = _mm_cmpeq_epi32(_mm_load_si128(words), wanted);
  const __m128i high = _mm_cmpeq_epi32(_mm_load_si128(words + 1), wanted);
  const __m128i bytes = _mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128());
  return static_cast<uint32_t>(_mm_movemask_epi8(bytes)) & ((1U << kSlots) - 1);
}
#else
uint32_t NameTable::slots_with(const Line& line, uint32_t tag) {
  uint32_t slots = 0;
  for (uint32_t slot = 0; slot < kSlots; ++slot)
    slots |= uint32_t{line.tags[slot] == tag} << slot;
  return slots;
}
#endif

NameTable::Place NameTable::search(uint64_t name, uint32_t tag) const {
  uint64_t at = home(tag);
  for (uint64_t seen = 0; seen < lines_.size(); ++seen, at = next(at)) {
    const Line& line = lines_[at];
    for (uint32_t slots = slots_with(line, tag); slots != 0; slots &= slots - 1) {
      const uint32_t slot = static_cast<uint32_t>(std::countr_zero(slots));
      if (names_[line.locations[slot]] == name) return {at, slot};
    }
    if (line.passed == 0) break;
  }
  return {};
}

std::optional<Location> NameTable::find(uint64_t name) const {
  const Place place = search(name, tag_of(name));
  if (place.slot == kSlots) return std::nullopt;
  return lines_[place.line].locations[place.slot];
}

// The table is never full.
void NameTable::add(uint32_t tag, Location location) {
  uint64_t at = home(tag);
  uint32_t free = slots_with(lines_[at], 0);
  for (; free == 0; free = slots_with(lines_[at], 0)) {
    ++lines_[at].passed;
    at = next(at);
  }
  const uint32_t slot = static_cast<uint32_t>(std::countr_zero(free));
  lines_[at].tags[slot] = tag;
  lines_[at].locations[slot] = location;
}

std::optional<Location> NameTable::put(uint64_t name, Location location) {
  const uint32_t tag = tag_of(name);
  const Place place = search(name, tag);
  names_[location] = name;
  if (place.slot != kSlots) return std::exchange(lines_[place.line].locations[place.slot], location);
  if (count_ == lines_.size() * kNamesPerLineMax) {
    RHIZOME_CHECK(bits_ < kBitsMax);
    resize(bits_ + 1);
  }
  add(tag, location);
  ++count_;
  return std::nullopt;
}

std::optional<Location> NameTable::take(uint64_t name) {
  const uint32_t tag = tag_of(name);
  const Place place = search(name, tag);
  if (place.slot == kSlots) return std::nullopt;
  for (uint64_t at = home(tag); at != place.line; at = next(at))
    --lines_[at].passed;
  lines_[place.line].tags[place.slot] = 0;
  --count_;
  return lines_[place.line].locations[place.slot];
}

void NameTable::resize(uint32_t bits) {
  const uint64_t bytes = sizeof(Line) << bits;
  const Mapping before_mapping = std::exchange(lines_mapping_, mapping_of(bytes));
  const std::span<const Line> before =
      std::exchange(lines_, std::span(reinterpret_cast<Line*>(lines_mapping_.bytes().data()), size_t{1} << bits));
  bits_ = bits;
  for (const Line& line : before) {
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      if (line.tags[slot] != 0) add(line.tags[slot], line.locations[slot]);
    }
  }
}

}  // namespace rhizome
