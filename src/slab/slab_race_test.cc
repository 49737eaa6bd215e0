#include "concurrency/race_point.h"

#if defined(RHIZOME_RACE_POINTS) && RHIZOME_RACE_POINTS

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/thread.h"
#include "slab/slab.h"
#include "slab/slab_fixture.h"

namespace rhizome {
namespace {

// One thread is held between looking at a slot's word and changing it, or between two such changes, while another one
// passes it.
class SlabRace : public testing::Test {
 protected:
  // Pins `ref` in another thread, which is held before its swap while `meanwhile` runs here.
  Result<Pinned> pin_around(SlotRef ref, const std::function<void()>& meanwhile) {
    Result<Pinned> pinned = fail(Code::kUnknown, "");
    {
      RaceHold hold("slab.pin.before_swap");
      const Thread reader = std::move(*start_thread("reader", [&] { pinned = slab_->pin(ref); }));
      hold.wait_reached();
      meanwhile();
      hold.let_go();
    }
    return pinned;
  }

  std::unique_ptr<Slab> slab_ = make_slab(4 * kMiB);
  const SlotRef ref_ = store(*slab_, 4096, 1);
};

TEST_F(SlabRace, ASlotFreedBeforeTheSwapIsStale) {
  EXPECT_EQ(pin_around(ref_, [&] { EXPECT_TRUE(slab_->free(ref_)); }).error().code, Code::kFailedPrecondition);
  expect_drained(*slab_);
}

TEST_F(SlabRace, ASlotThatWentRoundBeforeTheSwapIsNotThePinnersAnyMore) {
  SlotRef fresh;
  const Result<Pinned> pinned = pin_around(ref_, [&] {
    EXPECT_TRUE(slab_->free(ref_));
    fresh = store(*slab_, 4096, 2);
  });
  EXPECT_FALSE(pinned);
  ASSERT_EQ(fresh.index, ref_.index) << "the slot was not used again: the test shows nothing";
  EXPECT_EQ(*slab_->pins(fresh), 0u) << "a stranger's slot was pinned";
}

TEST_F(SlabRace, AChunkThatIsGoneBeforeTheSwapIsStale) {
  EXPECT_FALSE(pin_around(ref_, [&] {
    EXPECT_TRUE(slab_->free(ref_));
    slab_->trim();
  }));
  expect_drained(*slab_);
}

TEST_F(SlabRace, AnotherPinBeforeTheSwapIsCountedToo) {
  Result<Pinned> first;
  {
    Result<Pinned> second = pin_around(ref_, [&] { first = slab_->pin(ref_); });
    ASSERT_TRUE(second);
    EXPECT_EQ(*slab_->pins(ref_), 2u);
    EXPECT_EQ(slab_->usage().pinned_bytes, 4096u);
  }
  EXPECT_EQ(*slab_->pins(ref_), 1u);
  first->release();
  EXPECT_EQ(*slab_->pins(ref_), 0u);
  EXPECT_EQ(slab_->usage().pinned_bytes, 0u);
}

TEST_F(SlabRace, ADoomedSlotIsNotPinned) {
  Result<Pinned> holder = slab_->pin(ref_);
  EXPECT_FALSE(pin_around(ref_, [&] { EXPECT_TRUE(slab_->free(ref_)); }));
  holder->release();
  expect_drained(*slab_);
}

// Demotion looks and frees in one step: the reader that comes a moment later is told so.
TEST_F(SlabRace, AnUnpinnedSlotIsFreedBeforeTheSwapOrNotAtAll) {
  Result<Pinned> own = slab_->pin(ref_);
  EXPECT_FALSE(pin_around(ref_, [&] { EXPECT_EQ(*slab_->free_if_unpinned(ref_, 1), FreeOutcome::kFreed); }));
  own->release();
  expect_drained(*slab_);
}

TEST_F(SlabRace, APinBeforeTheFreeKeepsTheSlot) {
  Result<Pinned> other;
  Result<Pinned> own = pin_around(ref_, [&] {
    other = slab_->pin(ref_);
    EXPECT_EQ(*slab_->free_if_unpinned(ref_), FreeOutcome::kPinned);
  });
  ASSERT_TRUE(own);
  EXPECT_EQ(*slab_->free_if_unpinned(ref_, 1), FreeOutcome::kPinned);
  EXPECT_EQ(*slab_->pins(ref_), 2u);
}

TEST_F(SlabRace, APinTakenWhileASlotIsFreedKeepsTheBytes) {
  Result<Pinned> pinned;
  {
    RaceHold hold("slab.free.before_swap");
    const Thread freer = std::move(*start_thread("freer", [&] { EXPECT_TRUE(slab_->free(ref_)); }));
    hold.wait_reached();
    pinned = slab_->pin(ref_);
    hold.let_go();
  }
  ASSERT_TRUE(pinned);
  EXPECT_EQ(slab_->usage().doomed_slots, 1u);
  const SlotRef fresh = store(*slab_, 4096, 2);
  EXPECT_TRUE(all_bytes_are(pinned->bytes(), 1));
  pinned->release();
  EXPECT_TRUE(slab_->free(fresh));
  expect_drained(*slab_);
}

TEST_F(SlabRace, APinTakenWhileItIsLookedForKeepsTheSlot) {
  Result<Pinned> pinned;
  {
    RaceHold hold("slab.free.before_swap");
    const Thread freer =
        std::move(*start_thread("freer", [&] { EXPECT_EQ(*slab_->free_if_unpinned(ref_), FreeOutcome::kPinned); }));
    hold.wait_reached();
    pinned = slab_->pin(ref_);
    hold.let_go();
  }
  ASSERT_TRUE(pinned);
  EXPECT_EQ(*slab_->pins(ref_), 1u);
}

// A chunk is on its way when a slot becomes free in another one: it stands empty, and must be known to.
TEST_F(SlabRace, AChunkThatCameTooLateIsGivenBack) {
  std::vector<SlotRef> refs;
  while (slab_->usage().chunks == 1)
    refs.push_back(store(*slab_, 4096, 2));
  ASSERT_TRUE(slab_->free(refs.back()));
  slab_->trim();
  ASSERT_EQ(slab_->usage().chunks, 1u);
  {
    RaceHold hold("slab.reserve.before_attach");
    const Thread taker = std::move(*start_thread("taker", [&] { refs.back() = store(*slab_, 4096, 3); }));
    hold.wait_reached();
    EXPECT_TRUE(slab_->free(ref_));
    hold.let_go();
  }
  EXPECT_EQ(refs.back().index, ref_.index);
  EXPECT_EQ(slab_->usage().chunks, 2u);
  slab_->trim();
  EXPECT_EQ(slab_->usage().chunks, 1u);
  for (const SlotRef ref : refs)
    EXPECT_TRUE(slab_->free(ref));
  expect_drained(*slab_);
}

// The last pin is gone and its slot not yet free: nobody gets it, and it still counts.
TEST_F(SlabRace, ADoomedSlotWithoutPinsIsItsLastReleases) {
  Result<Pinned> pinned = slab_->pin(ref_);
  ASSERT_TRUE(slab_->free(ref_));
  SlotRef fresh;
  {
    RaceHold hold("slab.release.before_free");
    const Thread releaser = std::move(*start_thread("releaser", [&] { pinned->release(); }));
    hold.wait_reached();
    EXPECT_EQ(slab_->usage().doomed_slots, 1u);
    EXPECT_EQ(slab_->usage().stored_bytes, 4096u);
    EXPECT_EQ(slab_->usage().pinned_bytes, 0u);
    EXPECT_FALSE(slab_->pin(ref_));
    EXPECT_FALSE(slab_->free(ref_));
    EXPECT_FALSE(slab_->committed(ref_.index));
    slab_->trim();
    fresh = store(*slab_, 4096, 2);
    EXPECT_NE(fresh.index, ref_.index);
    hold.let_go();
  }
  EXPECT_TRUE(slab_->free(fresh));
  expect_drained(*slab_);
}

}  // namespace
}  // namespace rhizome

#endif
