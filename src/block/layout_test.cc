#include "block/layout.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "block/block_fixture.h"

namespace rhizome {
namespace {

Layout golden_layout() {
  return {.block_tokens = 16,
          .parts = {{.kind = LayoutPart::Kind::kKey, .element_type = 1, .row_bytes = 64},
                    {.kind = LayoutPart::Kind::kValue,
                     .window = 1,
                     .transposed = 1,
                     .layer = 3,
                     .element_type = 1,
                     .row_bytes = 0x0102030405060708}}};
}

TEST(Layout, EncodesAsTheFormatSays) {
  EXPECT_EQ(hex_of(golden_layout().encoding()),
            "10000000"
            "02000000"
            "00000000"
            "00000000"
            "01000000"
            "4000000000000000"
            "01010100"
            "03000000"
            "01000000"
            "0807060504030201");
  EXPECT_EQ(hex_of(Layout{.block_tokens = 256, .parts = {}}.encoding()), "0001000000000000");
}

TEST(Layout, EncodesAnyDifferenceDifferently) {
  std::set<std::string> seen{hex_of(golden_layout().encoding())};
  const auto changed = [&seen](auto change) {
    Layout layout = golden_layout();
    change(layout);
    return seen.insert(hex_of(layout.encoding())).second;
  };
  EXPECT_TRUE(changed([](Layout& layout) { layout.block_tokens = 32; }));
  EXPECT_TRUE(changed([](Layout& layout) { layout.parts[0].kind = LayoutPart::Kind::kValue; }));
  EXPECT_TRUE(changed([](Layout& layout) { layout.parts[0].window = 1; }));
  EXPECT_TRUE(changed([](Layout& layout) { layout.parts[0].transposed = 1; }));
  EXPECT_TRUE(changed([](Layout& layout) { layout.parts[0].layer = 1; }));
  EXPECT_TRUE(changed([](Layout& layout) { layout.parts[0].element_type = 8; }));
  EXPECT_TRUE(changed([](Layout& layout) { layout.parts[0].row_bytes = 65; }));
  EXPECT_TRUE(changed([](Layout& layout) { layout.parts[0].row_bytes = 64ull << 32; }));
  EXPECT_TRUE(changed([](Layout& layout) { std::swap(layout.parts[0], layout.parts[1]); }));
  EXPECT_TRUE(changed([](Layout& layout) { layout.parts.pop_back(); }));
  EXPECT_TRUE(changed([](Layout& layout) { layout.parts.push_back(layout.parts[0]); }));
  // And the twin: the same layout is the same.
  EXPECT_FALSE(changed([](Layout&) {}));
}

TEST(Layout, SumsItsParts) {
  const Layout layout{.block_tokens = 16, .parts = {{.row_bytes = 384}, {.row_bytes = 384}, {.row_bytes = 100}}};
  EXPECT_EQ(layout.payload_bytes(), 16u * 868);
  EXPECT_EQ(Layout{}.payload_bytes(), 0u);
  EXPECT_EQ((Layout{.block_tokens = 256, .parts = {{.row_bytes = 1ull << 40}}}).payload_bytes(), 1ull << 48);
}

TEST(LayoutDeathTest, AbortsWhenTheSumIsTooLarge) {
  const Layout layout{.block_tokens = 16, .parts = {{.row_bytes = 1ull << 60}}};
  EXPECT_DEATH(layout.payload_bytes(), "check failed");
}

TEST(KvBytesPerToken, KnowsTheShapesOfRealModels) {
  // 70B with grouped-query attention, 16 bit.
  EXPECT_EQ(kv_bytes_per_token(80, 8, 128, 128, 16), 327'680u);
  // The same at 8 bit.
  EXPECT_EQ(kv_bytes_per_token(80, 8, 128, 128, 8), 163'840u);
  // 135M: 30 layers, 3 KV heads of 64.
  EXPECT_EQ(kv_bytes_per_token(30, 3, 64, 64, 16), 23'040u);
  // Key and value widths differ.
  EXPECT_EQ(kv_bytes_per_token(60, 1, 576, 512, 16), 130'560u);
  // q8_0: 34 bytes for 32 elements.
  EXPECT_EQ(kv_bytes_per_token(80, 8, 128, 128, 8.5), 174'080u);
  EXPECT_EQ(kv_bytes_per_token(0, 8, 128, 128, 16), 0u);
  // More than 32 bits hold.
  EXPECT_EQ(kv_bytes_per_token(100'000, 1'000, 1'000, 1'000, 16), 400'000'000'000u);
}

}  // namespace
}  // namespace rhizome
