#include "machine/file_ring.h"

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "machine/clock.h"
#include "machine/mapping.h"
#include "machine/simulated_files.h"
#include "machine/temporary_folder.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint64_t kWaitNs = 10'000'000'000;
constexpr size_t kFileBytes = 8 << 20;

class FileRingTest : public testing::TestWithParam<RingKind> {
 protected:
  void SetUp() override {
    Result<Mapping> memory = Mapping::anonymous(2 * kFileBytes);
    ASSERT_TRUE(memory);
    memory_ = std::move(*memory);
    Result<std::unique_ptr<File>> file = files().open(folder_.path("file"), OpenMode::kCreateDirect);
    ASSERT_TRUE(file) << file.error().reason;
    file_ = std::move(*file);
    ASSERT_TRUE(file_->allocate(kFileBytes));
    RingOptions options{.kind = GetParam(), .files = {file_.get()}, .memory = {memory_.bytes().first(1 << 20)}};
    Result<std::unique_ptr<FileRing>> ring = FileRing::create(options);
    if (!ring) GTEST_SKIP() << ring.error().reason;
    ring_ = std::move(*ring);
  }

  FileSystem& files() {
    return GetParam() == RingKind::kSynchronous ? static_cast<FileSystem&>(simulated_) : real_file_system();
  }

  // All that is under way.
  std::vector<RingCompletion> drain() {
    std::vector<RingCompletion> all(64);
    std::vector<RingCompletion> out;
    const uint64_t end = monotonic_now_ns() + kWaitNs;
    while (ring_->under_way() > 0 && monotonic_now_ns() < end) {
      const size_t count = ring_->collect(all, kWaitNs);
      out.insert(out.end(), all.begin(), all.begin() + static_cast<ptrdiff_t>(count));
    }
    return out;
  }

  TemporaryFolder folder_;
  SimulatedFiles simulated_{3};
  Mapping memory_;
  std::unique_ptr<File> file_;
  std::unique_ptr<FileRing> ring_;
};

TEST_P(FileRingTest, WhatIsWrittenIsRead) {
  EXPECT_EQ(ring_->kind(), GetParam());
  const std::span<std::byte> from = memory_.bytes().first(kFileBytes);
  std::mt19937_64 random(7);
  for (std::byte& one : from)
    one = static_cast<std::byte>(random());
  constexpr size_t kStep = 512 << 10;
  for (size_t at = 0; at < kFileBytes; at += kStep)
    ring_->submit({.tag = at, .action = RingAction::kWrite, .offset = at, .bytes = from.subspan(at, kStep)});
  std::vector<RingCompletion> written = drain();
  EXPECT_EQ(written.size(), kFileBytes / kStep);
  for (const RingCompletion& one : written)
    EXPECT_TRUE(one.is_ok) << one.error.reason;
  ring_->submit({.tag = 1, .action = RingAction::kSync});
  EXPECT_TRUE(drain().at(0).is_ok);
  const std::span<std::byte> into = memory_.bytes().subspan(kFileBytes);
  ring_->submit({.tag = 2, .action = RingAction::kRead, .offset = 0, .bytes = into.first(kFileBytes - 4096)});
  const Result<Mapping> many = Mapping::anonymous(300 * 4096);
  ASSERT_TRUE(many);
  const Mapping& more = *many;
  for (uint64_t i = 0; i < 300; ++i)
    ring_->submit({.tag = 3 + i, .offset = kFileBytes - 4096, .bytes = more.bytes().subspan(i * 4096, 4096)});
  const std::vector<RingCompletion> read = drain();
  ASSERT_EQ(read.size(), 301u);
  for (const RingCompletion& one : read)
    EXPECT_TRUE(one.is_ok) << one.error.reason;
  EXPECT_TRUE(std::equal(from.begin(), from.end() - 4096, into.begin()));
  for (size_t i = 0; i < 300; ++i)
    EXPECT_TRUE(std::equal(from.end() - 4096, from.end(), more.bytes().subspan(i * 4096).begin()));
}

TEST_P(FileRingTest, ReadingPastTheEndIsShort) {
  ring_->submit({.tag = 9, .offset = kFileBytes - 4096, .bytes = memory_.bytes().first(8192)});
  const std::vector<RingCompletion> done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_FALSE(done[0].is_ok);
  EXPECT_EQ(done[0].error.code, Code::kDataLoss);
}

TEST_P(FileRingTest, AWaitEndsWhenItIsWoken) {
  ring_->wake();
  RingCompletion one;
  EXPECT_EQ(ring_->collect(std::span(&one, 1), 600 * kWaitNs), 0u) << "it was woken before it waited";
  Result<Thread> waker = start_thread("waker", [this] { ring_->wake(); });
  ASSERT_TRUE(waker);
  EXPECT_EQ(ring_->collect(std::span(&one, 1), 600 * kWaitNs), 0u);
}

TEST_P(FileRingTest, ADescriptorThatCannotWriteSaysSo) {
  auto file = files().open(folder_.path("file"), OpenMode::kRead);
  ASSERT_TRUE(file);
  Result<std::unique_ptr<FileRing>> ring = FileRing::create({.kind = GetParam(), .files = {file->get()}});
  ASSERT_TRUE(ring);
  ring_ = std::move(*ring);
  ring_->submit({.tag = 1, .action = RingAction::kWrite, .bytes = memory_.bytes().first(4096)});
  const std::vector<RingCompletion> done = drain();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_FALSE(done[0].is_ok);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FileRingTest,
                         testing::Values(RingKind::kRegistered, RingKind::kPlain, RingKind::kPool,
                                         RingKind::kSynchronous),
                         [](const auto& kind) { return std::string(ring_kind_name(kind.param)); });

TEST(FileRingAutoTest, SimulatedFilesGetTheSynchronousOne) {
  SimulatedFiles files(1);
  auto file = files.open("/a", OpenMode::kCreate);
  ASSERT_TRUE(file);
  auto ring = FileRing::create({.files = {file->get()}});
  ASSERT_TRUE(ring);
  EXPECT_EQ((*ring)->kind(), RingKind::kSynchronous);
}

}  // namespace
}  // namespace rhizome
