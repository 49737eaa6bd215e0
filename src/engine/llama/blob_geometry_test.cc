// What a payload is to the wire image: planes where it can be, and in any case the same bytes again.
#include <limits>
#include <random>
#include <string>

#include <ggml.h>
#include <gtest/gtest.h>

#include "codec/image.h"
#include "engine/llama/seq_blob.h"
#include "engine/llama/test_blob.h"

namespace rhizome {
namespace {

BlobShape typed_shape(ggml_type type, uint32_t layers, uint64_t key_bytes, uint64_t value_bytes) {
  TestSection section;
  section.layers = layers;
  section.key_bytes = key_bytes;
  section.value_bytes = value_bytes;
  BlobShape shape = make_shape(1, {section});
  for (BlobPart& part : shape.sections[0].parts)
    part.type = type;
  return shape;
}

BlockGeometry opaque(uint16_t tokens, uint32_t bytes) {
  BlockGeometry geometry;
  geometry.element_type = ElementType::kOpaque;
  geometry.layout = ImageLayout::kOpaque;
  geometry.tokens_count = tokens;
  geometry.opaque_bytes = bytes;
  return geometry;
}

BlockGeometry planes(ElementType type, uint16_t layers, uint16_t tokens, uint16_t heads, uint16_t key, uint16_t value) {
  BlockGeometry geometry;
  geometry.element_type = type;
  geometry.layers_count = layers;
  geometry.tokens_count = tokens;
  geometry.kv_heads_count = heads;
  geometry.key_width = key;
  geometry.value_width = value;
  return geometry;
}

TEST(BlobGeometry, IsPlanesWhereAllLayersAreAlike) {
  BlobShape shape = typed_shape(GGML_TYPE_F16, 30, 384, 384);
  EXPECT_EQ(shape.geometry(16), planes(ElementType::kF16, 30, 16, 1, 192, 192));
  shape.kv_heads = 3;
  EXPECT_EQ(shape.geometry(64), planes(ElementType::kF16, 30, 64, 3, 64, 64));
  shape.kv_heads = 5;  // does not divide a row: then it is one head, which is the same bytes
  EXPECT_EQ(shape.geometry(64), planes(ElementType::kF16, 30, 64, 1, 192, 192));
  EXPECT_EQ(typed_shape(GGML_TYPE_BF16, 2, 48, 32).geometry(256), planes(ElementType::kBf16, 2, 256, 1, 24, 16));
  EXPECT_EQ(typed_shape(GGML_TYPE_F32, 1, 8, 4).geometry(1), planes(ElementType::kF32, 1, 1, 1, 2, 1));
  // Sections are one behind the other, transposed or not.
  BlobShape window = typed_shape(GGML_TYPE_BF16, 2, 48, 32);
  window.sections.push_back(typed_shape(GGML_TYPE_BF16, 3, 48, 32).sections[0]);
  window.sections[1].window = window.sections[1].transposed = true;
  EXPECT_EQ(window.geometry(16), planes(ElementType::kBf16, 5, 16, 1, 24, 16));
  // A row of 65,536 elements needs heads.
  BlobShape wide = typed_shape(GGML_TYPE_F16, 1, 131'072, 131'072);
  EXPECT_TRUE(wide.geometry(16).is_opaque());
  wide.kv_heads = 8;
  EXPECT_EQ(wide.geometry(16), planes(ElementType::kF16, 1, 16, 8, 8192, 8192));
}

TEST(BlobGeometry, IsOpaqueElsewhere) {
  EXPECT_EQ(typed_shape(GGML_TYPE_Q8_0, 2, 68, 68).geometry(16), opaque(16, 16 * 4 * 68));
  EXPECT_EQ(typed_shape(GGML_TYPE_Q4_0, 2, 36, 36).geometry(16), opaque(16, 16 * 4 * 36));
  BlobShape mixed = typed_shape(GGML_TYPE_F16, 2, 64, 64);
  mixed.sections[0].parts[3].type = GGML_TYPE_BF16;
  EXPECT_EQ(mixed.geometry(16), opaque(16, 16 * 4 * 64));
  BlobShape uneven = typed_shape(GGML_TYPE_F16, 2, 64, 64);
  uneven.sections[0].parts[1].row_bytes = 32;
  EXPECT_EQ(uneven.geometry(16), opaque(16, 16 * 224));
  BlobShape odd = typed_shape(GGML_TYPE_F16, 2, 63, 64);  // no whole number of elements
  EXPECT_EQ(odd.geometry(16), opaque(16, 16 * 254));
  EXPECT_TRUE(all_shapes()[2].shape.geometry(16).is_opaque()) << "latent attention: where its parts end is not known";
  EXPECT_TRUE(typed_shape(GGML_TYPE_F16, 1025, 4, 4).geometry(1).is_opaque());
  EXPECT_FALSE(typed_shape(GGML_TYPE_F16, 1024, 4, 4).geometry(1).is_opaque());
}

TEST(BlobGeometry, IsNotValidBeyondTheFormat) {
  EXPECT_FALSE(typed_shape(GGML_TYPE_F16, 1, 64, 64).geometry(4097).is_valid());
  EXPECT_TRUE(typed_shape(GGML_TYPE_F16, 1, 64, 64).geometry(4096).is_valid());
  EXPECT_FALSE(typed_shape(GGML_TYPE_Q8_0, 1024, 1 << 20, 1 << 20).geometry(256).is_valid());
  EXPECT_FALSE(typed_shape(GGML_TYPE_F32, 1024, 1 << 14, 1 << 14).geometry(256).is_valid());
}

// The sections of the geometry are the rows of one layer's K or V, which is what the codecs gain by.
TEST(BlobGeometry, FindsEachLayersRows) {
  BlobShape shape = typed_shape(GGML_TYPE_BF16, 2, 12, 8);
  shape.sections.push_back(typed_shape(GGML_TYPE_BF16, 3, 12, 8).sections[0]);
  shape.sections[1].transposed = shape.sections[1].window = true;
  for (BlobPart& part : shape.sections[1].parts)
    part.element_bytes = part.value ? 2 : 0;
  const TestBlob blob = make_blob(shape, {positions_from(0, 8), positions_from(0, 8)});
  const auto reader = BlobReader::parse(blob.bytes, shape);
  ASSERT_TRUE(reader);
  std::vector<std::byte> payload(shape.payload_bytes(4));
  ASSERT_TRUE(reader->copy_payload(4, 4, payload));
  const BlockGeometry geometry = shape.geometry(4);
  ASSERT_EQ(geometry.sections_count(), 10U);
  for (uint32_t index = 0; index < 10; ++index) {
    const size_t s = index < 4 ? 0 : 1;
    const size_t layer = index / 2 - 2 * s;
    const SectionShape section = geometry.section(index);
    for (uint32_t token = 0; token < 4; ++token) {
      for (uint64_t b = 0; b < section.row_bytes(); ++b) {
        EXPECT_EQ(payload[section.offset_bytes + token * section.row_stride_bytes + b],
                  row_byte(s, layer + index % 2 * shape.sections[s].layers, static_cast<int32_t>(4 + token), b));
      }
    }
  }
}

class RandomShapes {
 public:
  explicit RandomShapes(uint32_t seed) : random_(seed) {}

  BlobShape next() {
    std::vector<TestSection> sections(1 + below(2));
    const uint64_t key_elements = 32 * (1 + uint64_t{below(3)});
    const uint64_t value_elements = 32 * (1 + uint64_t{below(3)});
    const bool latent = one_in(8);
    for (size_t s = 0; s < sections.size(); ++s) {
      sections[s].window = s == 1;
      sections[s].layers = 1 + below(4);
      sections[s].values = !latent;
      sections[s].transposed = !latent && one_in(2);
    }
    BlobShape shape = make_shape(1 + below(3), sections);
    const ggml_type key_type = any_type();
    const ggml_type value_type = one_in(4) ? any_type() : key_type;
    for (BlobSection& section : shape.sections) {
      for (BlobPart& part : section.parts) {
        part.type = part.value ? value_type : key_type;
        const uint64_t elements = (part.value ? value_elements : key_elements) * (one_in(24) ? 2 : 1);
        part.row_bytes = ggml_row_size(static_cast<ggml_type>(part.type), static_cast<int64_t>(elements));
        // A quantised V cannot be transposed element by element.
        if (part.value && ggml_is_quantized(value_type)) section.transposed = false;
        part.element_bytes = part.value && section.transposed ? static_cast<uint32_t>(ggml_type_size(value_type)) : 0;
      }
    }
    shape.kv_heads = 1 + below(8);
    return shape;
  }

  // Exponents as of a model's rows, or anything at all.
  std::vector<std::byte> payload(uint64_t bytes) {
    const bool near = one_in(2);
    std::vector<std::byte> out(bytes);
    for (size_t i = 0; i < bytes; ++i)
      out[i] = static_cast<std::byte>(near && i % 2 == 1 ? 0x3c + random_() % 4 : random_());
    return out;
  }

  uint32_t below(uint32_t count) { return static_cast<uint32_t>(random_()) % count; }

 private:
  bool one_in(uint32_t count) { return below(count) == 0; }

  ggml_type any_type() {
    constexpr ggml_type kTypes[] = {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0};
    return kTypes[below(std::size(kTypes))];
  }

  std::mt19937 random_;
};

std::vector<std::byte> image_of(const ImageContent& content, std::span<const std::byte> payload,
                                CodecWorkspace& workspace) {
  const Codec codec = default_codec(content.geometry.element_type);
  std::vector<std::byte> image(image_room_bytes(content.geometry, codec));
  const Result<size_t> size = encode_image(content, codec, ImageDigest::kWrite, payload, workspace, image);
  EXPECT_TRUE(size);
  image.resize(size.value_or(0));
  return image;
}

// Engine's blob, payload, image, payload, engine's blob: for every shape exactly the same bytes.
TEST(BlobGeometry, EveryShapeComesBackFromAnImage) {
  const uint32_t seed = 5;
  RandomShapes shapes(seed);
  CodecWorkspace workspace;
  uint32_t with_planes = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " round " + std::to_string(round));
    const BlobShape shape = shapes.next();
    const uint32_t block_tokens = 1 + shapes.below(40);
    const std::vector<std::byte> payload = shapes.payload(shape.payload_bytes(block_tokens));
    const BlobWriter writer(shape, block_tokens, 3 * block_tokens, 1, 0);
    const std::span<const std::byte> payloads[] = {payload};
    std::vector<std::byte> blob(writer.bytes());
    writer.write(payloads, blob);
    const auto reader = BlobReader::parse(blob, shape);
    ASSERT_TRUE(reader);
    std::vector<std::byte> read(payload.size());
    ASSERT_TRUE(reader->copy_payload(3 * block_tokens, block_tokens, read));
    ASSERT_EQ(read, payload);

    ImageRequest request;
    request.content.geometry = shape.geometry(block_tokens);
    ASSERT_TRUE(request.content.geometry.is_valid());
    ASSERT_EQ(request.content.geometry.raw_bytes(), shape.payload_bytes(block_tokens));
    with_planes += request.content.geometry.is_opaque() ? 0 : 1;
    const std::vector<Token> tokens(block_tokens, 7);
    request.content.identity.tokens = tokens;
    request.content.key = next_key(root_key(request.content.identity.keyspace), tokens);
    const std::vector<std::byte> image = image_of(request.content, payload, workspace);
    const auto checked = check_image(image, request, ImageCheck::kDigest);
    ASSERT_TRUE(checked);
    std::vector<std::byte> decoded(payload.size());
    ASSERT_TRUE(decode_image(*checked, workspace, decoded));
    ASSERT_EQ(decoded, payload);
    std::vector<std::byte> again(blob.size());
    const std::span<const std::byte> decoded_payloads[] = {decoded};
    writer.write(decoded_payloads, again);
    ASSERT_EQ(again, blob);
  }
  EXPECT_GT(with_planes, 60U);
  EXPECT_LT(with_planes, 240U);
}

}  // namespace
}  // namespace rhizome
