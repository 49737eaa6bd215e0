#include "slab/chunk_cut.h"

#include <random>

#include <gtest/gtest.h>

#include "machine/random.h"

namespace rhizome {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGiB = 1 << 30;

TEST(ChunkCut, ChunksGrowWithTheBudget) {
  EXPECT_EQ(usual_chunk_bytes(0, false), 64u << 10);
  EXPECT_EQ(usual_chunk_bytes(16 * kMiB, false), 256u << 10);
  EXPECT_EQ(usual_chunk_bytes(128 * kMiB, false), 2 * kMiB);
  EXPECT_EQ(usual_chunk_bytes(8 * kGiB, false), 2 * kMiB);
  EXPECT_EQ(usual_chunk_bytes(1024 * kGiB, false), 128 * kMiB);
  EXPECT_EQ(usual_chunk_bytes(8 * kGiB, true), 32 * kMiB);
  EXPECT_EQ(usual_chunk_bytes(1024 * kGiB, true), 4 * kGiB);
}

TEST(ChunkCut, HugePagesAreFilledWell) {
  const ChunkCut small = full_cut(24768, 2 * kMiB);
  EXPECT_EQ(small.memory_bytes, 2 * kMiB);
  EXPECT_EQ(small.slots, 84u);
  const ChunkCut block = full_cut(377024, 2 * kMiB);  // five of them would leave a tenth of one huge page
  EXPECT_EQ(block.memory_bytes, 4 * kMiB);
  EXPECT_EQ(block.slots, 11u);
  EXPECT_EQ(full_cut(40 * kMiB, 2 * kMiB).slots, 1u);
  EXPECT_EQ(full_cut(64, 2 * kMiB).slots, kChunkSlotsMax);
  EXPECT_EQ(full_cut(64, 2 * kMiB).memory_bytes, 64 * kChunkSlotsMax) << "2 MiB for 256 KiB of slots";
}

TEST(ChunkCut, AtMostAnEighthLiesIdle) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t stride = stride_of(1 + random() % (1ull << (4 + random() % 25)));
    const uint64_t chunk_bytes = usual_chunk_bytes(1ull << (16 + random() % 25), random() % 2 == 0);
    const ChunkCut cut = full_cut(stride, chunk_bytes);
    ASSERT_EQ(cut.stride, stride);
    ASSERT_GE(cut.slots, 1u);
    ASSERT_LE(cut.slots, kChunkSlotsMax);
    ASSERT_GE(cut.memory_bytes, stride * cut.slots);
    ASSERT_EQ(cut.memory_bytes % kMemoryPageBytes, 0u);
    const uint64_t idle = cut.memory_bytes - stride * cut.slots;
    ASSERT_TRUE(idle < kMemoryPageBytes || idle * 8 <= cut.memory_bytes) << stride << " in " << chunk_bytes;
    ASSERT_LE(cut.memory_bytes, std::max({chunk_bytes, 16 * kMiB, stride + 2 * kMiB}));
  }
}

TEST(ChunkCut, MemoryIsCutAgainOnlyWhereItFits) {
  EXPECT_EQ(cut_again(1 * kMiB, 2 * kMiB).slots, 2u);
  EXPECT_EQ(cut_again(64, 64 * kChunkSlotsMax).slots, kChunkSlotsMax);
  EXPECT_EQ(cut_again(64, 2 * kMiB).slots, 0u) << "most of it would lie idle";
  EXPECT_EQ(cut_again(2 * kMiB + 64, 2 * kMiB).slots, 0u);
  EXPECT_EQ(cut_again(1100032, 2 * kMiB).slots, 0u) << "nearly half of it would lie idle";
  EXPECT_EQ(cut_again(1900032, 2 * kMiB).slots, 1u);
  EXPECT_EQ(cut_again(1900032, 2 * kMiB).memory_bytes, 2 * kMiB);
}

}  // namespace
}  // namespace rhizome
