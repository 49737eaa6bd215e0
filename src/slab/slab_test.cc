#include "slab/slab.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "machine/host.h"
#include "machine/random.h"
#include "slab/slab_fixture.h"

namespace rhizome {
namespace {

TEST(Slab, CommittedBytesAreReadAsWritten) {
  auto slab = make_slab(4 * kMiB);
  const SlotRef ref = store(*slab, 1000, 0x5A);
  const Result<Pinned> pinned = slab->pin(ref);
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pinned->bytes().size(), 1000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(pinned->bytes().data()) % 64, 0u);
  EXPECT_TRUE(all_bytes_are(pinned->bytes(), 0x5A));
  EXPECT_EQ(pinned->checksum(), 0x5Au);
  EXPECT_EQ(slab->usage().pinned_bytes, 1000u);
}

TEST(Slab, ReservedSlotIsInvisibleUntilCommit) {
  auto slab = make_slab(4 * kMiB);
  Result<Reserved> reserved = slab->reserve(512);
  ASSERT_TRUE(reserved);
  // The first slot of the first chunk in its first generation: named before it is committed.
  EXPECT_EQ(slab->pin({0, 1}).error().code, Code::kFailedPrecondition);
  EXPECT_FALSE(slab->committed(0));
  const SlotRef ref = slab->commit(std::move(*reserved), 7);
  EXPECT_EQ(ref, (SlotRef{0, 1}));
  EXPECT_TRUE(slab->pin(ref));
  EXPECT_EQ(*slab->committed(0), ref);
}

TEST(Slab, AbortedReservationLeavesNothing) {
  auto slab = make_slab(4 * kMiB);
  slab->trim();
  const uint64_t before = slab->usage().used_bytes;
  {
    const Result<Reserved> reserved = slab->reserve(4096);
  }
  EXPECT_EQ(slab->usage().reserved_slots, 0u);
  EXPECT_EQ(slab->usage().stored_bytes, 0u);
  slab->trim();
  EXPECT_EQ(slab->usage().used_bytes, before);
  EXPECT_EQ(slab->usage().chunks, 0u);
}

TEST(Slab, SizesThatAreNotOneAreRefused) {
  auto slab = make_slab(kMiB);
  EXPECT_EQ(slab->reserve(0).error().code, Code::kInvalidArgument);
  EXPECT_EQ(slab->reserve(kMiB + 1).error().code, Code::kResourceExhausted);
  EXPECT_EQ(slab->reserve(UINT64_MAX).error().code, Code::kResourceExhausted);
  EXPECT_EQ(Slab::create({.budget_bytes = 0}).error().code, Code::kInvalidArgument);
  EXPECT_EQ(Slab::create({.budget_bytes = 100}).error().code, Code::kInvalidArgument);
}

TEST(Slab, SecondFreeIsRefused) {
  auto slab = make_slab(4 * kMiB);
  const SlotRef ref = store(*slab, 4096, 1);
  EXPECT_TRUE(slab->free(ref));
  EXPECT_EQ(slab->free(ref).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(slab->usage().stored_bytes, 0u);
}

// R7: an old name of a slot that has a new owner.
TEST(Slab, StaleNameReachesNothingOfTheNewOwner) {
  auto slab = make_slab(4 * kMiB);
  const SlotRef old = store(*slab, 4096, 1);
  ASSERT_TRUE(slab->free(old));
  const SlotRef fresh = store(*slab, 4096, 2);
  ASSERT_EQ(fresh.index, old.index) << "the slot was not used again: the test shows nothing";
  EXPECT_EQ(slab->pin(old).error().code, Code::kFailedPrecondition);
  EXPECT_EQ(slab->free(old).error().code, Code::kFailedPrecondition);
  const Result<Pinned> pinned = slab->pin(fresh);
  ASSERT_TRUE(pinned);
  EXPECT_TRUE(all_bytes_are(pinned->bytes(), 2));
}

TEST(Slab, GenerationsOutliveTheirChunk) {
  auto slab = make_slab(4 * kMiB);
  const SlotRef old = store(*slab, 4096, 1);
  ASSERT_TRUE(slab->free(old));
  slab->trim();
  const SlotRef fresh = store(*slab, 256, 2);
  ASSERT_EQ(fresh.index, old.index);
  EXPECT_NE(fresh.generation, old.generation);
  EXPECT_FALSE(slab->pin(old));
}

// R2: every order of {free, release} with one and two holders frees once, at the last event.
TEST(Slab, FreedWithTheLastPinInEveryOrder) {
  for (int holders = 1; holders <= 2; ++holders) {
    std::vector<int> order;  // -1: free, otherwise release of that holder
    for (int i = -1; i < holders; ++i)
      order.push_back(i);
    do {
      auto slab = make_slab(4 * kMiB);
      const SlotRef ref = store(*slab, 4096, 3);
      std::vector<Pinned> pins;
      for (int i = 0; i < holders; ++i)
        pins.push_back(std::move(*slab->pin(ref)));
      for (size_t step = 0; step < order.size(); ++step) {
        EXPECT_EQ(slab->usage().stored_bytes, 4096u);
        if (order[step] < 0) {
          EXPECT_TRUE(slab->free(ref));
          EXPECT_FALSE(slab->free(ref));
          EXPECT_FALSE(slab->pin(ref)) << "a doomed slot was pinned again";
        } else {
          pins[static_cast<size_t>(order[step])].release();
        }
      }
      EXPECT_EQ(slab->usage().stored_bytes, 0u);
      EXPECT_EQ(slab->usage().pinned_bytes, 0u);
      EXPECT_EQ(slab->usage().doomed_slots, 0u);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

// R4: all are freed while a reader stands on one of them.
TEST(Slab, ReaderKeepsItsBytesWhenAllAreFreed) {
  auto slab = make_slab(4 * kMiB);
  std::vector<SlotRef> refs;
  for (int i = 0; i < 5; ++i)
    refs.push_back(store(*slab, 4096, i + 1));
  Result<Pinned> reader = slab->pin(refs[3]);
  for (const SlotRef ref : refs)
    EXPECT_TRUE(slab->free(ref));
  EXPECT_EQ(slab->usage().stored_bytes, 4096u);
  for (int i = 0; i < 8; ++i)
    store(*slab, 4096, 0x77);
  EXPECT_TRUE(all_bytes_are(reader->bytes(), 4));
  reader->release();
  EXPECT_EQ(slab->usage().stored_bytes, 8 * 4096u);
}

TEST(Slab, FillsAtLeastNineTenthsOfItsBudget) {
  for (const uint64_t bytes : {24768ull, 377024ull, 1100000ull}) {
    auto slab = make_slab(64 * kMiB, 300);
    while (store(*slab, bytes, 1) != SlotRef{}) {
    }
    const SlabUsage usage = slab->usage();
    EXPECT_LE(usage.used_bytes, usage.budget_bytes);
    EXPECT_GE(usage.stored_bytes * 10, usage.budget_bytes * 9) << bytes;
  }
}

// Sanitizers keep shadow memory, which is resident too.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

TEST(Slab, ResidentMemoryFollowsUse) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is resident too";
  const uint64_t start = *process_rss_bytes(own_pid());
  auto slab = make_slab(256 * kMiB);
  EXPECT_LT(*process_rss_bytes(own_pid()), start + 8 * kMiB) << "memory is spent before it is used";
  std::vector<SlotRef> refs;
  while (slab->usage().stored_bytes < 64 * kMiB)
    refs.push_back(store(*slab, 24768, 1));
  const uint64_t full = *process_rss_bytes(own_pid());
  EXPECT_GT(full, start + 60 * kMiB);
  EXPECT_LT(full, start + 80 * kMiB);
  for (const SlotRef ref : refs)
    ASSERT_TRUE(slab->free(ref));
  EXPECT_LT(*process_rss_bytes(own_pid()), start + 16 * kMiB) << "memory does not come back";
}

// Slots as small as their descriptions: what describes them goes with its chunk.
TEST(Slab, DescriptionsAreGivenBackToo) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is resident too";
  auto slab = make_slab(96 * kMiB);
  const uint64_t start = *process_rss_bytes(own_pid());
  for (std::vector<SlotRef> refs = fill_up(*slab, 64, 1); !refs.empty(); refs.pop_back())
    ASSERT_TRUE(slab->free(refs.back()));
  slab->trim();
  EXPECT_LT(*process_rss_bytes(own_pid()), start + 10 * kMiB);
}

// Two models one after the other: the second must not find the memory cut for the first.
TEST(Slab, MemoryMovesFromOneSizeToAnother) {
  auto slab = make_slab(16 * kMiB);
  for (const uint64_t bytes : {24768ull, 377024ull, 1920ull, 24768ull}) {
    std::vector<SlotRef> refs;
    for (SlotRef ref = store(*slab, bytes, 1); ref != SlotRef{}; ref = store(*slab, bytes, 1))
      refs.push_back(ref);
    EXPECT_GE(slab->usage().stored_bytes * 10, 16 * kMiB * 8) << bytes;
    for (const SlotRef ref : refs)
      ASSERT_TRUE(slab->free(ref));
  }
}

TEST(Slab, ChargesCountAgainstTheBudget) {
  auto slab = make_slab(4 * kMiB);
  EXPECT_TRUE(slab->can_ever_hold(3 * kMiB));
  EXPECT_TRUE(slab->charge(2 * kMiB));
  EXPECT_FALSE(slab->can_ever_hold(3 * kMiB));
  EXPECT_EQ(slab->reserve(3 * kMiB).error().code, Code::kResourceExhausted);
  EXPECT_EQ(slab->charge(2 * kMiB).error().code, Code::kResourceExhausted);
  // An empty chunk that was kept makes room for a charge.
  {
    const Result<Reserved> reserved = slab->reserve(kMiB);
  }
  EXPECT_TRUE(slab->charge(kMiB + kMiB / 2));
}

// What demotion stands on: looking at the pins and freeing are one step.
TEST(Slab, FreedOnlyWhileNobodyElsePins) {
  for (const uint32_t own : {0u, 1u}) {
    for (const uint32_t others : {0u, 1u, 2u}) {
      auto slab = make_slab(4 * kMiB);
      const SlotRef ref = store(*slab, 4096, 9);
      std::vector<Pinned> pins;
      for (uint32_t i = 0; i < own + others; ++i)
        pins.push_back(std::move(*slab->pin(ref)));
      EXPECT_EQ(*slab->pins(ref), own + others);
      const Result<FreeOutcome> outcome = slab->free_if_unpinned(ref, own);
      ASSERT_TRUE(outcome);
      EXPECT_EQ(*outcome, others == 0 ? FreeOutcome::kFreed : FreeOutcome::kPinned);
      if (others > 0) {
        EXPECT_EQ(*slab->pins(ref), own + others);
        EXPECT_TRUE(slab->pin(ref)) << "the refusal changed something";
        EXPECT_TRUE(slab->free(ref));
      }
      EXPECT_FALSE(slab->pin(ref));
      EXPECT_FALSE(slab->pins(ref));
      EXPECT_EQ(slab->free_if_unpinned(ref, own).error().code, Code::kFailedPrecondition);
      EXPECT_EQ(slab->usage().stored_bytes, own + others > 0 ? 4096u : 0u);
      for (const Pinned& pinned : pins)
        EXPECT_TRUE(all_bytes_are(pinned.bytes(), 9));
      pins.clear();
      expect_drained(*slab);
    }
  }
}

TEST(Slab, NamesThatWereNeverGivenOutAreStale) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  auto slab = make_slab(4 * kMiB);
  const SlotRef ref = store(*slab, 4096, 1);
  std::vector<SlotRef> wrong = {{}, {UINT32_MAX, UINT32_MAX}, {ref.index + 1, 1}, {0xFFFF, 1}, {0xFFFF0000, 1}};
  for (const uint32_t generation : {ref.generation - 1, ref.generation + 1, ref.generation | 1u << 31})
    wrong.push_back({ref.index, generation});
  for (int i = 0; i < 10000; ++i)
    wrong.push_back({static_cast<uint32_t>(random()) | 1, static_cast<uint32_t>(random())});
  for (const SlotRef name : wrong) {
    EXPECT_EQ(slab->pin(name).error().code, Code::kFailedPrecondition);
    EXPECT_EQ(slab->pins(name).error().code, Code::kFailedPrecondition);
    EXPECT_EQ(slab->free(name).error().code, Code::kFailedPrecondition);
    EXPECT_EQ(slab->free_if_unpinned(name).error().code, Code::kFailedPrecondition);
    EXPECT_EQ(slab->committed(name.index).has_value(), name.index == ref.index);
  }
  EXPECT_EQ(*slab->pins(ref), 0u);
}

TEST(Slab, PinnedBytesCountEachSlotOnce) {
  auto slab = make_slab(4 * kMiB);
  const SlotRef a = store(*slab, 1000, 1);
  const SlotRef b = store(*slab, 5000, 2);
  Result<Pinned> first = slab->pin(a);
  Result<Pinned> second = slab->pin(a);
  const Result<Pinned> third = slab->pin(b);
  EXPECT_EQ(slab->usage().pinned_bytes, 6000u);
  first->release();
  EXPECT_EQ(slab->usage().pinned_bytes, 6000u);
  second->release();
  EXPECT_EQ(slab->usage().pinned_bytes, 5000u);
}

TEST(Slab, ChunksOfOneProcessHaveNoDescriptor) {
  auto slab = make_slab(4 * kMiB);
  EXPECT_EQ(slab->chunk_layout(0).error().code, Code::kNotFound);
  const SlotRef ref = store(*slab, 1000, 1);
  EXPECT_EQ(slab->chunk_layout(ref.chunk())->descriptor, -1);
  EXPECT_EQ(slab->chunk_layout(UINT32_MAX).error().code, Code::kNotFound);
}

// Who has the descriptor and the layout reads the bytes of every slot.
TEST(Slab, ShareableChunksAreReadThroughTheirDescriptor) {
  for (const uint64_t budget : {4 * kMiB, 256 * kMiB}) {
    auto slab = make_slab(budget, 0, true);
    std::vector<SlotRef> refs;
    for (int i = 0; i < 200; ++i)
      refs.push_back(store(*slab, 10'000, i));
    for (int i = 0; i < 200; ++i) {
      const SlotRef ref = refs[static_cast<size_t>(i)];
      const Result<ChunkLayout> layout = slab->chunk_layout(ref.chunk());
      ASSERT_TRUE(layout);
      ASSERT_LT(ref.place(), layout->slots);
      ASSERT_LE(layout->slots * layout->stride, layout->bytes);
      std::vector<std::byte> bytes(10'000);
      const auto offset = static_cast<off_t>(ref.place() * layout->stride);
      ASSERT_EQ(::pread(layout->descriptor, bytes.data(), bytes.size(), offset), 10'000);
      EXPECT_TRUE(all_bytes_are(bytes, i));
    }
    for (const SlotRef ref : refs)
      EXPECT_TRUE(slab->free(ref));
    expect_drained(*slab);
    EXPECT_EQ(slab->chunk_layout(refs[0].chunk()).error().code, Code::kNotFound);
  }
}

TEST(Slab, ABudgetBeyondAllMachinesIsRefused) {
  EXPECT_EQ(Slab::create({.budget_bytes = UINT64_MAX}).error().code, Code::kInvalidArgument);
}

TEST(SlabDeathTest, APinThatOutlivesTheSlabIsAMistake) {
  EXPECT_DEATH(
      {
        auto slab = make_slab(4 * kMiB);
        const SlotRef ref = store(*slab, 4096, 1);
        const Result<Pinned> pinned = slab->pin(ref);
        slab.reset();
      },
      "check failed");
}

// What is free is what could still be had: slots of chunks that are there, and chunks.
TEST(SlabFree, CountsSlotsAndChunks) {
  auto slab = std::move(*Slab::create({.budget_bytes = 8 << 20, .overhead_bytes = 100}));
  const uint64_t free_at_first = slab->usage().free_bytes;
  EXPECT_EQ(free_at_first, slab->usage().budget_bytes - slab->usage().used_bytes);
  std::vector<Reserved> held;
  while (auto slot = slab->reserve(held.size() % 2 == 0 ? 10000 : 64000)) {
    held.push_back(std::move(*slot));
    const SlabUsage usage = slab->usage();
    ASSERT_GE(usage.free_bytes + usage.stored_bytes, usage.budget_bytes - usage.used_bytes + usage.stored_bytes);
    ASSERT_LE(usage.free_bytes + usage.stored_bytes, usage.budget_bytes);
  }
  EXPECT_LT(slab->usage().free_bytes, 200000u);
  held.clear();
  slab->trim();
  EXPECT_EQ(slab->usage().free_bytes, free_at_first);
}

}  // namespace
}  // namespace rhizome
