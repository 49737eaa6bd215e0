#include "bench/kv_rows.h"

#include <gtest/gtest.h>

#include "bench/block_images.h"
#include "block/little_endian.h"
#include "engine/llama/seq_blob.h"
#include "machine/files.h"
#include "machine/temporary_folder.h"

namespace rhizome::bench {
namespace {

// Two layers, five tokens, three channels; an element is its place in the file.
std::vector<std::byte> sample_file() {
  std::vector<std::byte> bytes;
  for (const uint32_t field : {2U, 5U, 3U, 1U})
    append_little(bytes, field);
  for (uint32_t i = 0; i < 2 * 2 * 5 * 3; ++i)
    append_little(bytes, static_cast<uint16_t>(i));
  return bytes;
}

TEST(KvRows, CutsBlocksOutOfAFile) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/kv";
  ASSERT_TRUE(write_file_atomically(path, sample_file()));
  const Result<KvRows> rows = KvRows::read(path);
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->element_type(), ElementType::kF16);
  EXPECT_EQ(rows->blocks_count(2), 2u);
  const std::vector<std::byte> block = rows->block(2, 1);
  ASSERT_EQ(block.size(), rows->geometry(2).raw_bytes());
  // K of layer 0, V of layer 0, K of layer 1, V of layer 1; tokens 2 and 3 of each.
  for (uint32_t half = 0; half < 4; ++half) {
    for (uint32_t i = 0; i < 6; ++i)
      EXPECT_EQ(load_little<uint16_t>(block.data() + (half * 6 + i) * 2), half * 15 + 6 + i);
  }
}

TEST(KvRows, RefusesAFileThatIsNotWhatItSays) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/kv";
  const std::vector<std::byte> good = sample_file();
  const auto code_after = [&](size_t at, uint32_t value, size_t size) {
    std::vector<std::byte> bytes = good;
    store_little(bytes.data() + at, value);
    bytes.resize(size);
    EXPECT_TRUE(write_file_atomically(path, bytes));
    const Result<KvRows> rows = KvRows::read(path);
    return rows ? Code::kOk : rows.error().code;
  };
  EXPECT_EQ(code_after(0, 2, good.size()), Code::kOk);
  EXPECT_EQ(code_after(0, 2, good.size() - 1), Code::kInvalidArgument);
  EXPECT_EQ(code_after(0, 2, 15), Code::kInvalidArgument);
  EXPECT_EQ(code_after(0, 0, 16), Code::kInvalidArgument);
  EXPECT_EQ(code_after(0, 3, good.size()), Code::kInvalidArgument);
  EXPECT_EQ(code_after(4, 0, 16), Code::kInvalidArgument);
  EXPECT_EQ(code_after(12, 2, good.size()), Code::kInvalidArgument);
  EXPECT_FALSE(KvRows::read(folder.path() + "/none").has_value());
}

// As llama-server saves a slot with two layers of four tokens.
std::vector<std::byte> saved_slot(int32_t type, uint64_t value_bytes) {
  BlobSection section;
  section.layers = 2;
  for (const bool value : {false, true}) {
    for (uint32_t layer = 0; layer < 2; ++layer)
      section.parts.push_back({type, value, value ? value_bytes : 6, 0});
  }
  BlobShape shape;
  shape.sections = {section};
  std::vector<std::byte> payload(shape.payload_bytes(4));
  for (size_t i = 0; i < payload.size(); ++i)
    payload[i] = static_cast<std::byte>(i);
  const std::span<const std::byte> payloads[] = {payload};
  const BlobWriter writer(shape, 4, 0, 1, 0);
  std::vector<std::byte> blob(writer.bytes());
  writer.write(payloads, blob);
  std::vector<std::byte> file;
  // "qsgg", version, three tokens, of which only the count matters.
  for (const uint32_t field : {0x67677371U, 3U, 3U, 7U, 8U, 9U})
    append_little(file, field);
  file.insert(file.end(), blob.begin() + kBlobHeadBytes, blob.end());
  return file;
}

TEST(KvRows, TakesWhatAServerSaves) {
  constexpr int32_t kBf16 = 30;
  const std::vector<std::byte> file = saved_slot(kBf16, 6);
  const Result<KvRows> rows = KvRows::from_saved_slot(file);
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(rows->element_type(), ElementType::kBf16);
  EXPECT_EQ(rows->tokens_count(), 4u);
  const std::vector<std::byte> block = rows->block(2, 1);
  ASSERT_EQ(block.size(), 2u * 2 * 2 * 6);
  for (uint32_t half = 0; half < 4; ++half) {
    for (uint32_t i = 0; i < 12; ++i)
      EXPECT_EQ(block[half * 12 + i], static_cast<std::byte>(half * 24 + 12 + i));
  }
  for (size_t length = 0; length < file.size(); ++length)
    EXPECT_FALSE(KvRows::from_saved_slot(std::span(file).first(length)).has_value()) << length;
  EXPECT_FALSE(KvRows::from_saved_slot(saved_slot(kBf16, 4)).has_value()) << "V is narrower than K";
  EXPECT_FALSE(KvRows::from_saved_slot(saved_slot(8, 6)).has_value()) << "a quantised type";
}

TEST(BlockImages, ComeBackForEveryCodec) {
  const KvRows rows = KvRows::made_up(2, 40, 64);
  BlockImages images(rows, 16, 0);
  EXPECT_EQ(images.blocks_count(), 2u);
  for (const Codec codec : {Codec::kRaw, Codec::kE3, Codec::kRans, Codec::kZstdPlanes}) {
    EXPECT_GT(images.encode(codec), 0u);
    EXPECT_TRUE(images.decode());
    EXPECT_TRUE(images.is_right());
  }
  // More than there are: they begin anew.
  EXPECT_EQ(BlockImages(rows, 16, 100'000).blocks_count(), 13u);
}

}  // namespace
}  // namespace rhizome::bench
