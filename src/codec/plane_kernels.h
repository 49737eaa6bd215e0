// The inner loops of the codecs for elements of 16 bits: they part exponents from the rest, and join them again.
//
// A section has rows of channels. A row is cut into groups of 64 channels, the last one filled up, and a group into
// eight tiles of eight adjacent channels. Bytes of a group do not lie in the order of its channels but in the one in
// which packing instructions leave them, 16 at a time: byte 16 * i + j belongs to channel 8 * i + j when j < 8, and to
// channel 24 + 8 * i + j otherwise. All of what follows is in this order, also the bits of planes: bit n belongs to
// byte n.
//
// Of an element the codecs see its exponent (bf16: 8 bits, f16: 5), a rest of one byte (bf16: sign and mantissa, f16:
// the low byte) and, of f16, three bits more, which become planes: bits 8 and 9, and the sign.
//
// E3 keeps, for each tile, the largest exponent of all rows (its base), and for each element base - exponent in three
// planes. 7 is an escape: the exponent stands in a list, in order. Planes of a group: the low, the middle and the high
// bit of the distance, then those of the element type; eight bytes each, little-endian.
//
// Thread-safety: pure functions over the caller's memory, which needs no alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rhizome {

inline constexpr uint32_t kGroupChannels = 64;
inline constexpr uint32_t kTilesPerGroup = 8;
inline constexpr uint32_t kPlaneBytes = 8;
inline constexpr uint32_t kDistancePlanes = 3;
// How far a kernel may write beyond the last escape.
inline constexpr uint32_t kEscapeSlackBytes = 64;
// What stands for an escape among the symbols of split() and join().
inline constexpr uint8_t kEscapeSymbol = 31;

enum class PlaneFormat : uint8_t { kBf16 = 0, kF16 = 1 };

// Planes of a group beside those of the distance.
constexpr uint32_t rest_planes(PlaneFormat format) {
  return format == PlaneFormat::kF16 ? 3 : 0;
}

struct PlaneShape {
  uint32_t rows_count = 0;
  uint32_t channels = 0;
  uint64_t row_stride_bytes = 0;

  uint32_t row_groups() const { return (channels + kGroupChannels - 1) / kGroupChannels; }
  uint64_t groups_count() const { return uint64_t{rows_count} * row_groups(); }
  uint64_t padded_values() const { return groups_count() * kGroupChannels; }
  uint64_t bases_bytes() const { return uint64_t{row_groups()} * kTilesPerGroup; }
};

// Where the parts of an E3 section lie.
struct E3Parts {
  std::byte* bases = nullptr;    // bases_bytes()
  std::byte* planes = nullptr;   // a group has kDistancePlanes + rest_planes() planes
  std::byte* rest = nullptr;     // padded_values()
  std::byte* escapes = nullptr;  // padded_values() + kEscapeSlackBytes
};
struct E3Source {
  const std::byte* bases = nullptr;
  const std::byte* planes = nullptr;
  const std::byte* rest = nullptr;
  const std::byte* escapes = nullptr;
  uint64_t escapes_count = 0;
  const std::byte* readable_end = nullptr;  // of the memory in which the escapes lie: not before their end
};

struct SplitParts {
  std::byte* planes = nullptr;  // only rest_planes()
  std::byte* rest = nullptr;
  std::byte* exponents = nullptr;  // padded_values(), those of filled-up channels are the group's first
};

// Escapes that are taken in order. May be read up to `end`; each kernel takes 64 bytes at once.
struct EscapeCursor {
  const std::byte* at = nullptr;
  const std::byte* end = nullptr;
  uint64_t taken = 0;
  bool is_spare_used = false;
  std::byte spare[128] = {};

  EscapeCursor(const std::byte* first, const std::byte* readable_end) : at(first), end(readable_end) {}
  EscapeCursor(const EscapeCursor&) = delete;
  EscapeCursor& operator=(const EscapeCursor&) = delete;
};

struct JoinSource {
  const std::byte* planes = nullptr;   // of the whole section
  const std::byte* rest = nullptr;     // of the whole section
  const std::byte* symbols = nullptr;  // of these groups: top - exponent, or kEscapeSymbol
  uint8_t top = 0;
  uint64_t first_group = 0;
  uint64_t groups_count = 0;
};

// For one format.
struct PlaneFunctions {
  // The bytes of filled-up tiles are zero.
  void (*find_bases)(const std::byte* values, const PlaneShape& shape, std::byte* bases) = nullptr;
  // The bases must be those of the values. Returns the number of escapes.
  uint64_t (*encode_e3)(const std::byte* values, const PlaneShape& shape, const E3Parts& parts) = nullptr;
  // False when there are more or fewer escapes than it says; the values are then of no use.
  bool (*decode_e3)(const E3Source& source, const PlaneShape& shape, std::byte* values) = nullptr;

  void (*split)(const std::byte* values, const PlaneShape& shape, const SplitParts& parts) = nullptr;
  // False when the escapes end too early.
  bool (*join)(const JoinSource& source, EscapeCursor& escapes, const PlaneShape& shape, std::byte* values) = nullptr;
};

struct PlaneKernels {
  const char* name = "";
  PlaneFunctions formats[2];  // by PlaneFormat

  const PlaneFunctions& of(PlaneFormat format) const { return formats[static_cast<size_t>(format)]; }
};

// Those that this processor can run, the slowest first; the first, "scalar", runs everywhere. The others are "avx2"
// (with BMI2) and "avx512" (with BW and VBMI2). All give the same bytes, values and answers.
std::span<const PlaneKernels> plane_kernels();
const PlaneKernels& fastest_plane_kernels();

}  // namespace rhizome
