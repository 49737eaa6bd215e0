#include "codec/block_geometry.h"

#include <vector>

#include <gtest/gtest.h>

#include "codec/image_fixture.h"

namespace rhizome {
namespace {

TEST(BlockGeometry, CountsWhatKnownModelsHave) {
  EXPECT_EQ(geometry_of(32, 16, 8, 128, 128).raw_bytes(), 2'097'152u);    // Llama 3 8B
  EXPECT_EQ(geometry_of(80, 16, 8, 128, 128).raw_bytes(), 5'242'880u);    // Llama 3 70B
  EXPECT_EQ(geometry_of(30, 64, 3, 64, 64).raw_bytes(), 1'474'560u * 1);  // SmolLM2 135M
  const BlockGeometry latent = geometry_of(61, 64, 1, 64, 512, ElementType::kBf16, ImageLayout::kLatent);
  EXPECT_EQ(latent.raw_bytes(), 4'497'408u);  // DeepSeek V3
  EXPECT_TRUE(latent.is_valid());
}

TEST(BlockGeometry, SectionsCoverEveryByteOnce) {
  for (const ImageLayout layout : {ImageLayout::kLayerHalfToken, ImageLayout::kLayerTokenHalf,
                                   ImageLayout::kHalfLayerToken, ImageLayout::kLatent}) {
    for (const ElementType type : {ElementType::kBf16, ElementType::kF32, ElementType::kI8}) {
      const uint16_t heads = layout == ImageLayout::kLatent ? 1 : 3;
      const BlockGeometry geometry = geometry_of(3, 5, heads, 7, 11, type, layout);
      ASSERT_TRUE(geometry.is_valid());
      std::vector<int> covered(geometry.raw_bytes());
      for (uint32_t index = 0; index < geometry.sections_count(); ++index) {
        const SectionShape shape = geometry.section(index);
        EXPECT_EQ(shape.channels, uint32_t{heads} * (index % 2 == 0 ? 7 : 11));
        for (uint32_t row = 0; row < shape.rows_count; ++row) {
          for (uint64_t byte = 0; byte < shape.row_bytes(); ++byte)
            ++covered.at(shape.offset_bytes + row * shape.row_stride_bytes + byte);
        }
      }
      for (const int count : covered)
        ASSERT_EQ(count, 1) << static_cast<int>(layout);
    }
  }
}

// Elements keep their place: which byte of the block is K of layer 1, token 2, in each layout.
TEST(BlockGeometry, PutsSectionsWhereTheLayoutSays) {
  const auto key_of_layer_1 = [](ImageLayout layout) {
    const SectionShape shape = geometry_of(2, 4, 1, 3, 5, ElementType::kBf16, layout).section(2);
    return shape.offset_bytes + 2 * shape.row_stride_bytes;
  };
  EXPECT_EQ(key_of_layer_1(ImageLayout::kLayerHalfToken), 2u * (4 * 8 + 2 * 3));
  EXPECT_EQ(key_of_layer_1(ImageLayout::kLayerTokenHalf), 2u * (4 * 8 + 2 * 8));
  EXPECT_EQ(key_of_layer_1(ImageLayout::kLatent), 2u * (4 * 8 + 2 * 8));
  EXPECT_EQ(key_of_layer_1(ImageLayout::kHalfLayerToken), 2u * (4 * 3 + 2 * 3));
}

TEST(BlockGeometry, RefusesWhatIsOutOfRange) {
  EXPECT_TRUE(geometry_of(1024, 1, 256, 1, 1).is_valid());
  EXPECT_FALSE(geometry_of(1025, 1, 1, 1, 1).is_valid());
  EXPECT_FALSE(geometry_of(0, 1, 1, 1, 1).is_valid());
  EXPECT_FALSE(geometry_of(1, 0, 1, 1, 1).is_valid());
  EXPECT_FALSE(geometry_of(1, 4097, 1, 1, 1).is_valid());
  EXPECT_FALSE(geometry_of(1, 1, 257, 1, 1).is_valid());
  EXPECT_FALSE(geometry_of(1, 1, 1, 0, 1).is_valid());
  EXPECT_FALSE(geometry_of(1, 1, 1, 1, 0).is_valid());
  EXPECT_FALSE(geometry_of(1, 1, 2, 1, 1, ElementType::kBf16, ImageLayout::kLatent).is_valid());
  // Each in its range, together more than the header can say.
  EXPECT_FALSE(geometry_of(1024, 4096, 256, 65535, 65535, ElementType::kF32).is_valid());

  BlockGeometry opaque = geometry_of(0, 16, 0, 0, 0, ElementType::kOpaque, ImageLayout::kOpaque);
  EXPECT_FALSE(opaque.is_valid());
  opaque.opaque_bytes = 1234;
  EXPECT_TRUE(opaque.is_valid());
  EXPECT_EQ(opaque.sections_count(), 0u);
  opaque.layers_count = 1;
  EXPECT_FALSE(opaque.is_valid());
}

}  // namespace
}  // namespace rhizome
