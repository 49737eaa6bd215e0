// The blobs of the llama.cpp that is linked, read and written by seq_blob.h. A change of its format must fail here
// and not in somebody's answers.
#include <cstring>

#include <gtest/gtest.h>

#include "engine/llama/seq_blob.h"
#include "engine/llama/test_models.h"

namespace rhizome {
namespace {

struct EngineCase {
  const char* name;
  uint32_t window;
  bool flash_attention;
  ggml_type type;
  bool unified;
};

void PrintTo(const EngineCase& each, std::ostream* out) {
  *out << each.name;
}

class SeqBlobEngine : public testing::TestWithParam<EngineCase> {
 protected:
  SeqBlobEngine() : model_(make_random_model(shape())) { context_ = fresh_context(512); }

  static RandomModel shape() { return GetParam().window > 0 ? window_model(GetParam().window) : dense_model(); }

  ContextPtr fresh_context(uint32_t cells) {
    llama_context_params params = one_thread_params(cells, 4, GetParam().unified);
    params.type_k = GetParam().type;
    params.type_v = GetParam().type;
    params.flash_attn_type =
        GetParam().flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    return make_context(model_.get(), params);
  }

  void compute(llama_seq_id seq, const std::vector<Token>& tokens) {
    llama_batch batch = llama_batch_init(static_cast<int32_t>(tokens.size()), 0, 1);
    for (size_t i = 0; i < tokens.size(); ++i) {
      batch.token[i] = static_cast<llama_token>(tokens[i]);
      batch.pos[i] = static_cast<llama_pos>(i);
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = seq;
      batch.logits[i] = 0;
    }
    batch.n_tokens = static_cast<int32_t>(tokens.size());
    ASSERT_EQ(llama_decode(context_.get(), batch), 0);
    llama_batch_free(batch);
  }

  static std::vector<std::byte> blob_of(llama_context* context, llama_seq_id seq) {
    std::vector<std::byte> blob(llama_state_seq_get_size_ext(context, seq, 0));
    auto* bytes = reinterpret_cast<uint8_t*>(blob.data());
    EXPECT_EQ(llama_state_seq_get_data_ext(context, bytes, blob.size(), seq, 0), blob.size());
    return blob;
  }

  uint32_t streams() const { return GetParam().unified ? 1 : 4; }

  ModelPtr model_;
  ContextPtr context_;
};

// What 4 layers of random_model's shapes must take in a blob of `cells` cells (section by section), from the format.
uint64_t expected_bytes(const EngineCase& each, uint32_t cells) {
  const uint32_t layers = each.window > 0 ? 4 : 2;
  const uint32_t sections = each.window > 0 ? 2 : 1;
  const uint32_t streams = each.unified ? 1 : 4;
  const uint64_t row = each.type == GGML_TYPE_F16 ? 64 * 2 : 64 / 32 * 34;
  const uint64_t part_header = 4 + 8;
  return 8 + sections * (4 + 4 * streams + 12 * uint64_t{cells} + 8) + 2 * layers * (part_header + cells * row);
}

TEST_P(SeqBlobEngine, HasTheLayoutThatIsWrittenDown) {
  compute(2, random_tokens(1, 2));
  const auto blob = blob_of(context_.get(), 2);
  EXPECT_EQ(blob.size(), expected_bytes(GetParam(), 2));
  uint32_t magic = 0;
  std::memcpy(&magic, blob.data(), sizeof magic);
  EXPECT_EQ(magic, 0xaf143cd8U);

  const auto found = discover_blob_shape(blob, 2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->streams, streams());
  ASSERT_EQ(found->sections.size(), GetParam().window > 0 ? 2U : 1U);
  for (const BlobSection& section : found->sections) {
    EXPECT_EQ(section.layers, 2U);  // the window model: every second of its four layers
    EXPECT_EQ(section.transposed, !GetParam().flash_attention);
    ASSERT_EQ(section.parts.size(), 4U);
    for (const BlobPart& part : section.parts) {
      EXPECT_EQ(part.type, GetParam().type);
      EXPECT_EQ(part.row_bytes, GetParam().type == GGML_TYPE_F16 ? 128U : 68U);
      EXPECT_EQ(part.element_bytes, part.value && section.transposed ? 2U : 0U);
    }
  }
}

// Read, cut into blocks, written and read again it is the engine's own blob, byte for byte; and the engine takes it.
TEST_P(SeqBlobEngine, IsWrittenAsTheEngineWritesIt) {
  constexpr uint32_t kBlock = 16;
  compute(0, random_tokens(2, 2));
  const auto shape = discover_blob_shape(blob_of(context_.get(), 0), 2);
  ASSERT_TRUE(shape);
  llama_memory_clear(llama_get_memory(context_.get()), true);
  compute(0, random_tokens(3, 48));
  auto blob = blob_of(context_.get(), 0);
  const auto reader = BlobReader::parse(blob, *shape);
  ASSERT_TRUE(reader);
  std::vector<std::vector<std::byte>> payloads(3, std::vector<std::byte>(shape->payload_bytes(kBlock)));
  for (uint32_t b = 0; b < 3; ++b) {
    EXPECT_EQ(reader->copy_payload(b * kBlock, kBlock, payloads[b]), GetParam().window == 0 || b == 2);
  }
  if (GetParam().window > 0) {
    // The engine gives no rows that the window has passed: of 48 rows the last 24 are left.
    std::vector<std::byte> row(shape->payload_bytes(1));
    EXPECT_TRUE(reader->copy_payload(24, 1, row));
    EXPECT_FALSE(reader->copy_payload(23, 1, row));
    return;
  }
  const std::vector<std::span<const std::byte>> views(payloads.begin(), payloads.end());
  const BlobWriter writer(*shape, kBlock, 0, 3, 0);
  std::vector<std::byte> written(writer.bytes());
  writer.write(views, written);
  EXPECT_EQ(written, blob);

  const ContextPtr other = fresh_context(1024);
  const auto* bytes = reinterpret_cast<const uint8_t*>(written.data());
  ASSERT_EQ(llama_state_seq_set_data_ext(other.get(), bytes, written.size(), 1, 0), written.size());
  EXPECT_EQ(llama_memory_seq_pos_max(llama_get_memory(other.get()), 1), 47);
}

// An engine's blob with one byte of its headers changed is never taken for one of the probed shape.
TEST_P(SeqBlobEngine, IsReadStrictly) {
  compute(0, random_tokens(2, 2));
  auto blob = blob_of(context_.get(), 0);
  const auto shape = discover_blob_shape(blob, 2);
  ASSERT_TRUE(shape);
  const size_t cells_at = 8 + 4;  // count of the first stream's cells
  for (const size_t at : {size_t{0}, size_t{3}, size_t{8}, cells_at, cells_at + 8}) {
    blob[at] ^= std::byte{1};
    EXPECT_FALSE(BlobReader::parse(blob, *shape)) << at;
    blob[at] ^= std::byte{1};
  }
  EXPECT_TRUE(BlobReader::parse(blob, *shape));
  for (size_t length = 0; length < blob.size(); ++length) {
    ASSERT_FALSE(BlobReader::parse(std::span(blob).first(length), *shape)) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SeqBlobEngine,
                         testing::Values(EngineCase{"dense", 0, true, GGML_TYPE_F16, true},
                                         EngineCase{"dense_transposed", 0, false, GGML_TYPE_F16, true},
                                         EngineCase{"dense_q8_0", 0, true, GGML_TYPE_Q8_0, true},
                                         EngineCase{"dense_streams", 0, true, GGML_TYPE_F16, false},
                                         EngineCase{"dense_streams_transposed", 0, false, GGML_TYPE_F16, false},
                                         EngineCase{"window", 24, true, GGML_TYPE_F16, true},
                                         EngineCase{"window_transposed", 24, false, GGML_TYPE_F16, true},
                                         EngineCase{"window_q8_0", 24, true, GGML_TYPE_Q8_0, true},
                                         EngineCase{"window_streams", 24, true, GGML_TYPE_F16, false}),
                         [](const testing::TestParamInfo<EngineCase>& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace rhizome
