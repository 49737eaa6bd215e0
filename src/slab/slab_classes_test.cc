// Sizes side by side: classes, what moves between them, and what one tenant's bytes leave for another.
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "slab/chunk_cut.h"
#include "slab/slab.h"
#include "slab/slab_fixture.h"

namespace rhizome {
namespace {

constexpr uint64_t kSmall = 24768;
constexpr uint64_t kLarge = 120'000;

const std::byte* address(Slab& slab, SlotRef ref) {
  return slab.pin(ref)->bytes().data();
}

std::vector<SlotRef> in_chunk(const std::vector<SlotRef>& refs, uint32_t chunk) {
  std::vector<SlotRef> in;
  for (const SlotRef ref : refs) {
    if (ref.chunk() == chunk) in.push_back(ref);
  }
  return in;
}

// A chunk that could be emptied, or one without slots and with kNoChunk for a number.
constexpr uint32_t kNoChunk = UINT32_MAX;
SpareChunk spare_for(const Slab& slab, uint64_t bytes) {
  SpareChunk none;
  none.chunk = kNoChunk;
  return slab.emptiest_chunk(bytes).value_or(none);
}

void free_all(Slab& slab, const std::vector<SlotRef>& refs) {
  for (const SlotRef ref : refs)
    EXPECT_EQ(*slab.free_if_unpinned(ref), FreeOutcome::kFreed);
}

TEST(SlabClasses, SizesOfOneStrideShareAChunk) {
  auto slab = make_slab(4 * kMiB);
  const SlotRef a = store(*slab, 961, 1);
  const SlotRef b = store(*slab, 1024, 2);
  EXPECT_EQ(a.chunk(), b.chunk());
  EXPECT_EQ(slab->pin(a)->bytes().size(), 961u);
  EXPECT_EQ(slab->pin(b)->bytes().size(), 1024u);
  EXPECT_EQ(slab->usage().stored_bytes, 961u + 1024u);
  EXPECT_NE(store(*slab, 1025, 3).chunk(), a.chunk());
  EXPECT_NE(store(*slab, 960, 3).chunk(), a.chunk());
  EXPECT_TRUE(slab->free(a));
  const SlotRef again = store(*slab, 1000, 4);
  ASSERT_EQ(again.index, a.index);
  EXPECT_EQ(slab->pin(again)->bytes().size(), 1000u);
}

TEST(SlabClasses, AChunkCostsItsMemoryItsDescriptionAndWhatIsKeptElsewhere) {
  for (const uint64_t bytes : {64u, 4096u, 60'000u}) {
    auto slab = make_slab(16 * kMiB, 300);
    const uint64_t before = slab->usage().used_bytes;
    const SlotRef ref = store(*slab, bytes, 1);
    const ChunkLayout layout = *slab->chunk_layout(ref.chunk());
    constexpr uint64_t kDescriptionBytes = 32;
    EXPECT_GE(slab->usage().used_bytes - before, layout.bytes + layout.slots * (kDescriptionBytes + 300));
  }
}

TEST(SlabClasses, AnEmptiedChunkIsCutAgainWhereItLies) {
  auto slab = make_slab(16 * kMiB, 100);
  const std::vector<SlotRef> small = fill_up(*slab, kSmall, 1);
  ASSERT_EQ(store(*slab, kLarge, 2), SlotRef{});
  std::vector<SlotRef> third = in_chunk(small, 3);
  const std::byte* const memory = address(*slab, third[0]);
  for (size_t i = 0; i < 7; ++i)
    ASSERT_TRUE(slab->free(third[i]));
  third.erase(third.begin(), third.begin() + 7);
  const SpareChunk spare = spare_for(*slab, kLarge);
  ASSERT_NE(spare.chunk, kNoChunk);
  EXPECT_EQ(spare.chunk, 3u);
  EXPECT_EQ(spare.slots, third);
  EXPECT_EQ(spare.stored_bytes, third.size() * kSmall);
  free_all(*slab, spare.slots);
  EXPECT_EQ(slab->usage().chunks_cut_again, 0u);
  const SlotRef large = store(*slab, kLarge, 2);
  ASSERT_NE(large, SlotRef{});
  EXPECT_EQ(slab->usage().chunks_cut_again, 1u);
  EXPECT_EQ(large.chunk(), spare.chunk);
  EXPECT_EQ(address(*slab, large), memory);
  EXPECT_TRUE(all_bytes_are(slab->pin(large)->bytes(), 2));
  for (const SlotRef ref : small) {
    const Result<Pinned> pinned = slab->pin(ref);
    ASSERT_EQ(pinned.has_value(), ref.chunk() != spare.chunk) << "a name from before the cut";
    EXPECT_TRUE(!pinned || all_bytes_are(pinned->bytes(), 1));
  }
  EXPECT_LE(slab->usage().used_bytes, slab->usage().budget_bytes);
}

// All that one stride has goes to the other and back, a chunk at a time.
TEST(SlabClasses, ABudgetMovesFromOneStrideToAnotherAndBack) {
  auto slab = make_slab(16 * kMiB, 100);
  std::vector<SlotRef> stored = fill_up(*slab, kSmall, 1);
  for (const uint64_t bytes : {kLarge, kSmall, kLarge}) {
    for (int rounds = 0; rounds < 1000; ++rounds) {
      const SpareChunk spare = spare_for(*slab, bytes);
      if (spare.chunk == kNoChunk) break;
      free_all(*slab, spare.slots);
      ASSERT_FALSE(fill_up(*slab, bytes, 2).empty()) << "an emptied chunk made no room";
      ASSERT_LE(slab->usage().used_bytes, slab->usage().budget_bytes);
    }
    EXPECT_GE(slab->usage().stored_bytes * 10, 16 * kMiB * 8) << bytes;
    EXPECT_FALSE(slab->emptiest_chunk(bytes));
  }
  EXPECT_GT(slab->usage().chunks_cut_again, 100u);
}

TEST(SlabClasses, TheEmptiestChunkHoldsLeastAndNothingHeld) {
  auto slab = make_slab(16 * kMiB);
  const std::vector<SlotRef> small = fill_up(*slab, kSmall, 1);
  const std::vector<SlotRef> third = in_chunk(small, 3);
  const std::vector<SlotRef> seventh = in_chunk(small, 7);
  for (size_t i = 0; i < 4; ++i)
    ASSERT_TRUE(slab->free(third[i]));
  for (size_t i = 0; i < 2; ++i)
    ASSERT_TRUE(slab->free(seventh[i]));
  EXPECT_EQ(spare_for(*slab, kLarge).chunk, 3u);
  {
    const Result<Pinned> pinned = slab->pin(third[5]);
    EXPECT_EQ(spare_for(*slab, kLarge).chunk, 7u) << "pinned";
    ASSERT_TRUE(slab->free(third[5]));
    EXPECT_EQ(spare_for(*slab, kLarge).chunk, 7u) << "doomed";
  }
  EXPECT_EQ(spare_for(*slab, kLarge).chunk, 3u);
  {
    const Result<Reserved> reserved = slab->reserve(kSmall);
    EXPECT_EQ(spare_for(*slab, kLarge).chunk, 7u) << "reserved";
  }
  EXPECT_EQ(spare_for(*slab, kLarge).chunk, 3u);
  EXPECT_FALSE(slab->emptiest_chunk(kSmall)) << "its own stride has nothing to spare for it";
  EXPECT_FALSE(slab->emptiest_chunk(0));
  EXPECT_FALSE(slab->emptiest_chunk(UINT64_MAX));
  std::vector<Pinned> pins;
  for (const SlotRef ref : small) {
    if (Result<Pinned> pinned = slab->pin(ref)) pins.push_back(std::move(*pinned));
  }
  EXPECT_FALSE(slab->emptiest_chunk(kLarge)) << "everything is pinned";
}

TEST(SlabClasses, AChunkThatWouldNotMakeRoomIsNotOffered) {
  auto slab = make_slab(16 * kMiB);
  fill_up(*slab, kSmall, 1);
  EXPECT_TRUE(slab->emptiest_chunk(200'000));
  EXPECT_FALSE(slab->emptiest_chunk(4 * kMiB));
}

// Cut into many small slots a chunk would cost more than before, for what is kept of each elsewhere: it goes back then.
TEST(SlabClasses, CuttingAgainStaysWithinTheBudget) {
  auto slab = make_slab(4 * kMiB, 500);
  const std::vector<SlotRef> large = fill_up(*slab, 60'000, 1);
  const SpareChunk spare = spare_for(*slab, 256);
  ASSERT_NE(spare.chunk, kNoChunk);
  free_all(*slab, spare.slots);
  EXPECT_NE(store(*slab, 256, 2), SlotRef{});
  EXPECT_EQ(slab->usage().chunks_cut_again, 0u);
  EXPECT_LE(slab->usage().used_bytes, slab->usage().budget_bytes);
}

// What was described before must not be taken for a slot of the new cut.
TEST(SlabClasses, FewerSlotsThanBeforeLeaveNoNames) {
  auto slab = make_slab(4 * kMiB);
  const std::vector<SlotRef> small = fill_up(*slab, 192, 1);
  for (size_t i = 0; i < 250; ++i)
    ASSERT_TRUE(slab->free(in_chunk(small, 3)[i]));
  const SpareChunk spare = spare_for(*slab, 30'000);
  ASSERT_NE(spare.chunk, kNoChunk);
  ASSERT_EQ(spare.chunk, 3u);
  free_all(*slab, spare.slots);
  const SlotRef large = store(*slab, 30'000, 2);
  ASSERT_EQ(slab->usage().chunks_cut_again, 1u);
  ASSERT_EQ(large.chunk(), spare.chunk);
  for (const SlotRef ref : in_chunk(small, 3)) {
    EXPECT_FALSE(slab->pin(ref));
    EXPECT_FALSE(slab->free(ref));
    EXPECT_EQ(slab->committed(ref.index).has_value(), ref.index == large.index);
  }
  free_all(*slab, {large});
  EXPECT_NE(fill_up(*slab, 192, 3).size(), 0u);
}

TEST(SlabTenants, AnotherTenantFindsZeros) {
  auto slab = make_slab(4 * kMiB);
  const SlotRef ref = store(*slab, 4096, 0x77, 1);
  ASSERT_TRUE(slab->free(ref));
  Result<Reserved> other = slab->reserve(4090, 2);
  ASSERT_TRUE(other);
  EXPECT_TRUE(all_bytes_are(other->bytes(), 0));
  EXPECT_EQ(slab->usage().cleared_bytes, 4096u);
  const SlotRef mine = slab->commit(std::move(*other), 0);
  ASSERT_EQ(mine.index, ref.index) << "the slot was not used again: the test shows nothing";
  ASSERT_TRUE(slab->free(mine));
  // The other tenant owns it now, and the first one pays in its turn.
  EXPECT_TRUE(slab->reserve(4090, 2));
  EXPECT_EQ(slab->usage().cleared_bytes, 4096u);
  EXPECT_TRUE(slab->reserve(4090, 1));
  EXPECT_EQ(slab->usage().cleared_bytes, 2 * 4096u);
}

// The positive twin: nothing is cleared for a tenant alone, however often its slots go round.
TEST(SlabTenants, TheSameTenantPaysNothing) {
  auto slab = make_slab(4 * kMiB);
  for (const uint32_t tenant : {0u, 5u}) {
    for (int i = 0; i < 100; ++i) {
      Result<Reserved> reserved = slab->reserve(tenant == 0 ? 4096 : 8192, tenant);
      ASSERT_TRUE(reserved);
      EXPECT_TRUE(i == 0 || all_bytes_are(reserved->bytes(), i - 1)) << "its own bytes were cleared";
      std::memset(reserved->bytes().data(), i, reserved->bytes().size());
      ASSERT_TRUE(slab->free(slab->commit(std::move(*reserved), 0)));
    }
  }
  EXPECT_EQ(slab->usage().cleared_bytes, 0u);
}

TEST(SlabTenants, AReservationThatWasGivenUpIsClearedToo) {
  auto slab = make_slab(4 * kMiB);
  {
    const Result<Reserved> reserved = slab->reserve(4096, 1);
    std::memset(reserved->bytes().data(), 0x77, 4096);
  }
  EXPECT_TRUE(all_bytes_are(slab->reserve(4096, 2)->bytes(), 0));
  EXPECT_EQ(slab->usage().cleared_bytes, 4096u);
}

TEST(SlabTenants, AChunkCutAgainRemembersWhoWroteThere) {
  for (const bool mixed : {false, true}) {
    auto slab = make_slab(4 * kMiB);
    std::vector<SlotRef> small = fill_up(*slab, kSmall, 0x77, 1);
    if (mixed) {
      ASSERT_TRUE(slab->free(small[1]));
      ASSERT_EQ(store(*slab, kSmall, 0x78, 2).index, small[1].index);
    }
    const uint64_t cleared = slab->usage().cleared_bytes;
    EXPECT_EQ(cleared, mixed ? stride_of(kSmall) : 0u);
    // Of the full chunks, the one that the second tenant wrote into.
    for (SlotRef ref : small) {
      if (ref.chunk() == small[1].chunk() && slab->committed(ref.index)) {
        ASSERT_TRUE(slab->free(*slab->committed(ref.index)));
      }
    }
    const Result<Reserved> own = slab->reserve(13'000, 1);
    ASSERT_TRUE(own);
    ASSERT_EQ(slab->usage().chunks_cut_again, 1u);
    EXPECT_EQ(slab->usage().cleared_bytes, cleared + (mixed ? stride_of(13'000) : 0));
    const Result<Reserved> other = slab->reserve(13'000, 3);
    ASSERT_TRUE(other);
    EXPECT_TRUE(all_bytes_are(other->bytes(), 0));
    EXPECT_EQ(slab->usage().cleared_bytes, cleared + (mixed ? 2 : 1) * stride_of(13'000));
  }
}

// A cut that leaves the end of the memory idle does not forget who wrote there.
TEST(SlabTenants, WhatLiesIdleBehindTheLastSlotIsNotForgotten) {
  auto slab = make_slab(4 * kMiB);
  std::vector<SlotRef> refs = fill_up(*slab, 13'000, 0x77, 1);
  const auto empty_one_for = [&](uint64_t bytes) {
    const SpareChunk spare = spare_for(*slab, bytes);
    free_all(*slab, spare.slots);
    return spare.chunk;
  };
  const uint32_t chunk = empty_one_for(60'000);
  const SlotRef whole = store(*slab, 60'000, 0x78, 2);  // leaves the end of 65,536 bytes as tenant 1 left it
  ASSERT_EQ(whole.chunk(), chunk);
  ASSERT_EQ(slab->usage().chunks_cut_again, 1u);
  ASSERT_TRUE(slab->free(whole));
  std::vector<Reserved> cut_small;
  while (slab->usage().chunks_cut_again < 2)
    cut_small.push_back(std::move(*slab->reserve(2048, 2)));
  while (cut_small.size() < 32)
    cut_small.push_back(std::move(*slab->reserve(2048, 2)));
  for (const Reserved& reserved : cut_small) {
    EXPECT_TRUE(std::none_of(reserved.bytes().begin(), reserved.bytes().end(),
                             [](std::byte byte) { return byte == std::byte{0x77}; }));
  }
}

// Memory that comes from the kernel is zero already.
TEST(SlabTenants, FreshMemoryIsNotClearedAgain) {
  auto slab = make_slab(4 * kMiB);
  ASSERT_TRUE(slab->free(store(*slab, 4096, 0x77, 1)));
  slab->trim();
  EXPECT_TRUE(all_bytes_are(slab->reserve(4096, 2)->bytes(), 0));
  EXPECT_EQ(slab->usage().cleared_bytes, 0u);
}

// Somebody else may have it mapped: an empty chunk is cut again for another stride, and none goes back.
TEST(SlabClasses, ChunksThatAreKeptAreCutAgain) {
  auto slab = std::move(*Slab::create({.budget_bytes = 8 << 20, .shareable = true, .keeps_chunks = true}));
  std::vector<SlotRef> refs;
  while (Result<Reserved> slot = slab->reserve(10'000))
    refs.push_back(slab->commit(std::move(*slot), 0));
  const uint64_t chunks = slab->usage().chunks;
  const uint64_t used = slab->usage().used_bytes;
  ASSERT_GT(chunks, 1u);
  for (const SlotRef ref : refs)
    EXPECT_TRUE(slab->free(ref));
  slab->trim();
  EXPECT_EQ(slab->usage().chunks, chunks);
  EXPECT_EQ(slab->usage().used_bytes, used);
  EXPECT_TRUE(slab->reserve(20'000));
  EXPECT_EQ(slab->usage().chunks, chunks);
  EXPECT_EQ(slab->usage().chunks_cut_again, 1u);
}

}  // namespace
}  // namespace rhizome
