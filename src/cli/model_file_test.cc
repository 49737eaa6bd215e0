#include "cli/model_file.h"

#include <sys/stat.h>
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

// Writes a GGUF head the way the format says.
class Head {
 public:
  Head(uint64_t tensors, uint64_t values) {
    bytes_ = "GGUF";
    number<uint32_t>(3);
    number(tensors);
    number(values);
  }
  template <class Number>
  Head& number(Number value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Head& text(const std::string& value) {
    number<uint64_t>(value.size());
    bytes_ += value;
    return *this;
  }
  Head& value(const std::string& key, uint32_t number_value) {
    return text(key).number<uint32_t>(4).number(number_value);
  }
  Head& tensor(const std::string& name, uint64_t elements, uint32_t type, uint64_t offset) {
    return text(name).number<uint32_t>(1).number(elements).number(type).number(offset);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

std::span<const std::byte> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

Head small() {
  Head head(2, 7);
  head.text("general.architecture").number<uint32_t>(8).text("llama");
  head.value("llama.block_count", 30).value("llama.embedding_length", 576);
  head.value("llama.attention.head_count", 9).value("llama.attention.head_count_kv", 3);
  head.text("tokens").number<uint32_t>(9).number<uint32_t>(8).number<uint64_t>(2).text("a").text("bc");
  head.text("scores").number<uint32_t>(9).number<uint32_t>(6).number<uint64_t>(2).number(1.0F).number(2.0F);
  head.tensor("one", 64, 0, 0).tensor("two", 64, 3, 256);
  return head;
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + 31) / 32 * 32;
}

class FileOf {
 public:
  explicit FileOf(const std::string& bytes) : path_(testing::TempDir() + "model_file_test.gguf") {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~FileOf() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What is understood of a head that is all there.
GgufHead understood(const std::string& bytes) {
  const auto head = parse_gguf_head(as_bytes(bytes));
  EXPECT_TRUE(head && *head);
  return head ? head->value_or(GgufHead{}) : GgufHead{};
}

std::string whole(const Head& head) {
  std::string bytes = head.bytes();
  bytes.resize(aligned(bytes.size()) + 256 + 40);  // 64 x F32, then 64 x Q4_1
  return bytes;
}

TEST(GgufHead, SaysHowLongTheFileMustBe) {
  const GgufHead head = understood(small().bytes());
  EXPECT_EQ(head.bytes_least, whole(small()).size());
  EXPECT_EQ(head.kv_elements_per_token, 30U * 3 * 128);
}

TEST(GgufHead, AsksForMoreOfEveryPrefix) {
  const std::string bytes = small().bytes();
  for (size_t length = 4; length < bytes.size(); ++length) {
    const auto head = parse_gguf_head(as_bytes(bytes.substr(0, length)));
    ASSERT_TRUE(head) << length;
    EXPECT_FALSE(*head) << length;
  }
}

TEST(GgufHead, TakesAnAlignment) {
  Head head(1, 1);
  head.value("general.alignment", 4096).tensor("one", 1, 0, 0);
  EXPECT_EQ(understood(head.bytes()).bytes_least, 4096U + 4);
}

TEST(GgufHead, LeavesWhatItDoesNotKnowToTheEngine) {
  Head other(1, 1);
  other.text("key").number<uint32_t>(77);
  EXPECT_EQ(understood(other.bytes() + std::string(64, 'x')).bytes_least, 0U);
  Head type(1, 0);
  type.tensor("one", 1000, 9999, 64);
  EXPECT_EQ(understood(type.bytes()).bytes_least, aligned(type.bytes().size()) + 64);
  Head lora(0, 2);
  lora.value("deepseek2.block_count", 2).value("deepseek2.attention.kv_lora_rank", 512);
  EXPECT_EQ(understood(lora.bytes()).kv_elements_per_token, 0U);
}

TEST(GgufHead, SurvivesAnyBytes) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string good = small().bytes();
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (int flips = 0; flips < 4; ++flips)
      bytes[4 + random() % (bytes.size() - 4)] = static_cast<char>(random());
    (void)parse_gguf_head(as_bytes(bytes));
  }
}

TEST(ModelFile, SaysWhatIsWrong) {
  const std::string good = whole(small());
  EXPECT_TRUE(check_model_file(FileOf(good).path()));
  EXPECT_EQ(check_model_file("/no/such/model.gguf").error().code, Code::kNotFound);
  EXPECT_STREQ(check_model_file(testing::TempDir()).error().reason, "is not a regular file");
  EXPECT_STREQ(check_model_file(FileOf("").path()).error().reason, "is empty");
  EXPECT_STREQ(check_model_file(FileOf("GGU").path()).error().reason, "is not a GGUF file");
  EXPECT_STREQ(check_model_file(FileOf("this is a text").path()).error().reason, "is not a GGUF file");
  EXPECT_STREQ(check_model_file(FileOf(good.substr(0, good.size() - 1)).path()).error().reason, "is truncated");
  EXPECT_STREQ(check_model_file(FileOf(good.substr(0, 40)).path()).error().reason, "is truncated");
  if (::geteuid() != 0) {
    const FileOf secret(good);
    ::chmod(secret.path().c_str(), 0);
    EXPECT_EQ(check_model_file(secret.path()).error().code, Code::kPermissionDenied);
  }
}

}  // namespace
}  // namespace rhizome
