#include "slab/block_directory.h"

#include <array>
#include <atomic>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "machine/descriptor.h"
#include "machine/mapping.h"
#include "machine/random.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

TEST(BlockDirectory, FindsWhatIsResident) {
  BlockDirectory directory;
  EXPECT_EQ(directory.room(), 0u);
  ASSERT_TRUE(directory.make_room(BlockDirectory::kEntriesOfASegment + 1));
  EXPECT_EQ(directory.room(), 2 * BlockDirectory::kEntriesOfASegment);
  for (const uint32_t number : {0u, 65535u, 65536u, 131071u}) {
    const BlockPlace place{.chunk = 0xFFFF - number % 3, .unit = UINT32_MAX - number, .checksum = number * 977ull};
    EXPECT_EQ(directory.find(number), std::nullopt);
    directory.put(number, place);
    EXPECT_EQ(directory.find(number), place);
    directory.begin_leaving(number);
    EXPECT_EQ(directory.find(number), std::nullopt);
    directory.stay(number);
    EXPECT_EQ(directory.find(number), place);
    directory.remove(number);
    EXPECT_EQ(directory.find(number), std::nullopt);
  }
}

TEST(BlockDirectory, IsReadThroughAnotherMapping) {
  BlockDirectory directory;
  ASSERT_TRUE(directory.make_room(1));
  EXPECT_EQ(directory.descriptor(1).error().code, Code::kNotFound);
  const Descriptor copy(::dup(*directory.descriptor(0)));
  const Mapping mapped = *Mapping::attach_shared(copy, BlockDirectory::kSegmentBytes, Mapping::Access::kRead);
  const std::span<const std::byte> segment = mapped.bytes();
  DirectoryReader reader;
  EXPECT_FALSE(reader.add(0, segment.first(4096)));
  EXPECT_FALSE(reader.knows(0));
  EXPECT_FALSE(reader.add(BlockDirectory::kSegmentsMax, segment));
  ASSERT_TRUE(reader.add(0, segment));
  EXPECT_EQ(reader.find(UINT32_MAX), std::nullopt);
  EXPECT_TRUE(reader.knows(BlockDirectory::kEntriesOfASegment - 1));
  EXPECT_FALSE(reader.knows(BlockDirectory::kEntriesOfASegment));
  directory.put(77, {.chunk = 3, .unit = 9, .checksum = 5});
  EXPECT_EQ(reader.find(77), (BlockPlace{.chunk = 3, .unit = 9, .checksum = 5}));
  EXPECT_EQ(reader.find(78), std::nullopt);
}

// What a reader has found stays until it lets go: places change their blocks all the time.
TEST(BlockDirectory, OfReaderAndOwnerOneSeesTheOther) {
  constexpr uint32_t kNumbers = 4;
  constexpr uint64_t kRounds = 300'000;
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  BlockDirectory directory;
  ASSERT_TRUE(directory.make_room(kNumbers));
  std::array<std::atomic<uint64_t>, kNumbers> bytes{};  // of the place that each number has
  std::atomic<uint32_t> hazard{0};                      // number + 1
  std::atomic<bool> stop{false};
  uint64_t stayed = 0;
  uint64_t found = 0;
  uint64_t wrong = 0;
  for (uint32_t number = 0; number < kNumbers; ++number)
    directory.put(number, {.unit = number});
  Thread owner = std::move(*start_thread("owner", [&] {
    std::mt19937_64 random(seed);
    while (!stop.load(std::memory_order_relaxed)) {
      const uint32_t number = random() % kNumbers;
      directory.begin_leaving(number);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (hazard.load(std::memory_order_acquire) == number + 1) {
        directory.stay(number);
        ++stayed;
        continue;
      }
      directory.remove(number);
      const uint64_t next = bytes[number].load(std::memory_order_relaxed) + 1;
      bytes[number].store(next, std::memory_order_relaxed);
      directory.put(number, {.unit = number, .checksum = next});
    }
  }));
  std::mt19937_64 random(seed + 1);
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint32_t number = random() % kNumbers;
    hazard.store(number + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (const auto place = directory.find(number)) {
      ++found;
      wrong += bytes[number].load(std::memory_order_relaxed) != place->checksum;
    }
    hazard.store(0, std::memory_order_release);
  }
  stop = true;
  owner.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(found, kRounds / 100);
  std::printf("%lu found, %lu stayed, wrong 0\n", static_cast<unsigned long>(found),
              static_cast<unsigned long>(stayed));
}

}  // namespace
}  // namespace rhizome
