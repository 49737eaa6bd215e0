#include "codec/image_header.h"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "block/little_endian.h"
#include "codec/image_fixture.h"

namespace rhizome {
namespace {

using Bytes = std::array<std::byte, kImageHeaderBytes>;

ImageHeader sample_header() {
  ImageHeader header;
  header.codec = Codec::kE3;
  header.flags = image_flag::kPartial;
  header.geometry = geometry_of(30, 16, 3, 64, 64);
  header.encoded_bytes = 264'000;
  for (size_t i = 0; i < header.key.size(); ++i)
    header.key[i] = static_cast<std::byte>(0xa0 + i);
  for (size_t i = 0; i < header.keyspace.size(); ++i)
    header.keyspace[i] = static_cast<std::byte>(0xc0 + i);
  for (size_t i = 0; i < header.digest.size(); ++i)
    header.digest[i] = static_cast<std::byte>(i);
  return header;
}

Bytes written(const ImageHeader& header) {
  Bytes bytes;
  write_image_header(header, bytes);
  return bytes;
}

std::string hex_of(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[std::to_integer<size_t>(byte) >> 4];
    text += "0123456789abcdef"[std::to_integer<size_t>(byte) & 15];
  }
  return text;
}

// Written down by hand from the table of offsets: images outlive the program that made them.
TEST(ImageHeader, IsTheDocumentedOne) {
  EXPECT_EQ(hex_of(written(sample_header())),
            "525a4231"
            "01"
            "01"
            "00"
            "00"
            "1000"
            "1e00"
            "1000"
            "0300"
            "4000"
            "4000"
            "00a00500"
            "40070400"
            "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"
            "c0c1c2c3c4c5c6c7"
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
}

TEST(ImageHeader, ComesBackAsItWas) {
  const ImageHeader header = sample_header();
  const Result<ImageHeader> parsed = parse_image_header(written(header));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, header);
}

struct Mutation {
  const char* what;
  ImageRule rule;
  std::function<void(Bytes&)> apply;
};

template <class T>
std::function<void(Bytes&)> put(size_t at, T value) {
  return [at, value](Bytes& bytes) { store_little(bytes.data() + at, value); };
}

// One field each; everything else is right, so that exactly this rule is what refuses.
TEST(ImageHeader, EachFieldHasItsRule) {
  const Mutation mutations[] = {
      {"magic", ImageRule::kMagic, put(0, uint32_t{0x31425a53})},
      {"version 0", ImageRule::kVersion, put(4, uint8_t{0})},
      {"version 2", ImageRule::kVersion, put(4, uint8_t{2})},
      {"codec int8", ImageRule::kCodec, put(5, uint8_t{3})},
      {"codec Q-rANS", ImageRule::kCodec, put(5, uint8_t{4})},
      {"codec with profile", ImageRule::kCodec, put(5, uint8_t{5})},
      {"codec 7", ImageRule::kCodec, put(5, uint8_t{7})},
      {"codec 255", ImageRule::kCodec, put(5, uint8_t{255})},
      {"element type 6", ImageRule::kElementType, put(6, uint8_t{6})},
      {"element type 254", ImageRule::kElementType, put(6, uint8_t{254})},
      {"layout 4", ImageRule::kLayout, put(7, uint8_t{4})},
      {"flag 6", ImageRule::kFlags, put(8, uint16_t{1 << 6})},
      {"flag 15", ImageRule::kFlags, put(8, uint16_t{1 << 15})},
      {"E3 of f32", ImageRule::kCombination, put(6, uint8_t{2})},
      {"E3 of i8", ImageRule::kCombination, put(6, uint8_t{5})},
      {"opaque element alone", ImageRule::kCombination, put(6, uint8_t{255})},
      {"opaque layout alone", ImageRule::kCombination, put(7, uint8_t{255})},
      {"sealed with a digest", ImageRule::kCombination, put(8, image_flag::kSealed)},
      {"no digest, and one", ImageRule::kCombination, put(8, image_flag::kNoDigest)},
      {"no layers", ImageRule::kLayers, put(10, uint16_t{0})},
      {"1025 layers", ImageRule::kLayers, put(10, uint16_t{1025})},
      {"no tokens", ImageRule::kTokens, put(12, uint16_t{0})},
      {"4097 tokens", ImageRule::kTokens, put(12, uint16_t{4097})},
      {"no heads", ImageRule::kHeads, put(14, uint16_t{0})},
      {"257 heads", ImageRule::kHeads, put(14, uint16_t{257})},
      {"no key width", ImageRule::kWidths, put(16, uint16_t{0})},
      {"no value width", ImageRule::kWidths, put(18, uint16_t{0})},
      {"latent flag alone", ImageRule::kLatent, put(8, image_flag::kLatent)},
      {"latent layout alone", ImageRule::kLatent, put(7, uint8_t{3})},
      {"latent with 3 heads", ImageRule::kLatent,
       [](Bytes& bytes) {
         store_little(bytes.data() + 7, uint8_t{3});
         store_little(bytes.data() + 8, image_flag::kLatent);
       }},
      {"raw length", ImageRule::kRawLength, put(20, uint32_t{368'641})},
      {"no raw length", ImageRule::kRawLength, put(20, uint32_t{0})},
      {"one token more", ImageRule::kRawLength, put(12, uint16_t{17})},
      {"everything at its most", ImageRule::kRawLength,
       [](Bytes& bytes) {
         for (const auto& [at, value] : {std::pair{10, 1024}, {12, 4096}, {14, 256}, {16, 65535}, {18, 65535}})
           store_little(bytes.data() + at, static_cast<uint16_t>(value));
       }},
  };
  for (const Mutation& mutation : mutations) {
    Bytes bytes = written(sample_header());
    mutation.apply(bytes);
    EXPECT_EQ(rule_of(parse_image_header(bytes)), mutation.rule) << mutation.what;
  }
}

TEST(ImageHeader, OpaqueBytesHaveNoDimensions) {
  ImageHeader header;
  header.geometry = geometry_of(0, 16, 0, 0, 0, ElementType::kOpaque, ImageLayout::kOpaque);
  header.geometry.opaque_bytes = 1000;
  header.encoded_bytes = 1192;
  const Bytes good = written(header);
  ASSERT_TRUE(parse_image_header(good).has_value());
  const std::pair<size_t, ImageRule> fields[] = {{10, ImageRule::kLayers},
                                                 {12, ImageRule::kTokens},
                                                 {14, ImageRule::kHeads},
                                                 {16, ImageRule::kWidths},
                                                 {18, ImageRule::kWidths}};
  for (const auto& [at, rule] : fields) {
    Bytes bytes = good;
    store_little(bytes.data() + at, static_cast<uint16_t>(at == 12 ? 0 : 1));
    EXPECT_EQ(rule_of(parse_image_header(bytes)), rule) << at;
  }
  Bytes bytes = good;
  store_little(bytes.data() + 20, uint32_t{0});
  EXPECT_EQ(rule_of(parse_image_header(bytes)), ImageRule::kRawLength);
  for (const Codec codec : {Codec::kE3, Codec::kRans, Codec::kZstdPlanes}) {
    bytes = good;
    store_little(bytes.data() + 5, static_cast<uint8_t>(codec));
    EXPECT_EQ(rule_of(parse_image_header(bytes)), ImageRule::kCombination) << codec_name(codec);
  }
}

TEST(ImageHeader, IsRefusedWhenAByteIsMissing) {
  const Bytes bytes = written(sample_header());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<std::byte> exact(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_EQ(rule_of(parse_image_header(exact)), ImageRule::kHeaderPresent) << size;
  }
}

TEST(ImageHeader, BoundsWhatFollows) {
  ImageHeader header = sample_header();
  const uint64_t around = identity_bytes(16);
  const uint64_t most = around + encoded_block_bytes_max(Codec::kE3, header.geometry.raw_bytes());
  const auto rule_for = [&](uint64_t bytes, uint64_t present) {
    header.encoded_bytes = static_cast<uint32_t>(bytes);
    return rule_of(check_encoded_length(header, present));
  };
  EXPECT_EQ(rule_for(around, around), ImageRule::kEncodedLimit);
  EXPECT_EQ(rule_for(around + 1, around + 1), std::nullopt);
  EXPECT_EQ(rule_for(most, most), std::nullopt);
  EXPECT_EQ(rule_for(most + 1, most + 1), ImageRule::kEncodedLimit);
  EXPECT_EQ(rule_for(most, most - 1), ImageRule::kEncodedLength);
  EXPECT_EQ(rule_for(most, most + 1), ImageRule::kEncodedLength);
  header.codec = Codec::kRaw;
  const uint64_t raw = around + header.geometry.raw_bytes();
  EXPECT_EQ(rule_for(raw, raw), std::nullopt);
  EXPECT_EQ(rule_for(raw - 1, raw - 1), ImageRule::kEncodedLimit);
  EXPECT_EQ(rule_for(raw + 1, raw + 1), ImageRule::kEncodedLimit);
}

TEST(ImageRule, EachHasItsOwnWordAndReason) {
  std::vector<std::string_view> seen;
  for (uint32_t i = 0; i < kImageRulesCount; ++i) {
    const ImageRule rule = static_cast<ImageRule>(i);
    const Status status = broken(rule);
    EXPECT_EQ(rule_of(status), rule);
    for (const std::string_view other : seen)
      EXPECT_NE(other, image_rule_name(rule));
    seen.push_back(image_rule_name(rule));
  }
  EXPECT_EQ(broken_rule(Error{Code::kDataLoss, "something else"}), std::nullopt);
}

}  // namespace
}  // namespace rhizome
