// One section, the K or the V of one layer, as one of the codecs that have sections keeps it. Little-endian:
//
//   u32 escapes, or kStoredSection: the rows follow as they are, one behind the other, because the codec gains nothing
//   E3      bases, planes, rest, escapes                                                       (plane_kernels.h)
//   E-rANS  u8 top, 32 frequencies (u16), planes of the rest, rest, escapes, stream of top - exponent  (rans.h)
//   zstd    (no escapes) a zstd frame for each byte of the elements, the highest first         (zstd_planes.h)
//
// Thread-safety: the workspace belongs to one thread; else pure functions over the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/block_geometry.h"
#include "codec/image_header.h"
#include "codec/plane_kernels.h"
#include "codec/rans.h"
#include "codec/workspace.h"
#include "contract/result.h"

namespace rhizome {

inline constexpr uint32_t kStoredSection = UINT32_MAX;

// The variants of the kernels to use.
struct CodecKernels {
  const PlaneKernels* planes = &fastest_plane_kernels();
  const RansKernel* rans = &fastest_rans_kernel();
};

class SectionCodec {
 public:
  // A codec with sections, that takes the element type.
  SectionCodec(Codec codec, ElementType type, CodecWorkspace& workspace, const CodecKernels& kernels = {});

  // The most that encode() leaves, and how much room it needs while it works, which is more.
  static uint64_t bytes_max(const SectionShape& shape);
  static uint64_t room_bytes(Codec codec, ElementType type, const SectionShape& shape);

  // `values` is the section's first element. What was written: at most bytes_max().
  uint64_t encode(const std::byte* values, const SectionShape& shape, std::span<std::byte> out);

  // `readable_end`: how far the memory behind the section may be read, not before its end. kSectionLength,
  // kSectionTables, kSectionBytes. Writes inside the section's rows only, and after a failure bytes of no use.
  Status decode(std::span<const std::byte> section, const std::byte* readable_end, const SectionShape& shape,
                std::byte* values);

 private:
  uint64_t encode_e3(const std::byte* values, const PlaneShape& shape, std::byte* out) const;
  uint64_t encode_rans(const std::byte* values, const PlaneShape& shape, std::byte* out);
  uint64_t encode_zstd(const std::byte* values, const SectionShape& shape, std::span<std::byte> out);
  Status decode_e3(std::span<const std::byte> section, const std::byte* readable_end, const PlaneShape& shape,
                   std::byte* values) const;
  Status decode_rans(std::span<const std::byte> section, const std::byte* readable_end, const PlaneShape& shape,
                     std::byte* values) const;

  const PlaneFunctions& planes() const { return kernels_.planes->of(format_); }
  const Codec codec_;
  const ElementType type_;
  const PlaneFormat format_;
  const CodecKernels kernels_;
  CodecWorkspace& workspace_;
};

}  // namespace rhizome
