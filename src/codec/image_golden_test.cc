// Images outlive the program that made them, and are read by others.

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "codec/image_fixture.h"

namespace rhizome {
namespace {

// Exponents fall off as those of a row do; now and then a NaN.
void fill_golden(std::span<std::byte> raw, bool is_f16) {
  uint64_t state = 1;
  for (size_t i = 0; i < raw.size() / 2; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t word = static_cast<uint32_t>(state >> 40);
    const uint32_t below = static_cast<uint32_t>(__builtin_ctz((word >> 10 & 0xfff) | 0x1000));
    const uint32_t sign = word >> 23 << 15;
    uint32_t value = is_f16 ? sign | (15 - below) << 10 | (word & 0x3ff) : sign | (126 - below) << 7 | (word & 0x7f);
    if (i % 997 == 996) value = 0xffff;
    const uint16_t element = static_cast<uint16_t>(value);
    std::memcpy(raw.data() + 2 * i, &element, sizeof element);
  }
}

struct Golden {
  Codec codec;
  ElementType type;
  size_t image_bytes;
  const char* digest;  // the one in the header, which covers everything else
};

// From a program in another language that was written after the comments in plane_kernels.h, rans.h, section_codec.h,
// image.h and image_header.h.
TEST(ImageGolden, IsTheDocumentedOne) {
  constexpr Golden kGoldens[] = {
      {Codec::kE3, ElementType::kBf16, 9474, "2ec43e94e350f84477cb68017218068dcd11eedbf3b70e3e27dadd4f9c6375b1"},
      {Codec::kRans, ElementType::kBf16, 9013, "2bc08fef62daba39023042e352ddad3e37984eec0e2ad8ddc4a0f3b94729858d"},
      {Codec::kE3, ElementType::kF16, 11746, "998999f7d72ed16eba1db432dff49cc3fc3e449b20e763411e40e46effa08b4a"},
      {Codec::kRans, ElementType::kF16, 11316, "dcd59f92eb43844f20f503b27c7136d2cfe8830d1b0278458649a2517137f266"},
  };
  for (const Golden& golden : kGoldens) {
    // Rows of V end in a group that they fill in part.
    TestBlock block(geometry_of(2, 16, 1, 64, 120, golden.type));
    fill_golden(block.raw, golden.type == ElementType::kF16);
    for (const PlaneKernels& planes : plane_kernels()) {
      const std::vector<std::byte> image = block.image(golden.codec, {&planes, &fastest_rans_kernel()});
      EXPECT_EQ(image.size(), golden.image_bytes) << codec_name(golden.codec) << " " << planes.name;
      EXPECT_EQ(hex(parse_image_header(image)->digest), golden.digest)
          << codec_name(golden.codec) << " " << planes.name;
    }
  }
}

}  // namespace
}  // namespace rhizome
