#include "index/name_table.h"

#include <utility>

#include "contract/check.h"

namespace rhizome {
namespace {

constexpr uint64_t kTagMask = 0xffffffff00000000;

Mapping words(uint64_t count) {
  Result<Mapping> mapped = Mapping::anonymous(count * sizeof(uint64_t));
  RHIZOME_CHECK(mapped.has_value());
  mapped->prefer_huge_pages();
  return std::move(*mapped);
}

std::span<uint64_t> words_of(const Mapping& mapping) {
  return {reinterpret_cast<uint64_t*>(mapping.bytes().data()), mapping.bytes().size() / sizeof(uint64_t)};
}

}  // namespace

NameTable::NameTable(uint64_t locations_max) : names_mapping_(words(locations_max)), names_(words_of(names_mapping_)) {
  RHIZOME_CHECK(locations_max < UINT32_MAX);
  resize(kBitsAtFirst);
}

uint64_t NameTable::search(uint64_t name, uint64_t mixed_name) const {
  uint64_t at = home(mixed_name);
  for (; slots_[at] != 0; at = next(at)) {
    if (((slots_[at] ^ mixed_name) & kTagMask) == 0 && names_[location_of(slots_[at])] == name) return at;
  }
  return at;
}

std::optional<Location> NameTable::find(uint64_t name) const {
  const uint64_t slot = slots_[search(name, mixed(name))];
  if (slot == 0) return std::nullopt;
  return location_of(slot);
}

std::optional<Location> NameTable::put(uint64_t name, Location location) {
  // Three quarters full at most: searches stay within a cache line or two.
  if ((count_ + 1) * 4 > slots_.size() * 3) resize(bits_ + 1);
  const uint64_t word = mixed(name);
  const uint64_t at = search(name, word);
  const uint64_t before = std::exchange(slots_[at], (word & kTagMask) | (uint64_t{location} + 1));
  names_[location] = name;
  if (before == 0) {
    ++count_;
    return std::nullopt;
  }
  return location_of(before);
}

std::optional<Location> NameTable::take(uint64_t name) {
  const uint64_t at = search(name, mixed(name));
  if (slots_[at] == 0) return std::nullopt;
  const Location location = location_of(slots_[at]);
  close_gap(at);
  --count_;
  return location;
}

// Moves up what would not be found across the gap.
void NameTable::close_gap(uint64_t at) {
  const uint64_t mask = slots_.size() - 1;
  for (uint64_t from = next(at); slots_[from] != 0; from = next(from)) {
    const uint64_t from_home = (from - home(slots_[from])) & mask;
    if (from_home < ((from - at) & mask)) continue;
    slots_[at] = slots_[from];
    at = from;
  }
  slots_[at] = 0;
}

void NameTable::resize(uint32_t bits) {
  const Mapping before = std::exchange(slots_mapping_, words(uint64_t{1} << bits));
  slots_ = words_of(slots_mapping_);
  bits_ = bits;
  for (const uint64_t slot : words_of(before)) {
    if (slot == 0) continue;
    uint64_t at = home(slot);
    while (slots_[at] != 0)
      at = next(at);
    slots_[at] = slot;
  }
}

}  // namespace rhizome
