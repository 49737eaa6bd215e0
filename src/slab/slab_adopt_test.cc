// Chunks that an earlier slab has filled, taken over by another one.
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "machine/random.h"
#include "slab/slab_fixture.h"

namespace rhizome {
namespace {

constexpr uint64_t kSlotBytes = 5000;
constexpr uint64_t kStride = 5056;

class Kept final : public MemoryKeeper {
 public:
  void keep(KeptKind, uint32_t number, const Mapping&) override { kept.push_back(number); }
  void drop(KeptKind, uint32_t number) override { dropped.push_back(number); }
  std::vector<uint32_t> kept;
  std::vector<uint32_t> dropped;
};

class SlabAdopt : public testing::Test {
 protected:
  std::unique_ptr<Slab> make(uint64_t budget_bytes, uint32_t adopted = 0) {
    auto slab = Slab::create({.budget_bytes = budget_bytes,
                              .shareable = true,
                              .keeps_chunks = true,
                              .keeper = &keeper_,
                              .adopted_chunks_max = adopted});
    EXPECT_TRUE(slab);
    return std::move(*slab);
  }
  static Mapping again(const Slab& slab, uint32_t chunk) {
    const ChunkLayout layout = *slab.chunk_layout(chunk);
    return std::move(*Mapping::adopt_shared(Descriptor(::fcntl(layout.descriptor, F_DUPFD_CLOEXEC, 0)), layout.bytes));
  }
  static AdoptedSlot slot_at(const Slab& slab, SlotRef ref, uint64_t bytes = kSlotBytes) {
    const BlockPlace place = slab.place(ref);
    return {uint64_t{place.unit} * BlockPlace::kUnitBytes, bytes, place.checksum};
  }

  Kept keeper_;
};

TEST_F(SlabAdopt, SlotsAreReadWhereTheyAre) {
  auto former = make(4 * kMiB);
  std::vector<AdoptedSlot> slots;
  for (int fill = 1; fill <= 5; ++fill)
    slots.push_back(slot_at(*former, store(*former, kSlotBytes, fill)));
  EXPECT_EQ(keeper_.kept, std::vector<uint32_t>{0});
  Mapping memory = again(*former, 0);
  const Mapping::FileNumber file = memory.file_number();
  former.reset();
  auto slab = make(4 * kMiB, 1);
  const uint64_t used_before = slab->usage().used_bytes;
  const auto refs = slab->adopt(std::move(memory), slots);
  ASSERT_TRUE(refs);
  for (int fill = 1; fill <= 5; ++fill) {
    const SlotRef ref = (*refs)[static_cast<size_t>(fill) - 1];
    const Pinned pinned = std::move(*slab->pin(ref));
    EXPECT_EQ(pinned.bytes().size(), kSlotBytes);
    EXPECT_TRUE(all_bytes_are(pinned.bytes(), fill));
    EXPECT_EQ(pinned.checksum(), static_cast<uint64_t>(fill));
    EXPECT_EQ(slot_at(*slab, ref).offset, slots[static_cast<size_t>(fill) - 1].offset);
  }
  const SlabUsage usage = slab->usage();
  EXPECT_EQ(usage.committed_slots, 5u);
  EXPECT_EQ(usage.stored_bytes, 5 * kSlotBytes);
  EXPECT_EQ(usage.adopted_chunks, 1u);
  EXPECT_GT(usage.used_bytes, used_before);
  const Mapping handed = again(*slab, refs->front().chunk());
  EXPECT_EQ(handed.file_number(), file) << "others are given the same memory";

  // What is freed is not handed out again, and the chunk goes with the last of them, once nobody pins it.
  EXPECT_TRUE(slab->free((*refs)[0]));
  const SlotRef fresh = store(*slab, kSlotBytes, 9);
  EXPECT_NE(fresh.chunk(), refs->front().chunk());
  EXPECT_EQ(slab->adopted_slots_used(refs->front().chunk()), 4u);
  Pinned last = std::move(*slab->pin((*refs)[4]));
  for (size_t i = 1; i < 5; ++i)
    EXPECT_TRUE(slab->free((*refs)[i]));
  EXPECT_EQ(slab->usage().adopted_chunks, 1u);
  EXPECT_TRUE(all_bytes_are(last.bytes(), 5));
  last.release();
  EXPECT_EQ(slab->usage().adopted_chunks, 0u);
  EXPECT_EQ(slab->usage().retired_chunks, 1u);
  EXPECT_EQ(keeper_.dropped, std::vector<uint32_t>{refs->front().chunk()});
  EXPECT_EQ(slab->chunk_layout(refs->front().chunk()).error().code, Code::kNotFound);
  EXPECT_FALSE(slab->pin((*refs)[1])) << "an old name";
  for (const SlotRef ref : fill_up(*slab, kSlotBytes, 3))
    EXPECT_NE(ref.chunk(), refs->front().chunk()) << "its number is not used again";
}

TEST_F(SlabAdopt, RoomForOneChunkIsLeft) {
  auto former = make(4 * kMiB);
  std::vector<std::vector<AdoptedSlot>> chunks;
  for (const SlotRef ref : fill_up(*former, kSlotBytes, 1)) {
    chunks.resize(std::max<size_t>(chunks.size(), ref.chunk() + 1));
    chunks[ref.chunk()].push_back(slot_at(*former, ref));
  }
  auto slab = make(4 * kMiB, static_cast<uint32_t>(chunks.size()));
  std::vector<SlotRef> refs;
  size_t adopted = 0;
  for (uint32_t number = 0; number < chunks.size(); ++number) {
    const auto these = slab->adopt(again(*former, number), chunks[number]);
    if (!these) {
      EXPECT_EQ(these.error().code, Code::kResourceExhausted);
      continue;
    }
    ++adopted;
    refs.insert(refs.end(), these->begin(), these->end());
  }
  EXPECT_EQ(adopted, chunks.size()) << "the former slab has left the room for it";
  EXPECT_LE(slab->usage().used_bytes, slab->usage().budget_bytes);
  // All blocks move, in the room that is left to this alone.
  fill_up(*slab, kSlotBytes, 2);
  EXPECT_FALSE(slab->reserve(kSlotBytes));
  std::vector<SlotRef> moved;
  for (const SlotRef ref : refs) {
    Result<Reserved> room = slab->reserve(kSlotBytes, 0, Slab::Room::kWithHeadroom);
    ASSERT_TRUE(room) << moved.size() << " of " << refs.size();
    moved.push_back(slab->commit(std::move(*room), 7));
    EXPECT_TRUE(slab->free(ref));
    EXPECT_LE(slab->usage().used_bytes, slab->usage().budget_bytes);
  }
  EXPECT_EQ(slab->usage().adopted_chunks, 0u);
  for (const SlotRef ref : moved)
    EXPECT_TRUE(slab->free(ref));
}

TEST_F(SlabAdopt, PlacesThatNoChunkHasAreRefused) {
  auto former = make(4 * kMiB);
  const SlotRef ref = store(*former, kSlotBytes, 1);
  const uint64_t bytes = former->chunk_layout(0)->bytes;
  auto slab = make(4 * kMiB, 1);
  const std::vector<std::vector<AdoptedSlot>> wrong = {
      {},
      {{0, 0, 1}},
      {{0, bytes + 1, 1}},
      {{64, kSlotBytes, 1}},
      {{bytes / kStride * kStride, kSlotBytes, 1}},
      {{UINT64_MAX / kStride * kStride, kSlotBytes, 1}},
      {{0, kSlotBytes, 1}, {0, kSlotBytes, 1}},
      {{0, kSlotBytes, 1}, {kStride, 64, 1}},
      {{uint64_t{kStride} << 16, kSlotBytes, 1}},
  };
  for (const auto& slots : wrong)
    EXPECT_EQ(slab->adopt(again(*former, 0), slots).error().code, Code::kInvalidArgument);
  EXPECT_EQ(slab->usage().chunks, 0u);
  const std::vector<AdoptedSlot> right = {slot_at(*former, ref)};
  EXPECT_TRUE(slab->adopt(again(*former, 0), right));
}

}  // namespace
}  // namespace rhizome
