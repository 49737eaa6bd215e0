// Images outlive the program that made them, and are read by others.

#include <algorithm>
#include <string>
#include <string_view>

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

std::vector<std::byte> bytes_of(std::string_view hexadecimal) {
  std::vector<std::byte> bytes;
  for (size_t at = 0; at < hexadecimal.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hexadecimal.substr(at, 2)), nullptr, 16)));
  return bytes;
}

// zstd's releases need not make the same frames of the same bytes, but all of them read each other's: so this is only
// read. From a program in another language, too; the frames from the command `zstd -1 --no-check` of release 1.5.4.
TEST(ImageGolden, FramesOfZstdAreRead) {
  constexpr std::string_view kDigest = "1105b578dd893ee222fa6b920328243276715056c7bf8e63875d0e8d5935ea57";
  constexpr std::string_view kBlock =
      "e1000000080200000000000028b52ffd20801d020062070e0fb025e9d3876118865190e4c62449b9e761aad59e44851888430ba6"
      "a348f409c29690731a8ba6394984e8be2883ed0b6b9bc99b1d02400b0200890481d8559e28b52ffd20800104006f86e1d5f68135"
      "51ca7783697aa6d9e06a8c5944f2fb17b6242f1e3dca2fcfca3821392c856a414e097b15433b0ab55ee2c5c7c936af28a25b8112"
      "d850168bbcfa4939706da4139665b95189e9d2555c4b3b8b6c56a26851d0f86f261b8a3a6956140a02106583fcee180a07f9c228"
      "4c9a6f7a4c4a9bd77ff0181e5626d757220000000028b52ffd20c08d0200b20b120cd0a503f20100a0b59400ba057f6727ed8518"
      "ab48534cef25692136e988c68cbb837d65f5f2eb4706c182ddb9239e6237894f06acb01ae9b6c47ad2b0541c15e3112237f74988"
      "0501009a8a60a428b52ffd20c0010600a44508d24dbe5d49c86b8358417c44dcfaf87401a57c7d4b2cb80e990c1798bc60a21a79"
      "dcc3042c224da0e44e1470e16f7356d207484f616e88c364d83a12b8a4195aba038f3833536c84f8b9217f5bc2787b29b549fb5c"
      "843dacf57b40e34eb02b107b2a24093e2939aa6e74466821c09ad62f52c61aeb70e91e3d12ab5ad6789e0b2853a06474e4857564"
      "1caf282b46f2a19ba555443b2df88b06df2e30924b7dc691614ed0be5a80ac02bc0ce77f142c1d338fcd0b1b5a5bf57b81133d5b";
  TestBlock block(geometry_of(1, 16, 1, 8, 12));
  fill_golden(block.raw, false);
  const std::vector<std::byte> encoded = bytes_of(kBlock);
  const size_t identity = identity_bytes(16);
  std::vector<std::byte> image(kImageHeaderBytes + identity);
  ImageHeader header;
  header.codec = Codec::kZstdPlanes;
  header.geometry = block.content.geometry;
  header.encoded_bytes = static_cast<uint32_t>(identity + encoded.size());
  header.key = key_name(block.content.key);
  header.keyspace = keyspace_name(block.content.identity.keyspace);
  std::ranges::copy(bytes_of(kDigest), header.digest.begin());
  write_image_header(header, std::span<std::byte, kImageHeaderBytes>(image.data(), kImageHeaderBytes));
  encode_identity(block.content.identity, std::span(image).subspan(kImageHeaderBytes));
  image.insert(image.end(), encoded.begin(), encoded.end());

  const Result<CheckedImage> checked = check_image(image, block.request(), ImageCheck::kDigest);
  ASSERT_TRUE(checked.has_value());
  std::vector<std::byte> raw(block.raw.size());
  CodecWorkspace workspace;
  ASSERT_TRUE(decode_image(*checked, workspace, raw).has_value());
  EXPECT_EQ(raw, block.raw);
}

}  // namespace
}  // namespace rhizome
