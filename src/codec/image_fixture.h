// Blocks and what fills them, for the tests of this layer.
#pragma once

#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "codec/image.h"
#include "codec/image_rule.h"

namespace rhizome {

inline uint64_t seed_of_run() {
  const char* const given = std::getenv("RHIZOME_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20'261'130;
}

inline const char* codec_name(Codec codec) {
  switch (codec) {
    case Codec::kRaw:
      return "raw";
    case Codec::kE3:
      return "E3";
    case Codec::kRans:
      return "E-rANS";
    case Codec::kZstdPlanes:
      return "zstd planes";
  }
  return "";
}

inline constexpr Codec kCodecs[] = {Codec::kRaw, Codec::kE3, Codec::kRans, Codec::kZstdPlanes};

inline BlockGeometry geometry_of(uint16_t layers, uint16_t tokens, uint16_t heads, uint16_t key_width,
                                 uint16_t value_width, ElementType type = ElementType::kBf16,
                                 ImageLayout layout = ImageLayout::kLayerHalfToken) {
  BlockGeometry geometry;
  geometry.element_type = type;
  geometry.layout = layout;
  geometry.layers_count = layers;
  geometry.tokens_count = tokens;
  geometry.kv_heads_count = heads;
  geometry.key_width = key_width;
  geometry.value_width = value_width;
  return geometry;
}

// A block with an identity of its own; the content points into it.
struct TestBlock {
  std::vector<Token> tokens;
  ImageContent content;
  std::vector<std::byte> raw;

  explicit TestBlock(const BlockGeometry& geometry, uint32_t number = 1)
      : tokens(geometry.tokens_count), raw(geometry.raw_bytes()) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<Token>(number * 1000 + i);
    content.geometry = geometry;
    content.identity.keyspace = sha256(std::as_bytes(std::span("keyspace")));
    content.identity.parent = root_key(content.identity.keyspace);
    content.identity.position = 0;
    content.identity.tokens = tokens;
    content.key = next_key(content.identity.parent, tokens);
  }
  TestBlock(const TestBlock&) = delete;
  TestBlock& operator=(const TestBlock&) = delete;

  ImageRequest request() const {
    ImageRequest request;
    request.content = content;
    return request;
  }

  std::vector<std::byte> image(Codec codec, const CodecKernels& kernels = {},
                               ImageDigest digest = ImageDigest::kWrite) const {
    CodecWorkspace workspace;
    std::vector<std::byte> out(image_room_bytes(content.geometry, codec));
    const Result<size_t> size = encode_image(content, codec, digest, raw, workspace, out, kernels);
    EXPECT_TRUE(size.has_value());
    out.resize(size ? *size : 0);
    out.shrink_to_fit();
    return out;
  }
};

// What fills a block. Each is hard in its own way.
enum class Fill { kZeros, kOnes, kRandom, kGaussian, kEveryPattern, kSpecials, kOneValue };
inline constexpr Fill kFills[] = {Fill::kZeros,        Fill::kOnes,     Fill::kRandom,  Fill::kGaussian,
                                  Fill::kEveryPattern, Fill::kSpecials, Fill::kOneValue};

// bf16 or f16; other types get the same bytes.
inline void fill(std::span<std::byte> raw, Fill how, ElementType type, std::mt19937_64& random) {
  std::normal_distribution<float> gaussian;
  const uint16_t infinity = type == ElementType::kF16 ? 0x7c00 : 0x7f80;
  for (size_t i = 0; i < raw.size(); i += 2) {
    uint16_t value = 0;
    switch (how) {
      case Fill::kZeros:
        break;
      case Fill::kOnes:
        value = 0xffff;  // a NaN
        break;
      case Fill::kRandom:
        value = static_cast<uint16_t>(random());
        break;
      case Fill::kGaussian: {
        const float number = gaussian(random);
        uint32_t bits;
        std::memcpy(&bits, &number, sizeof bits);
        // As an f16: the exponent's bias is another, its distribution is not.
        const uint32_t exponent = (bits >> 23 & 0xff) - 112;
        value = static_cast<uint16_t>(type == ElementType::kF16
                                          ? (bits >> 16 & 0x8000) | (exponent & 31) << 10 | (bits >> 13 & 0x3ff)
                                          : bits >> 16);
        break;
      }
      case Fill::kEveryPattern:
        value = static_cast<uint16_t>(i / 2);
        break;
      case Fill::kSpecials: {
        const uint16_t specials[] = {0,
                                     0x8000,
                                     infinity,
                                     static_cast<uint16_t>(infinity | 0x8000),
                                     static_cast<uint16_t>(infinity | 1),
                                     0x7fff,
                                     1,
                                     0x8001,
                                     0x3f80,
                                     0x0080};
        value = specials[random() % std::size(specials)];
        break;
      }
      case Fill::kOneValue:
        value = 0x3c12;
        break;
    }
    std::memcpy(raw.data() + i, &value, std::min<size_t>(2, raw.size() - i));
  }
}

inline std::optional<ImageRule> rule_of(const Status& status) {
  return status ? std::nullopt : broken_rule(status.error());
}
template <class T>
std::optional<ImageRule> rule_of(const Result<T>& result) {
  return result ? std::nullopt : broken_rule(result.error());
}

inline void PrintTo(ImageRule rule, std::ostream* out) {
  *out << image_rule_name(rule);
}

}  // namespace rhizome
