#include "codec/image.h"

#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "block/little_endian.h"
#include "codec/image_fixture.h"

namespace rhizome {
namespace {

// What comes out of an image that is right, or the rule that it breaks.
std::optional<ImageRule> take(std::span<const std::byte> image, const ImageRequest& request, std::span<std::byte> raw,
                              ImageCheck check = ImageCheck::kDigest, const CodecKernels& kernels = {}) {
  const Result<CheckedImage> checked = check_image(image, request, check);
  if (!checked) return rule_of(checked);
  CodecWorkspace workspace;
  return rule_of(decode_image(*checked, workspace, raw, kernels));
}

std::vector<BlockGeometry> geometries() {
  std::vector<BlockGeometry> all;
  for (const ElementType type : {ElementType::kBf16, ElementType::kF16}) {
    for (const ImageLayout layout :
         {ImageLayout::kLayerHalfToken, ImageLayout::kLayerTokenHalf, ImageLayout::kHalfLayerToken}) {
      all.push_back(geometry_of(3, 16, 3, 64, 64, type, layout));
      all.push_back(geometry_of(2, 5, 1, 96, 33, type, layout));
      all.push_back(geometry_of(1, 1, 1, 1, 1, type, layout));
    }
    all.push_back(geometry_of(2, 16, 1, 64, 512, type, ImageLayout::kLatent));
  }
  for (const ElementType type : {ElementType::kF32, ElementType::kF8E4M3, ElementType::kF8E5M2, ElementType::kI8})
    all.push_back(geometry_of(2, 7, 2, 24, 17, type));
  BlockGeometry opaque = geometry_of(0, 16, 0, 0, 0, ElementType::kOpaque, ImageLayout::kOpaque);
  opaque.opaque_bytes = 4321;
  all.push_back(opaque);
  return all;
}

TEST(Image, ComesBackBitForBit) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const BlockGeometry& geometry : geometries()) {
    ASSERT_TRUE(geometry.is_valid());
    TestBlock block(geometry);
    for (const Codec codec : kCodecs) {
      if (!codec_takes(codec, geometry.element_type)) continue;
      for (const Fill how : kFills) {
        fill(block.raw, how, geometry.element_type, random);
        for (const ImageDigest digest : {ImageDigest::kWrite, ImageDigest::kLeaveOut}) {
          const std::vector<std::byte> image = block.image(codec, {}, digest);
          const ImageCheck check = digest == ImageDigest::kWrite ? ImageCheck::kDigest : ImageCheck::kByTheCaller;
          std::vector<std::byte> back(block.raw.size(), std::byte{0xcd});
          ASSERT_EQ(take(image, block.request(), back, check), std::nullopt) << codec_name(codec);
          ASSERT_EQ(back, block.raw) << codec_name(codec);
        }
      }
    }
  }
}

// Every bit pattern of 16 bits, in one block.
TEST(Image, KeepsEveryBitPattern) {
  for (const ElementType type : {ElementType::kBf16, ElementType::kF16}) {
    TestBlock block(geometry_of(1, 256, 1, 128, 128, type));
    std::mt19937_64 random(1);
    fill(block.raw, Fill::kEveryPattern, type, random);
    ASSERT_EQ(block.raw.size(), size_t{65536} * 2);
    for (const Codec codec : kCodecs) {
      std::vector<std::byte> back(block.raw.size());
      ASSERT_EQ(take(block.image(codec), block.request(), back), std::nullopt) << codec_name(codec);
      EXPECT_EQ(back, block.raw) << codec_name(codec);
    }
  }
}

TEST(Image, IsTheSameWhateverKernelsMadeIt) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const BlockGeometry& geometry : geometries()) {
    TestBlock block(geometry);
    for (const Codec codec : {Codec::kE3, Codec::kRans}) {
      if (!codec_takes(codec, geometry.element_type)) continue;
      fill(block.raw, Fill::kGaussian, geometry.element_type, random);
      const std::vector<std::byte> expected = block.image(codec);
      for (const PlaneKernels& planes : plane_kernels()) {
        for (const RansKernel& rans : rans_kernels()) {
          const CodecKernels kernels = {&planes, &rans};
          ASSERT_EQ(block.image(codec, kernels), expected) << planes.name;
          std::vector<std::byte> back(block.raw.size());
          ASSERT_EQ(take(expected, block.request(), back, ImageCheck::kDigest, kernels), std::nullopt) << planes.name;
          ASSERT_EQ(back, block.raw) << planes.name << " " << rans.name;
        }
      }
    }
  }
}

TEST(Image, IsSmallerWhereTheCodecGainsAndBarelyLargerElsewhere) {
  std::mt19937_64 random(1);
  TestBlock block(geometry_of(4, 64, 3, 64, 64));
  fill(block.raw, Fill::kGaussian, ElementType::kBf16, random);
  const double raw = static_cast<double>(block.raw.size());
  EXPECT_GT(raw / static_cast<double>(block.image(Codec::kE3).size()), 1.37);
  EXPECT_GT(raw / static_cast<double>(block.image(Codec::kRans).size()), 1.43);
  fill(block.raw, Fill::kRandom, ElementType::kBf16, random);
  for (const Codec codec : kCodecs)
    EXPECT_LE(block.image(codec).size(), block.raw.size() + 84 + 384 + 16 * 4) << codec_name(codec);
}

TEST(Image, RefusesWhatDoesNotGoTogether) {
  TestBlock block(geometry_of(1, 4, 1, 64, 64));
  CodecWorkspace workspace;
  std::vector<std::byte> out(image_room_bytes(block.content.geometry, Codec::kE3));
  const auto encode = [&](const ImageContent& content, Codec codec, std::span<const std::byte> raw) {
    return encode_image(content, codec, ImageDigest::kWrite, raw, workspace, out).has_value();
  };
  EXPECT_TRUE(encode(block.content, Codec::kE3, block.raw));
  EXPECT_FALSE(encode(block.content, Codec::kE3, std::span(block.raw).first(block.raw.size() - 1)));
  ImageContent content = block.content;
  content.identity.tokens = std::span(block.tokens).first(3);
  EXPECT_FALSE(encode(content, Codec::kE3, block.raw));
  content = block.content;
  content.geometry.element_type = ElementType::kF8E4M3;
  content.geometry.key_width = 128;
  content.geometry.value_width = 128;
  EXPECT_FALSE(encode(content, Codec::kE3, block.raw));
  EXPECT_TRUE(encode(content, Codec::kRaw, block.raw));
  content.geometry.layers_count = 0;
  EXPECT_FALSE(encode(content, Codec::kRaw, block.raw));
}

// Another request than the image was made for.
TEST(Image, IsTakenOnlyForWhatItIs) {
  TestBlock block(geometry_of(2, 8, 1, 64, 64));
  const std::vector<std::byte> image = block.image(Codec::kE3);
  std::vector<std::byte> raw(block.raw.size());
  std::vector<Token> other_tokens = block.tokens;
  other_tokens.back() ^= 1;
  const std::pair<ImageRule, std::function<void(ImageRequest&)>> others[] = {
      {ImageRule::kRawLimit, [](ImageRequest& request) { request.raw_bytes_max = 100; }},
      {ImageRule::kGeometry, [](ImageRequest& request) { request.content.geometry.layers_count = 1; }},
      {ImageRule::kGeometry, [](ImageRequest& request) { request.content.geometry.element_type = ElementType::kF16; }},
      // The same number of bytes.
      {ImageRule::kGeometry,
       [](ImageRequest& request) {
         request.content.geometry.key_width = 32;
         request.content.geometry.value_width = 96;
       }},
      {ImageRule::kGeometry,
       [](ImageRequest& request) { request.content.geometry.layout = ImageLayout::kHalfLayerToken; }},
      {ImageRule::kGeometry, [](ImageRequest& request) { request.content.geometry.keys_before_rope = true; }},
      {ImageRule::kPartial, [](ImageRequest& request) { request.content.is_partial = true; }},
      {ImageRule::kKey, [](ImageRequest& request) { request.content.key.bytes[15] ^= std::byte{1}; }},
      {ImageRule::kKeyspace, [](ImageRequest& request) { request.content.identity.keyspace[7] ^= std::byte{1}; }},
      // Behind what the header says of the keyspace and of the key.
      {ImageRule::kIdentity, [](ImageRequest& request) { request.content.identity.keyspace[8] ^= std::byte{1}; }},
      {ImageRule::kIdentity, [](ImageRequest& request) { request.content.identity.parent.bytes[31] ^= std::byte{1}; }},
      {ImageRule::kIdentity, [](ImageRequest& request) { request.content.identity.position = 8; }},
      {ImageRule::kIdentity, [&](ImageRequest& request) { request.content.identity.tokens = other_tokens; }},
  };
  ASSERT_EQ(take(image, block.request(), raw), std::nullopt);
  for (const auto& [rule, change] : others) {
    ImageRequest request = block.request();
    change(request);
    EXPECT_EQ(take(image, request, raw), rule);
  }
}

TEST(Image, LossyOnlyForThoseWhoTakeIt) {
  TestBlock block(geometry_of(1, 4, 1, 64, 64));
  ImageRequest exact = block.request();
  block.content.is_lossy = true;
  const std::vector<std::byte> image = block.image(Codec::kRaw);
  std::vector<std::byte> raw(block.raw.size());
  EXPECT_EQ(take(image, exact, raw), ImageRule::kLossy);
  EXPECT_EQ(take(image, block.request(), raw), std::nullopt);
}

TEST(Image, WithoutADigestSomebodyElseMustVouch) {
  TestBlock block(geometry_of(1, 4, 1, 64, 64));
  const std::vector<std::byte> image = block.image(Codec::kE3, {}, ImageDigest::kLeaveOut);
  std::vector<std::byte> raw(block.raw.size());
  EXPECT_EQ(take(image, block.request(), raw, ImageCheck::kDigest), ImageRule::kCheckMissing);
  EXPECT_EQ(take(image, block.request(), raw, ImageCheck::kByTheCaller), std::nullopt);
}

// Any flipped bit, with the digest: refused whatever it is.
TEST(Image, EveryFlippedBitIsFound) {
  std::mt19937_64 random(1);
  TestBlock block(geometry_of(1, 2, 1, 64, 64));
  fill(block.raw, Fill::kGaussian, ElementType::kBf16, random);
  for (const Codec codec : kCodecs) {
    std::vector<std::byte> image = block.image(codec);
    std::vector<std::byte> raw(block.raw.size());
    for (size_t bit = 0; bit < 8 * image.size(); ++bit) {
      image[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      ASSERT_NE(take(image, block.request(), raw), std::nullopt) << codec_name(codec) << " " << bit;
      image[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    ASSERT_EQ(take(image, block.request(), raw), std::nullopt);
  }
}

// Cut off after every byte: by the length, and where the header was changed to go with it, by what decodes it.
TEST(Image, EveryTruncationIsFound) {
  std::mt19937_64 random(1);
  TestBlock block(geometry_of(2, 3, 1, 64, 72));
  fill(block.raw, Fill::kGaussian, ElementType::kBf16, random);
  for (const Codec codec : kCodecs) {
    const std::vector<std::byte> image = block.image(codec, {}, ImageDigest::kLeaveOut);
    std::vector<std::byte> raw(block.raw.size());
    for (size_t size = 0; size < image.size(); ++size) {
      std::vector<std::byte> cut(image.begin(), image.begin() + static_cast<ptrdiff_t>(size));
      cut.shrink_to_fit();
      const std::optional<ImageRule> rule = take(cut, block.request(), raw, ImageCheck::kByTheCaller);
      EXPECT_EQ(rule, size < kImageHeaderBytes ? ImageRule::kHeaderPresent : ImageRule::kEncodedLength) << size;
      if (size < kImageHeaderBytes) continue;
      store_little(cut.data() + 24, static_cast<uint32_t>(size - kImageHeaderBytes));
      EXPECT_NE(take(cut, block.request(), raw, ImageCheck::kByTheCaller), std::nullopt)
          << codec_name(codec) << " " << size;
    }
  }
}

// Damage behind the digest, as an attacker or a bug would leave it: each rule of the sections refuses its own.
class Damaged : public testing::Test {
 protected:
  Damaged() : block_(geometry_of(2, 16, 1, 64, 64)) {
    std::mt19937_64 random(1);
    fill(block_.raw, Fill::kGaussian, ElementType::kBf16, random);
  }

  std::optional<ImageRule> rule_after(Codec codec, const std::function<void(std::span<std::byte>)>& damage) {
    std::vector<std::byte> image = block_.image(codec, {}, ImageDigest::kLeaveOut);
    damage(std::span(image).subspan(kImageHeaderBytes + identity_bytes(16)));
    std::vector<std::byte> raw(block_.raw.size());
    return take(image, block_.request(), raw, ImageCheck::kByTheCaller);
  }

  TestBlock block_;
};

TEST_F(Damaged, SectionTable) {
  const auto put_end = [](size_t index, uint32_t end) {
    return [=](std::span<std::byte> block) { store_little(block.data() + 4 * index, end); };
  };
  for (const Codec codec : {Codec::kE3, Codec::kRans, Codec::kZstdPlanes}) {
    EXPECT_EQ(rule_after(codec, put_end(0, 16)), ImageRule::kSectionTable) << "an empty section";
    EXPECT_EQ(rule_after(codec, put_end(0, 3)), ImageRule::kSectionTable) << "inside the table";
    EXPECT_EQ(rule_after(codec, put_end(1, 17)), ImageRule::kSectionTable) << "ends that fall";
    EXPECT_EQ(rule_after(codec, put_end(2, UINT32_MAX)), ImageRule::kSectionTable) << "out of range";
    EXPECT_EQ(rule_after(codec, put_end(3, 4000)), ImageRule::kSectionTable) << "not the block's end";
    EXPECT_NE(rule_after(codec, put_end(0, 18)), std::nullopt) << "shorter than its count";
  }
}

TEST_F(Damaged, SectionLength) {
  constexpr size_t kCountAt = 16;  // of the first section, behind the table
  const auto put_count = [](uint32_t count) {
    return [=](std::span<std::byte> block) { store_little(block.data() + kCountAt, count); };
  };
  for (const Codec codec : {Codec::kE3, Codec::kRans}) {
    EXPECT_EQ(rule_after(codec, put_count(1025)), ImageRule::kSectionLength) << "more escapes than values";
    EXPECT_EQ(rule_after(codec, put_count(kStoredSection)), ImageRule::kSectionLength) << "stored, and too short";
  }
  EXPECT_EQ(rule_after(Codec::kE3, put_count(0)), ImageRule::kSectionLength);
  EXPECT_EQ(rule_after(Codec::kZstdPlanes, put_count(1)), ImageRule::kSectionLength);
}

TEST_F(Damaged, SectionTablesAndBytes) {
  constexpr size_t kSectionAt = 16;
  EXPECT_EQ(rule_after(Codec::kRans, [](auto block) { block[kSectionAt + 5] ^= std::byte{1}; }),
            ImageRule::kSectionTables);
  // One escape more than the list has: the first bit of the first plane, where the two others are set already, if need
  // be.
  EXPECT_EQ(rule_after(Codec::kE3,
                       [](auto block) {
                         std::byte* const planes = block.data() + kSectionAt + 4 + 8;
                         std::memset(planes, 0xff, 24);
                       }),
            ImageRule::kSectionBytes);
  EXPECT_EQ(rule_after(Codec::kRans, [](auto block) { block.back() ^= std::byte{1}; }), ImageRule::kSectionBytes);
  EXPECT_EQ(rule_after(Codec::kZstdPlanes, [](auto block) { block[kSectionAt + 4] ^= std::byte{1}; }),
            ImageRule::kSectionBytes);
}

TEST(Image, LayersCanBeReadAlone) {
  std::mt19937_64 random(1);
  for (const ImageLayout layout :
       {ImageLayout::kLayerHalfToken, ImageLayout::kLayerTokenHalf, ImageLayout::kHalfLayerToken}) {
    TestBlock block(geometry_of(6, 16, 2, 64, 64, ElementType::kBf16, layout));
    fill(block.raw, Fill::kGaussian, ElementType::kBf16, random);
    for (const Codec codec : {Codec::kE3, Codec::kRans, Codec::kZstdPlanes}) {
      const std::vector<std::byte> image = block.image(codec);
      const size_t head = kImageHeaderBytes + identity_bytes(16);
      const ImageHeader header = *parse_image_header(image);
      ASSERT_EQ(rule_of(match_header(header, block.request(), image.size() - kImageHeaderBytes)), std::nullopt);
      const std::span<const std::byte> encoded = std::span(image).subspan(head);
      const std::vector<std::byte> ends(encoded.begin(), encoded.begin() + 48);
      const Result<SectionTable> table = SectionTable::parse(block.content.geometry, ends, encoded.size());
      ASSERT_TRUE(table.has_value());
      CodecWorkspace workspace;
      std::vector<std::byte> back(block.raw.size());
      for (const auto& [first, count] : {std::pair{4u, 2u}, {0u, 1u}, {1u, 3u}}) {
        const SectionTable::Range range = table->layers(first, count);
        // Nothing but the range is there.
        const std::vector<std::byte> bytes(encoded.begin() + static_cast<ptrdiff_t>(range.offset),
                                           encoded.begin() + static_cast<ptrdiff_t>(range.offset + range.size));
        ASSERT_TRUE(decode_layers(header, *table, first, count, bytes, workspace, back)) << codec_name(codec);
      }
      EXPECT_EQ(back, block.raw) << codec_name(codec);
    }
  }
}

}  // namespace
}  // namespace rhizome
