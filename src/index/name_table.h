// Which location a name has, and which name a location has: an open-addressing table of lines of seven slots, and eight
// bytes a location beside it. A location has one name, a name one location.
//
// A name's home is the line that the high bits of the mixed name say. A name that finds its home full lies in the next
// line with room, and each line that it passed counts it, so that a search knows when to stop (at worst when it has
// seen all lines). A slot's tag says its home, so a table that grows reads no names: it is one pass over the lines, in
// order.
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

  // Makes room for so many names, and spends the memory for them and for as many locations now.
  void prefault(uint64_t names);

  // For a name that is looked for soon. Into the second cache: there is room for more of them on their way.
  void prefetch(uint64_t name) const { __builtin_prefetch(&lines_[home(tag_of(name))], 1, 1); }
  std::optional<Location> find(uint64_t name) const;
  // The location that the name had before, if it had another one. `location` has no name at the time. Aborts without
  // memory for a larger table.
  std::optional<Location> put(uint64_t name, Location location);
  // Forgets the name; the location that it had.
  std::optional<Location> take(uint64_t name);
  // Of a location that has one.
  uint64_t name_of(Location location) const { return names_[location]; }

  uint64_t count() const { return count_; }
  // Of the table; names of locations not counted.
  uint64_t bytes() const { return lines_.size_bytes(); }

 private:
  static constexpr uint32_t kSlots = 7;
  static constexpr uint32_t kBitsAtFirst = 8;
  static constexpr uint32_t kBitsMax = 31;

  struct alignas(64) Line {
    uint32_t tags[kSlots];  // high half of the mixed name; 0 is free. With `passed`, two vectors
    uint32_t passed;        // names that lie behind this line, and whose home is not
    Location locations[kSlots];
    uint32_t unused;
  };
  struct Place {
    uint64_t line = 0;
    uint32_t slot = kSlots;  // kSlots: none
  };

  // Odd, so that it is never that of a free slot. With a key, since whoever makes names could make them meet.
  uint32_t tag_of(uint64_t name) const {
    const uint64_t word = (name ^ key_) * 0x9e3779b97f4a7c15ULL;
    return static_cast<uint32_t>(((word ^ (word >> 32)) * 0xd6e8feb86659fd93ULL) >> 32) | 1;
  }
  uint64_t home(uint32_t tag) const { return tag >> (32 - bits_); }
  uint64_t next(uint64_t line) const { return (line + 1) & (lines_.size() - 1); }
  // A bit for each slot with that tag.
  static uint32_t slots_with(const Line& line, uint32_t tag);
  Place search(uint64_t name, uint32_t tag) const;
  void add(uint32_t tag, Location location);
  void resize(uint32_t bits);

  const uint64_t key_;
  Mapping names_mapping_;
  std::span<uint64_t> names_;
  Mapping lines_mapping_;
  std::span<Line> lines_;
  uint32_t bits_ = 0;
  uint64_t count_ = 0;
};

}  // namespace rhizome
