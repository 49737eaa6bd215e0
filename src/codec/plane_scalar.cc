#include "codec/plane_loops.h"
#include "codec/plane_variants.h"

namespace rhizome {
namespace {

// The channel of a byte of the group.
constexpr uint32_t channel_of(uint32_t byte) {
  const uint32_t lane = byte / 16;
  const uint32_t inside = byte % 16;
  return inside < 8 ? 8 * lane + inside : 24 + 8 * lane + inside;
}

struct Scalar {
  struct Bytes {
    uint8_t of[kGroupChannels];
  };
  struct Maxima {
    uint16_t of[kGroupChannels];  // by channel
  };
  static constexpr uint32_t kGroupsAtOnce = 1;

  static Bytes load(const std::byte* at) {
    Bytes bytes;
    std::memcpy(&bytes, at, sizeof bytes);
    return bytes;
  }
  static void store(std::byte* at, Bytes bytes) { std::memcpy(at, &bytes, sizeof bytes); }
  static Bytes splat(int byte) {
    Bytes bytes;
    std::memset(&bytes, byte, sizeof bytes);
    return bytes;
  }

  static void split(const std::byte* at, Bytes& low, Bytes& high) {
    for (uint32_t i = 0; i < kGroupChannels; ++i) {
      low.of[i] = static_cast<uint8_t>(at[2 * channel_of(i)]);
      high.of[i] = static_cast<uint8_t>(at[2 * channel_of(i) + 1]);
    }
  }
  static void merge(std::byte* at, Bytes low, Bytes high) {
    for (uint32_t i = 0; i < kGroupChannels; ++i) {
      at[2 * channel_of(i)] = static_cast<std::byte>(low.of[i]);
      at[2 * channel_of(i) + 1] = static_cast<std::byte>(high.of[i]);
    }
  }

  static Bytes add(Bytes a, Bytes b) {
    return each(a, b, [](uint32_t x, uint32_t y) { return x + y; });
  }
  static Bytes sub(Bytes a, Bytes b) {
    return each(a, b, [](uint32_t x, uint32_t y) { return x - y; });
  }
  static Bytes min(Bytes a, Bytes b) {
    return each(a, b, [](uint32_t x, uint32_t y) { return x < y ? x : y; });
  }
  static Bytes bit_and(Bytes a, Bytes b) {
    return each(a, b, [](uint32_t x, uint32_t y) { return x & y; });
  }
  static Bytes bit_or(Bytes a, Bytes b) {
    return each(a, b, [](uint32_t x, uint32_t y) { return x | y; });
  }
  static Bytes or_and(Bytes a, Bytes b, Bytes c) { return bit_or(a, bit_and(b, c)); }
  static Bytes select(Bytes mask, Bytes a, Bytes b) {
    const Bytes kept = each(mask, b, [](uint32_t x, uint32_t y) { return ~x & y; });
    return or_and(kept, mask, a);
  }
  template <int kBits>
  static Bytes shift_left(Bytes bytes) {
    return each(bytes, bytes, [](uint32_t x, uint32_t /*y*/) { return x << kBits; });
  }
  template <int kBits>
  static Bytes shift_right(Bytes bytes) {
    return each(bytes, bytes, [](uint32_t x, uint32_t /*y*/) { return x >> kBits; });
  }
  static uint64_t top_bits(Bytes bytes) {
    uint64_t bits = 0;
    for (uint32_t i = 0; i < kGroupChannels; i += 8) {
      uint64_t word;
      std::memcpy(&word, bytes.of + i, sizeof word);
      // Bit 8 * j moves to bit 56 + j; no two products meet.
      bits |= ((word >> 7 & 0x0101010101010101) * 0x0102040810204080 >> 56) << i;
    }
    return bits;
  }
  static Bytes or_where(Bytes bytes, uint64_t bits, int byte) { return or_and(bytes, ones(bits), splat(byte)); }
  static Bytes sub_where(Bytes bytes, uint64_t bits, int byte) { return sub(bytes, bit_and(ones(bits), splat(byte))); }
  static Bytes expand_tiles(const std::byte* at) {
    Bytes bytes;
    for (uint32_t i = 0; i < kGroupChannels; ++i)
      bytes.of[i] = static_cast<uint8_t>(at[channel_of(i) / 8]);
    return bytes;
  }
  static void compress(std::byte* at, uint64_t bits, Bytes bytes) {
    for (; bits != 0; bits &= bits - 1)
      *at++ = static_cast<std::byte>(bytes.of[__builtin_ctzll(bits)]);
  }
  static Bytes expand(Bytes bytes, uint64_t bits, const std::byte* at) {
    for (; bits != 0; bits &= bits - 1)
      bytes.of[__builtin_ctzll(bits)] = static_cast<uint8_t>(*at++);
    return bytes;
  }

  static Maxima no_maxima() { return {}; }
  static Maxima max(Maxima maxima, const std::byte* at) {
    for (uint32_t i = 0; i < kGroupChannels; ++i) {
      uint16_t element;
      std::memcpy(&element, at + size_t{2} * i, sizeof element);
      element = static_cast<uint16_t>(element << 1);
      if (element > maxima.of[i]) maxima.of[i] = element;
    }
    return maxima;
  }
  template <int kShift>
  static Bytes tile_maxima(Maxima maxima) {
    std::byte tiles[kTilesPerGroup] = {};
    for (uint32_t i = 0; i < kGroupChannels; ++i) {
      const std::byte exponent = static_cast<std::byte>(maxima.of[i] >> kShift);
      if (exponent > tiles[i / 8]) tiles[i / 8] = exponent;
    }
    return expand_tiles(tiles);
  }

 private:
  template <class Operation>
  static Bytes each(Bytes a, Bytes b, Operation operation) {
    Bytes result;
    for (uint32_t i = 0; i < kGroupChannels; ++i)
      result.of[i] = static_cast<uint8_t>(operation(a.of[i], b.of[i]));
    return result;
  }
  static Bytes ones(uint64_t bits) {
    Bytes bytes;
    for (uint32_t i = 0; i < kGroupChannels; ++i)
      bytes.of[i] = static_cast<uint8_t>(-static_cast<int>(bits >> i & 1));
    return bytes;
  }
};

}  // namespace

PlaneKernels scalar_plane_kernels() {
  return plane_kernels_of<Scalar>("scalar");
}

}  // namespace rhizome
