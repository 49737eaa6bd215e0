#include "bench/trace.h"

#include <string>

#include <gtest/gtest.h>

#include "bench/capacity.h"
#include "bench/trace_fixture.h"
#include "bench/zstd_text.h"
#include "machine/files.h"
#include "machine/temporary_folder.h"

namespace rhizome::bench {
namespace {

constexpr std::string_view kLine = R"({"timestamp": 1, "input_length": 700, "output_length": 2, "hash_ids": [7, 9]})";

std::string refusal(std::string_view text) {
  std::string wrong;
  EXPECT_FALSE(parse_trace(text, wrong));
  return wrong;
}

TEST(ParseTrace, NamesABlockByItsWholePath) {
  const Trace trace = trace_of({{5, 6}, {5, 7}, {6, 5}, {5, 6, 7}});
  ASSERT_EQ(trace.requests.size(), 4U);
  EXPECT_EQ(trace.requests[0].blocks, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(trace.requests[1].blocks, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(trace.requests[2].blocks, (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(trace.requests[3].blocks, (std::vector<uint32_t>{0, 1, 5}));
  EXPECT_EQ(trace.parent, (std::vector<uint32_t>{Trace::kNoBlock, 0, 0, Trace::kNoBlock, 3, 1}));
  EXPECT_EQ(trace.hash_id, (std::vector<uint64_t>{5, 6, 7, 6, 5, 7}));
  EXPECT_EQ(trace.block_uses, 9U);
  EXPECT_EQ(trace.distinct(), 6U);
  EXPECT_EQ(trace.longest, 3U);
}

TEST(ParseTrace, TakesBlankLinesAndAMissingLastLineEnd) {
  std::string wrong;
  const Result<Trace> trace = parse_trace("\n" + std::string(kLine) + "\r\n\n" + std::string(kLine), wrong);
  ASSERT_TRUE(trace) << wrong;
  EXPECT_EQ(trace->requests.size(), 2U);
  EXPECT_EQ(trace->input_tokens, 1400U);
}

TEST(ParseTrace, NamesTheLineThatIsNone) {
  const std::string good(kLine);
  EXPECT_EQ(refusal(""), "it holds no requests");
  EXPECT_EQ(refusal("\n\n"), "it holds no requests");
  EXPECT_EQ(refusal(R"({"input_length": 0, "hash_ids": []})"), "its requests have no blocks");
  for (const char* bad : {"once upon a time", "[1, 2]", "{}", R"({"input_length": 5})", R"({"hash_ids": [1]})",
                          R"({"input_length": "5", "hash_ids": [1]})", R"({"input_length": 5, "hash_ids": 1})",
                          R"({"input_length": 5, "hash_ids": [-1]})", R"({"input_length": 5, "hash_ids": [1.5]})",
                          R"({"input_length": 5, "hash_ids": [1])", "\x01\xff\xfe"}) {
    EXPECT_TRUE(refusal(good + "\n\n" + bad + "\n" + good).starts_with("line 3 is no request")) << bad;
  }
}

TEST(LoadTrace, ReadsWhatComesWithTheProgram) {
  const std::string program = std::string(RHIZOME_BUILD_DIR) + "/bin/rhizome";
  EXPECT_EQ(bundled_trace(program, "nothing"), "");
  std::string wrong;
  const Result<Trace> conversation = load_trace(bundled_trace(program, "conversation"), wrong);
  ASSERT_TRUE(conversation) << wrong;
  EXPECT_EQ(conversation->requests.size(), 12031U);
  EXPECT_EQ(conversation->block_uses, 288500U);
  EXPECT_EQ(conversation->distinct(), 182790U);
  EXPECT_EQ(conversation->longest, 247U);
  const Result<Trace> synthetic = load_trace(bundled_trace(program, "synthetic"), wrong);
  ASSERT_TRUE(synthetic) << wrong;
  EXPECT_EQ(synthetic->requests.size(), 3993U);
  EXPECT_EQ(synthetic->block_uses, 121877U);
  EXPECT_EQ(synthetic->distinct(), 43924U);
}

TEST(LoadTrace, SaysWhatIsWrongWithAFile) {
  const TemporaryFolder folder;
  std::string wrong;
  EXPECT_EQ(load_trace(folder.path("none"), wrong).error().code, Code::kNotFound);
  EXPECT_NE(wrong.find("none' does not exist"), std::string::npos) << wrong;

  const std::string program = std::string(RHIZOME_BUILD_DIR) + "/bin/rhizome";
  Result<std::vector<std::byte>> bytes = read_file(bundled_trace(program, "synthetic"), 1 << 20);
  ASSERT_TRUE(bytes);
  ASSERT_TRUE(is_zstd(*bytes));
  EXPECT_EQ(unpack_zstd(*bytes, 1000).error().code, Code::kResourceExhausted);
  ASSERT_TRUE(write_file_atomically(folder.path("cut"), std::span<const std::byte>(*bytes).first(bytes->size() / 2)));
  EXPECT_FALSE(load_trace(folder.path("cut"), wrong));
  EXPECT_NE(wrong.find("cut': its compressed text is cut off"), std::string::npos) << wrong;
  for (size_t i = 100; i < 400; ++i)
    (*bytes)[i] ^= std::byte{0x55};
  ASSERT_TRUE(write_file_atomically(folder.path("hit"), std::span<const std::byte>(*bytes)));
  EXPECT_FALSE(load_trace(folder.path("hit"), wrong));
  EXPECT_NE(wrong.find("hit': its compressed text is damaged"), std::string::npos) << wrong;
}

TEST(ParseCapacity, TakesBlocksAndShares) {
  std::string wrong;
  EXPECT_EQ(parse_capacity("1", 200, wrong), 1U);
  EXPECT_EQ(parse_capacity("10000", 200, wrong), 10000U);
  EXPECT_EQ(parse_capacity("5%", 200, wrong), 10U);
  EXPECT_EQ(parse_capacity("0.1%", 200, wrong), 1U);
  EXPECT_EQ(parse_capacity("100%", 200, wrong), 200U);
  for (const char* bad : {"", "%", "ten", "-1", "1.5", "5 %", "101%", "nan%", "1e3", "99999999999", "10k"}) {
    EXPECT_FALSE(parse_capacity(bad, 200, wrong)) << bad;
    EXPECT_NE(wrong.find("must be a number of blocks"), std::string::npos) << wrong;
  }
  for (const char* nothing : {"0", "0%"}) {
    EXPECT_FALSE(parse_capacity(nothing, 200, wrong)) << nothing;
    EXPECT_NE(wrong.find("at least one block"), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace rhizome::bench
