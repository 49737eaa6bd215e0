#include "engine/llama/model_identity.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "machine/files.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

Digest digest_of(std::string_view text) {
  return sha256(std::as_bytes(std::span(text.data(), text.size())));
}

// Not through a new file in its place: the inode stays, and nothing waits for the disk.
void overwrite(const std::string& path, std::string_view text) {
  FILE* file = std::fopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
  ASSERT_EQ(std::fclose(file), 0);
}

void set_mtime(const std::string& path, int64_t mtime_ns) {
  const timespec time{mtime_ns / 1'000'000'000, mtime_ns % 1'000'000'000};
  const timespec times[2] = {time, time};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

class DigestFile : public testing::Test {
 protected:
  DigestFile() : path_(scratch_.path("model.gguf")), memory_(scratch_.path("memory")) { write("the weights"); }

  void write(std::string_view text) { ASSERT_TRUE(write_file_atomically(path_, text)); }

  // Hashing polls stop(), remembering does not.
  Result<Digest> digest(bool& hashed, const std::string& memory) {
    hashed = false;
    return digest_file(path_, memory, [&hashed] {
      hashed = true;
      return false;
    });
  }

  void expect_hashed(bool expected, std::string_view text) {
    bool hashed = false;
    const auto found = digest(hashed, memory_);
    ASSERT_TRUE(found);
    EXPECT_EQ(*found, digest_of(text));
    EXPECT_EQ(hashed, expected);
  }

  std::string memory_file() {
    const auto names = list_directory(memory_);
    return names && names->size() == 1 ? memory_ + "/" + names->front() : "";
  }

  TemporaryFolder scratch_;
  std::string path_;
  std::string memory_;
};

TEST_F(DigestFile, IsTheHashOfTheContentsAndIsRemembered) {
  expect_hashed(true, "the weights");
  expect_hashed(false, "the weights");
}

TEST_F(DigestFile, IsNotRememberedWithoutAPlaceForIt) {
  bool hashed = false;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(*digest(hashed, ""), digest_of("the weights"));
    EXPECT_TRUE(hashed);
  }
  // A file where the directory should be: hashing goes on without a memory.
  ASSERT_TRUE(write_file_atomically(memory_, std::string_view("in the way")));
  expect_hashed(true, "the weights");
  expect_hashed(true, "the weights");
}

TEST_F(DigestFile, OtherContentOfTheSameSizeAndTimeIsNoticed) {
  expect_hashed(true, "the weights");
  const auto before = stamp_file(path_);
  ASSERT_TRUE(before);
  // Until the file system's clock has moved on, which is what ctime is told by.
  FileStamp after = *before;
  while (after.ctime_ns == before->ctime_ns) {
    overwrite(path_, "THE WEIGHTS");
    set_mtime(path_, before->mtime_ns);
    after = *stamp_file(path_);
  }
  EXPECT_EQ(after.size, before->size);
  EXPECT_EQ(after.mtime_ns, before->mtime_ns);
  EXPECT_EQ(after.inode, before->inode);
  expect_hashed(true, "THE WEIGHTS");
  expect_hashed(false, "THE WEIGHTS");
}

TEST_F(DigestFile, AnotherSizeOrFileIsNoticed) {
  expect_hashed(true, "the weights");
  overwrite(path_, "the weights, and more");
  expect_hashed(true, "the weights, and more");
  write("the weights of another");  // another inode under the same name
  expect_hashed(true, "the weights of another");
}

TEST_F(DigestFile, AFileThatChangesWhileItIsHashedHasNoDigest) {
  for (const bool same_size : {true, false}) {
    const auto changed = digest_file(path_, memory_, [&] {
      write(same_size ? "the WEIGHTS" : "the weights, and more");
      return false;
    });
    ASSERT_FALSE(changed);
    EXPECT_EQ(changed.error().code, Code::kAborted);
    EXPECT_EQ(memory_file(), "") << "and nothing is remembered of it";
    write("the weights");
  }
  expect_hashed(true, "the weights");
}

TEST_F(DigestFile, StopsWhenToldTo) {
  const auto stopped = digest_file(path_, memory_, [] { return true; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::kCancelled);
  expect_hashed(true, "the weights");
}

TEST_F(DigestFile, HasNoneForWhatIsNoFile) {
  ASSERT_TRUE(remove_file(path_));
  bool hashed = false;
  EXPECT_EQ(digest(hashed, memory_).error().code, Code::kNotFound);
  path_ = scratch_.path();
  EXPECT_FALSE(digest(hashed, memory_));
}

TEST_F(DigestFile, ADamagedMemoryIsNotBelieved) {
  expect_hashed(true, "the weights");
  const std::string file = memory_file();
  const auto text = read_text_file(file, 4096);
  ASSERT_TRUE(text);
  ASSERT_GT(text->size(), 64U);
  for (const size_t length : {size_t{0}, size_t{1}, size_t{60}, text->size() - 1}) {
    overwrite(file, std::string_view(*text).substr(0, length));
    expect_hashed(true, "the weights");
    expect_hashed(false, "the weights");
  }
  for (size_t at = 0; at < text->size(); at += 3) {
    if (at >= text->size() - 65 && at + 1 < text->size()) continue;  // the digest itself
    std::string changed = *text;
    changed[at] = changed[at] == '1' ? '2' : '1';
    overwrite(file, changed);
    expect_hashed(true, "the weights");
  }
  std::string no_digest = *text;
  no_digest[no_digest.size() - 2] = 'x';
  overwrite(file, no_digest);
  expect_hashed(true, "the weights");
}

TEST_F(DigestFile, AMemoryThatOthersMayWriteIsNotBelieved) {
  expect_hashed(true, "the weights");
  expect_hashed(false, "the weights");
  ASSERT_EQ(::chmod(memory_.c_str(), 0777), 0);
  expect_hashed(true, "the weights");
  ASSERT_EQ(::chmod(memory_.c_str(), 0700), 0);
  expect_hashed(false, "the weights");
}

TEST(SplitFiles, AreNamedByTheFirst) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(split_files("/m/a.gguf"), Names{"/m/a.gguf"});
  EXPECT_EQ(split_files("/m/a-00001-of-00003.gguf"),
            (Names{"/m/a-00001-of-00003.gguf", "/m/a-00002-of-00003.gguf", "/m/a-00003-of-00003.gguf"}));
  EXPECT_EQ(split_files("/m/a-00001-of-00012.gguf").back(), "/m/a-00012-of-00012.gguf");
  EXPECT_EQ(split_files("/m/a-00001-of-00012.gguf").size(), 12U);
  for (const char* alone : {"-00001-of-00003.gguf", "/m/a-00001-of-00003.bin", "/m/a-00001-of-00000.gguf",
                            "/m/a-00001-of-0000x.gguf", "/m/a_00001-of-00003.gguf", "/m/a-00001-in-00003.gguf", ""}) {
    EXPECT_EQ(split_files(alone), Names{alone});
  }
}

llama_model_kv_override make_override(const char* key, llama_model_kv_override_type tag) {
  llama_model_kv_override entry{};
  entry.tag = tag;
  std::strncpy(entry.key, key, sizeof entry.key - 1);
  return entry;
}

TEST(OverridesEncoding, DiffersWithEverythingThatChangesTheModel) {
  std::vector<std::vector<llama_model_kv_override>> lists;
  auto number = make_override("a.b", LLAMA_KV_OVERRIDE_TYPE_INT);
  number.val_i64 = 7;
  auto other_number = number;
  other_number.val_i64 = 8;
  auto other_key = make_override("a.c", LLAMA_KV_OVERRIDE_TYPE_INT);
  other_key.val_i64 = 7;
  auto real = make_override("a.b", LLAMA_KV_OVERRIDE_TYPE_FLOAT);
  real.val_f64 = 7;
  auto same_bits = make_override("a.b", LLAMA_KV_OVERRIDE_TYPE_FLOAT);
  same_bits.val_i64 = 7;
  auto flag = make_override("a.b", LLAMA_KV_OVERRIDE_TYPE_BOOL);
  flag.val_bool = true;
  auto text = make_override("a.b", LLAMA_KV_OVERRIDE_TYPE_STR);
  std::memcpy(text.val_str, "7", sizeof "7");
  auto other_text = text;
  std::memcpy(other_text.val_str, "78", sizeof "78");
  lists = {{},     {number}, {other_number}, {other_key},    {real},        {same_bits},
           {flag}, {text},   {other_text},   {number, text}, {text, number}};
  std::vector<std::string> seen;
  for (auto list : lists) {
    list.push_back(llama_model_kv_override{});
    llama_model_params params = llama_model_default_params();
    params.kv_overrides = list.data();
    const std::string encoding = overrides_encoding(params);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), encoding), 0);
    seen.push_back(encoding);
    EXPECT_EQ(overrides_encoding(params), encoding);
    // Bytes behind the end of a text are nobody's choice.
    auto dirty = list;
    for (auto& entry : dirty) {
      if (entry.tag == LLAMA_KV_OVERRIDE_TYPE_STR && entry.key[0] != 0) entry.val_str[100] = 'x';
      if (entry.key[0] != 0) entry.key[100] = 'x';
    }
    params.kv_overrides = dirty.data();
    EXPECT_EQ(overrides_encoding(params), encoding);
  }
  llama_model_params params = llama_model_default_params();
  const std::string plain = overrides_encoding(params);
  EXPECT_EQ(plain, seen.front()) << "no list is an empty list";
  params.load_mtp = !params.load_mtp;
  EXPECT_NE(overrides_encoding(params), plain);
  params = llama_model_default_params();
  params.split_mode = LLAMA_SPLIT_MODE_TENSOR;
  EXPECT_NE(overrides_encoding(params), plain);
  params = llama_model_default_params();
  params.load_mode = LLAMA_LOAD_MODE_NONE;  // how the file is read does not change what it says
  EXPECT_EQ(overrides_encoding(params), plain);
}

ModelIdentity::State settled(const ModelIdentity& model) {
  while (model.state() == ModelIdentity::State::kHashing)
    std::this_thread::yield();
  return model.state();
}

TEST(ModelIdentity, HashesAllFilesInTheBackground) {
  const TemporaryFolder scratch;
  ASSERT_TRUE(write_file_atomically(scratch.path("a"), std::string_view("one")));
  ASSERT_TRUE(write_file_atomically(scratch.path("b"), std::string_view("two")));
  const std::string a = scratch.path("a");
  const std::string b = scratch.path("b");
  const ModelIdentity one({a}, "", "");
  const ModelIdentity both({a, b}, "o", scratch.path("memory"));
  const ModelIdentity other_order({b, a}, "", scratch.path("memory"));
  ASSERT_EQ(settled(one), ModelIdentity::State::kKnown);
  ASSERT_EQ(settled(both), ModelIdentity::State::kKnown);
  ASSERT_EQ(settled(other_order), ModelIdentity::State::kKnown);
  EXPECT_NE(one.digest(), both.digest());
  EXPECT_NE(both.digest(), other_order.digest());
  EXPECT_EQ(both.overrides(), "o");
  EXPECT_EQ(both.name(), "a");
  // The same contents elsewhere are the same weights.
  ASSERT_TRUE(write_file_atomically(scratch.path("c"), std::string_view("one")));
  const ModelIdentity copy({scratch.path("c")}, "", "");
  ASSERT_EQ(settled(copy), ModelIdentity::State::kKnown);
  EXPECT_EQ(copy.digest(), one.digest());
}

TEST(ModelIdentity, IsUnknownWithoutAllOfItsFiles) {
  const TemporaryFolder scratch;
  ASSERT_TRUE(write_file_atomically(scratch.path("a"), std::string_view("one")));
  EXPECT_EQ(settled(ModelIdentity({}, "", "")), ModelIdentity::State::kUnknown);
  EXPECT_EQ(settled(ModelIdentity({scratch.path("a"), scratch.path("missing")}, "", "")),
            ModelIdentity::State::kUnknown);
  EXPECT_EQ(settled(ModelIdentity({scratch.path("a")}, "", "")), ModelIdentity::State::kKnown);
}

TEST(ModelIdentity, GoesAwayWhileItIsHashing) {
  const TemporaryFolder scratch;
  ASSERT_TRUE(write_file_atomically(scratch.path("a"), std::string_view("one")));
  std::filesystem::resize_file(scratch.path("a"), uint64_t{1} << 32);  // a hole: seconds of hashing, no disk
  const ModelIdentity model({scratch.path("a")}, "", "");
  EXPECT_NE(model.state(), ModelIdentity::State::kKnown);
}

}  // namespace
}  // namespace rhizome
