#include "codec/geometry_record.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(GeometryRecord, ComesBackAsItWas) {
  BlockGeometry dense;
  dense.element_type = ElementType::kF16;
  dense.keys_before_rope = true;
  dense.layers_count = 30;
  dense.tokens_count = 16;
  dense.kv_heads_count = 3;
  dense.key_width = 64;
  dense.value_width = 96;
  for (const BlockGeometry& geometry : {dense, BlockGeometry::opaque(256, 0x12345678)}) {
    ASSERT_TRUE(geometry.is_valid());
    const auto record = encode_geometry(geometry);
    const Result<BlockGeometry> back = decode_geometry(record);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, geometry);
  }
}

TEST(GeometryRecord, RefusesWhatIsNone) {
  const auto record = encode_geometry(BlockGeometry::opaque(16, 1000));
  EXPECT_FALSE(decode_geometry(std::span(record).first(23)));
  EXPECT_FALSE(decode_geometry(std::vector<std::byte>(24)));
  for (const size_t reserved : {3u, 14u, 15u, 20u, 23u}) {
    auto damaged = record;
    damaged[reserved] = std::byte{1};
    EXPECT_FALSE(decode_geometry(damaged)) << reserved;
  }
  auto damaged = record;
  damaged[2] = std::byte{2};
  EXPECT_FALSE(decode_geometry(damaged));
}

}  // namespace
}  // namespace rhizome
