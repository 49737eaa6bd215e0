// The loops that all variants of the plane kernels share.
//
// In a namespace without a name: each file that includes this has its own copy, compiled for its own instructions; and
// no function here calls one of the standard library that is not compiled into it.
//
// An Engine has a type Bytes (64 of them), a type Maxima (of 64 elements of 16 bits), kGroupsAtOnce, and
//   load(at), store(at, bytes), splat(byte)
//   split(at, low, high), merge(at, low, high)  64 elements in the order of their channels, as two times 64 bytes in
//   the
//                                               order of the group
//   add, sub, min, bit_and(a, b), or_and(a, b, c) = a | (b & c), select(m, a, b) = (m & a) | (~m & b)
//   shift_left<n>, shift_right<n>               of each byte; bits that come in have any value
//   top_bits(bytes)                             bit n is the highest bit of byte n
//   or_where(bytes, bits, byte), sub_where(bytes, bits, byte)
//   expand_tiles(at)                            eight bases, each for the bytes of its tile
//   compress(at, bits, bytes)                   the bytes with a bit set; may write kEscapeSlackBytes
//   expand(bytes, bits, at)                     the other way round; may read kEscapeSlackBytes
//   no_maxima(), max(maxima, at)                the largest element, its highest bit left out, twice over
//   tile_maxima<shift>(maxima)                  shifted right, for all bytes of a tile the largest
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/plane_kernels.h"

namespace rhizome {
namespace {

inline constexpr size_t kGroupBytes = size_t{kGroupChannels} * 2;

inline uint64_t load_word(const std::byte* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

inline void store_word(std::byte* at, uint64_t word) {
  std::memcpy(at, &word, sizeof word);
}

// What is read is the escapes and, behind them, zeros. False when these have been used up as well.
inline bool refill(EscapeCursor& escapes) {
  if (escapes.is_spare_used) return false;
  const size_t left = static_cast<size_t>(escapes.end - escapes.at);
  if (left > 0) std::memcpy(escapes.spare, escapes.at, left);
  std::memset(escapes.spare + left, 0, sizeof escapes.spare - left);
  escapes.is_spare_used = true;
  escapes.at = escapes.spare;
  escapes.end = escapes.spare + left + kEscapeSlackBytes;
  return true;
}

template <class Engine>
struct Bf16 {
  using Bytes = typename Engine::Bytes;
  static constexpr uint32_t kRestPlanes = 0;
  static constexpr int kMaximaShift = 8;
  static constexpr int kExponentShift = 7;

  static Bytes exponents(Bytes low, Bytes high) {
    return Engine::or_and(Engine::add(high, high), Engine::template shift_right<7>(low), Engine::splat(1));
  }
  static void store_rest(Bytes low, Bytes high, std::byte* rest, std::byte* /*planes*/) {
    Engine::store(rest, Engine::select(Engine::splat(0x80), high, low));
  }
  static void merge(std::byte* at, Bytes exponents, const std::byte* rest_at, const std::byte* /*planes*/) {
    const Bytes rest = Engine::load(rest_at);
    const Bytes low = Engine::select(Engine::splat(0x7f), rest, Engine::template shift_left<7>(exponents));
    const Bytes high = Engine::select(Engine::splat(0x80), rest, Engine::template shift_right<1>(exponents));
    Engine::merge(at, low, high);
  }
};

template <class Engine>
struct F16 {
  using Bytes = typename Engine::Bytes;
  static constexpr uint32_t kRestPlanes = 3;
  static constexpr int kMaximaShift = 11;
  static constexpr int kExponentShift = 10;

  static Bytes exponents(Bytes /*low*/, Bytes high) {
    return Engine::bit_and(Engine::template shift_right<2>(high), Engine::splat(0x1f));
  }
  static void store_rest(Bytes low, Bytes high, std::byte* rest, std::byte* planes) {
    Engine::store(rest, low);
    store_word(planes, Engine::top_bits(Engine::template shift_left<7>(high)));
    store_word(planes + kPlaneBytes, Engine::top_bits(Engine::template shift_left<6>(high)));
    store_word(planes + 2 * kPlaneBytes, Engine::top_bits(high));
  }
  static void merge(std::byte* at, Bytes exponents, const std::byte* rest, const std::byte* planes) {
    Bytes high = Engine::bit_and(Engine::template shift_left<2>(exponents), Engine::splat(0x7c));
    high = Engine::or_where(high, load_word(planes), 0x01);
    high = Engine::or_where(high, load_word(planes + kPlaneBytes), 0x02);
    high = Engine::or_where(high, load_word(planes + 2 * kPlaneBytes), 0x80);
    Engine::merge(at, Engine::load(rest), high);
  }
};

template <class Engine, template <class> class FormatOf>
struct PlaneLoops {
  using Format = FormatOf<Engine>;
  using Bytes = typename Engine::Bytes;
  static constexpr uint32_t kRestPlaneBytes = Format::kRestPlanes * kPlaneBytes;
  static constexpr uint32_t kGroupPlaneBytes = kDistancePlanes * kPlaneBytes + kRestPlaneBytes;

  static PlaneFunctions functions() { return {find_bases, encode_e3, decode_e3, split, join}; }

  static void find_bases(const std::byte* values, const PlaneShape& shape, std::byte* bases) {
    const uint32_t whole = shape.channels / kGroupChannels;
    uint32_t group = 0;
    for (; group + Engine::kGroupsAtOnce <= whole; group += Engine::kGroupsAtOnce)
      find_bases_of<Engine::kGroupsAtOnce>(values, shape, group, bases);
    for (; group < whole; ++group)
      find_bases_of<1>(values, shape, group, bases);
    if (whole == shape.row_groups()) return;
    typename Engine::Maxima maxima = Engine::no_maxima();
    alignas(64) std::byte last[kGroupBytes] = {};
    const size_t last_bytes = size_t{shape.channels - whole * kGroupChannels} * 2;
    for (uint32_t row = 0; row < shape.rows_count; ++row) {
      std::memcpy(last, values + row * shape.row_stride_bytes + whole * kGroupBytes, last_bytes);
      maxima = Engine::max(maxima, last);
    }
    store_bases(maxima, bases + size_t{whole} * kTilesPerGroup);
  }

  static uint64_t encode_e3(const std::byte* values, const PlaneShape& shape, const E3Parts& parts) {
    const uint32_t whole = shape.channels / kGroupChannels;
    std::byte* planes = parts.planes;
    std::byte* rest = parts.rest;
    std::byte* escapes = parts.escapes;
    for (uint32_t row = 0; row < shape.rows_count; ++row) {
      const std::byte* at = values + row * shape.row_stride_bytes;
      const std::byte* bases = parts.bases;
      for (uint32_t group = 0; group < whole; ++group) {
        escapes = encode_group(at, bases, planes, rest, escapes);
        at += kGroupBytes;
        bases += kTilesPerGroup;
        planes += kGroupPlaneBytes;
        rest += kGroupChannels;
      }
      if (whole == shape.row_groups()) continue;
      alignas(64) std::byte last[kGroupBytes];
      fill_last(at, shape.channels - whole * kGroupChannels, bases, last);
      escapes = encode_group(last, bases, planes, rest, escapes);
      planes += kGroupPlaneBytes;
      rest += kGroupChannels;
    }
    return static_cast<uint64_t>(escapes - parts.escapes);
  }

  static bool decode_e3(const E3Source& source, const PlaneShape& shape, std::byte* values) {
    const uint32_t whole = shape.channels / kGroupChannels;
    const std::byte* planes = source.planes;
    const std::byte* rest = source.rest;
    EscapeCursor escapes(source.escapes, source.readable_end);
    for (uint32_t row = 0; row < shape.rows_count; ++row) {
      std::byte* at = values + row * shape.row_stride_bytes;
      const std::byte* bases = source.bases;
      for (uint32_t group = 0; group < whole; ++group) {
        if (!decode_group(bases, planes, rest, escapes, at)) return false;
        at += kGroupBytes;
        bases += kTilesPerGroup;
        planes += kGroupPlaneBytes;
        rest += kGroupChannels;
      }
      if (whole == shape.row_groups()) continue;
      alignas(64) std::byte last[kGroupBytes];
      if (!decode_group(bases, planes, rest, escapes, last)) return false;
      std::memcpy(at, last, size_t{shape.channels - whole * kGroupChannels} * 2);
      planes += kGroupPlaneBytes;
      rest += kGroupChannels;
    }
    return escapes.taken == source.escapes_count;
  }

  static void split(const std::byte* values, const PlaneShape& shape, const SplitParts& parts) {
    const uint32_t whole = shape.channels / kGroupChannels;
    SplitParts to = parts;
    for (uint32_t row = 0; row < shape.rows_count; ++row) {
      const std::byte* at = values + row * shape.row_stride_bytes;
      for (uint32_t group = 0; group < whole; ++group)
        split_group(at + group * kGroupBytes, to);
      if (whole == shape.row_groups()) continue;
      alignas(64) std::byte last[kGroupBytes];
      const std::byte* const left = at + whole * kGroupBytes;
      // Filled up with the first element's exponent, so that it adds nothing to what the exponents of a group are.
      uint16_t first;
      std::memcpy(&first, left, sizeof first);
      const uint8_t exponent = static_cast<uint8_t>((first & 0x7fff) >> Format::kExponentShift);
      std::byte bases[kTilesPerGroup];
      std::memset(bases, exponent, sizeof bases);
      fill_last(left, shape.channels - whole * kGroupChannels, bases, last);
      split_group(last, to);
    }
  }

  static bool join(const JoinSource& source, EscapeCursor& escapes, const PlaneShape& shape, std::byte* values) {
    const uint32_t row_groups = shape.row_groups();
    const uint32_t whole = shape.channels / kGroupChannels;
    uint64_t row = source.first_group / row_groups;
    uint32_t group = static_cast<uint32_t>(source.first_group % row_groups);
    const std::byte* planes = source.planes + source.first_group * kRestPlaneBytes;
    const std::byte* rest = source.rest + source.first_group * kGroupChannels;
    const std::byte* symbols = source.symbols;
    alignas(64) std::byte last[kGroupBytes];
    for (uint64_t i = 0; i < source.groups_count; ++i) {
      std::byte* const at = values + row * shape.row_stride_bytes + group * kGroupBytes;
      const Bytes distance = Engine::load(symbols);
      // Symbols are below 32, so the highest bit says whether one is 31.
      const uint64_t bits = Engine::top_bits(Engine::add(distance, Engine::splat(0x80 - kEscapeSymbol)));
      Bytes exponents = Engine::sub(Engine::splat(source.top), distance);
      if (!take_escapes(escapes, bits, exponents)) return false;
      Format::merge(group < whole ? at : last, exponents, rest, planes);
      if (group >= whole) std::memcpy(at, last, size_t{shape.channels - whole * kGroupChannels} * 2);
      symbols += kGroupChannels;
      rest += kGroupChannels;
      planes += kRestPlaneBytes;
      if (++group == row_groups) {
        group = 0;
        ++row;
      }
    }
    return true;
  }

 private:
  template <uint32_t kGroups>
  static void find_bases_of(const std::byte* values, const PlaneShape& shape, uint32_t group, std::byte* bases) {
    typename Engine::Maxima maxima[kGroups];
    for (uint32_t i = 0; i < kGroups; ++i)
      maxima[i] = Engine::no_maxima();
    const std::byte* at = values + group * kGroupBytes;
    for (uint32_t row = 0; row < shape.rows_count; ++row) {
      for (uint32_t i = 0; i < kGroups; ++i)
        maxima[i] = Engine::max(maxima[i], at + i * kGroupBytes);
      at += shape.row_stride_bytes;
    }
    for (uint32_t i = 0; i < kGroups; ++i)
      store_bases(maxima[i], bases + size_t{group + i} * kTilesPerGroup);
  }

  static void store_bases(typename Engine::Maxima maxima, std::byte* bases) {
    alignas(64) std::byte tiles[kGroupChannels];
    Engine::store(tiles, Engine::template tile_maxima<Format::kMaximaShift>(maxima));
    for (uint32_t i = 0; i < 4; ++i) {
      bases[i] = tiles[16 * i];
      bases[4 + i] = tiles[16 * i + 8];
    }
  }

  // A group that a row fills in part. The other elements have their tile's base for an exponent: distance 0.
  static void fill_last(const std::byte* values, uint32_t channels, const std::byte* bases, std::byte* last) {
    std::memcpy(last, values, size_t{channels} * 2);
    for (uint32_t channel = channels; channel < kGroupChannels; ++channel) {
      const uint16_t value = static_cast<uint16_t>(static_cast<uint32_t>(bases[channel / 8]) << Format::kExponentShift);
      std::memcpy(last + size_t{channel} * 2, &value, sizeof value);
    }
  }

  static std::byte* encode_group(const std::byte* values, const std::byte* bases, std::byte* planes, std::byte* rest,
                                 std::byte* escapes) {
    Bytes low;
    Bytes high;
    Engine::split(values, low, high);
    Format::store_rest(low, high, rest, planes + kDistancePlanes * kPlaneBytes);
    const Bytes exponents = Format::exponents(low, high);
    const Bytes distance = Engine::min(Engine::sub(Engine::expand_tiles(bases), exponents), Engine::splat(7));
    const uint64_t bit_0 = Engine::top_bits(Engine::template shift_left<7>(distance));
    const uint64_t bit_1 = Engine::top_bits(Engine::template shift_left<6>(distance));
    const uint64_t bit_2 = Engine::top_bits(Engine::template shift_left<5>(distance));
    store_word(planes, bit_0);
    store_word(planes + kPlaneBytes, bit_1);
    store_word(planes + 2 * kPlaneBytes, bit_2);
    // Nearly every group has an escape: a branch would not pay.
    const uint64_t bits = bit_0 & bit_1 & bit_2;
    Engine::compress(escapes, bits, exponents);
    return escapes + __builtin_popcountll(bits);
  }

  static bool decode_group(const std::byte* bases, const std::byte* planes, const std::byte* rest,
                           EscapeCursor& escapes, std::byte* values) {
    const uint64_t bit_0 = load_word(planes);
    const uint64_t bit_1 = load_word(planes + kPlaneBytes);
    const uint64_t bit_2 = load_word(planes + 2 * kPlaneBytes);
    Bytes exponents = Engine::expand_tiles(bases);
    exponents = Engine::sub_where(exponents, bit_0, 1);
    exponents = Engine::sub_where(exponents, bit_1, 2);
    exponents = Engine::sub_where(exponents, bit_2, 4);
    if (!take_escapes(escapes, bit_0 & bit_1 & bit_2, exponents)) return false;
    Format::merge(values, exponents, rest, planes + kDistancePlanes * kPlaneBytes);
    return true;
  }

  static bool take_escapes(EscapeCursor& escapes, uint64_t bits, Bytes& exponents) {
    if (__builtin_expect(escapes.end - escapes.at < static_cast<ptrdiff_t>(kEscapeSlackBytes), 0) && !refill(escapes))
      return false;
    exponents = Engine::expand(exponents, bits, escapes.at);
    const int count = __builtin_popcountll(bits);
    escapes.at += count;
    escapes.taken += static_cast<uint64_t>(count);
    return true;
  }

  static void split_group(const std::byte* values, SplitParts& to) {
    Bytes low;
    Bytes high;
    Engine::split(values, low, high);
    Format::store_rest(low, high, to.rest, to.planes);
    Engine::store(to.exponents, Format::exponents(low, high));
    to.rest += kGroupChannels;
    to.exponents += kGroupChannels;
    to.planes += kRestPlaneBytes;
  }
};

template <class Engine>
PlaneKernels plane_kernels_of(const char* name) {
  return {name, {PlaneLoops<Engine, Bf16>::functions(), PlaneLoops<Engine, F16>::functions()}};
}

}  // namespace
}  // namespace rhizome
