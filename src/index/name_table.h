// Which location a name has, and which name a location has: an open-addressing table of eight bytes a slot, and eight
// bytes a location beside it. A location has one name, a name one location.
//
//   slots: (high half of the mixed name) << 32 | location + 1;  0 is free
//
// A slot's home is where the high bits of the mixed name say; it lies there or behind, with no free slot between. The
// slot alone says its home, so a table that grows, or closes a gap, reads no names.
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "index/index_types.h"
#include "machine/mapping.h"

namespace rhizome {

class NameTable {
 public:
  // Locations are below `locations_max`, at most 2^32 - 1. Aborts when there is no address space for them; their memory
  // comes as it is needed.
  explicit NameTable(uint64_t locations_max);

  // For a name that is looked for soon.
  void prefetch(uint64_t name) const { __builtin_prefetch(&slots_[home(mixed(name))], 1); }
  std::optional<Location> find(uint64_t name) const;
  // The location that the name had before, if it had another one. `location` has no name at the time. Aborts without
  // memory for a larger table.
  std::optional<Location> put(uint64_t name, Location location);
  // Forgets the name; the location that it had.
  std::optional<Location> take(uint64_t name);
  // Of a location that has one.
  uint64_t name_of(Location location) const { return names_[location]; }

  uint64_t count() const { return count_; }
  // Of memory that was touched; names of locations not counted.
  uint64_t bytes() const { return slots_mapping_.bytes().size(); }

 private:
  static constexpr uint32_t kBitsAtFirst = 10;

  static uint64_t mixed(uint64_t name) {
    const uint64_t word = name * 0x9e3779b97f4a7c15ULL;
    return (word ^ (word >> 32)) * 0xd6e8feb86659fd93ULL;
  }
  uint64_t home(uint64_t slot) const { return slot >> (64 - bits_); }
  uint64_t next(uint64_t at) const { return (at + 1) & (slots_.size() - 1); }
  static Location location_of(uint64_t slot) { return static_cast<Location>(slot) - 1; }
  // Where the name lies, or the free slot that ends the search.
  uint64_t search(uint64_t name, uint64_t mixed_name) const;
  void resize(uint32_t bits);
  void close_gap(uint64_t at);

  Mapping names_mapping_;
  std::span<uint64_t> names_;
  Mapping slots_mapping_;
  std::span<uint64_t> slots_;
  uint32_t bits_ = 0;
  uint64_t count_ = 0;
};

}  // namespace rhizome
