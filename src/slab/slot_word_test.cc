#include "slab/slot_word.h"

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(SlotWord, KeepsWhatItIsToldAtEveryExtreme) {
  SlotWord word;
  EXPECT_EQ(word.view(), SlotView{});
  for (const uint32_t generation : {0u, 1u, UINT32_MAX}) {
    for (const SlotState state : {SlotState::kFree, SlotState::kReserved, SlotState::kCommitted, SlotState::kDoomed}) {
      for (const uint32_t pins : {0u, 1u, SlotWord::kPinsMax}) {
        const SlotView view{.generation = generation, .state = state, .pins = pins};
        word.publish(view);
        EXPECT_EQ(word.view(), view);
      }
    }
  }
}

// Every event in every state: only a committed word of the right generation takes a pin.
TEST(SlotWord, OnlyACommittedWordOfThatGenerationIsPinned) {
  for (const SlotState state : {SlotState::kFree, SlotState::kReserved, SlotState::kCommitted, SlotState::kDoomed}) {
    for (const uint32_t generation : {6u, 7u, 8u}) {
      for (const uint32_t pins : {0u, 3u, SlotWord::kPinsMax}) {
        SlotWord word;
        const SlotView before{.generation = 7, .state = state, .pins = pins};
        word.publish(before);
        const PinOutcome outcome = word.add_pin(generation);
        SlotView after = before;
        if (state != SlotState::kCommitted || generation != 7) {
          EXPECT_EQ(outcome, PinOutcome::kStale);
        } else if (pins == SlotWord::kPinsMax) {
          EXPECT_EQ(outcome, PinOutcome::kTooMany);
        } else {
          EXPECT_EQ(outcome, pins == 0 ? PinOutcome::kFirstPin : PinOutcome::kPinned);
          ++after.pins;
        }
        EXPECT_EQ(word.view(), after);
      }
    }
  }
}

TEST(SlotWord, DroppingAPinSaysWhatWasThere) {
  SlotWord word;
  const SlotView doomed{.generation = UINT32_MAX, .state = SlotState::kDoomed, .pins = 2};
  word.publish(doomed);
  EXPECT_EQ(word.drop_pin(), doomed);
  EXPECT_EQ(word.drop_pin().pins, 1u);
  EXPECT_EQ(word.view(), (SlotView{.generation = UINT32_MAX, .state = SlotState::kDoomed, .pins = 0}));
}

TEST(SlotWord, ExchangesOnlyWhatIsStillThere) {
  SlotWord word;
  const SlotView committed{.generation = 3, .state = SlotState::kCommitted, .pins = 1};
  const SlotView doomed{.generation = 3, .state = SlotState::kDoomed, .pins = 1};
  word.publish(committed);
  SlotView expected{.generation = 3, .state = SlotState::kCommitted, .pins = 0};
  EXPECT_FALSE(word.exchange(expected, doomed));
  EXPECT_EQ(expected, committed) << "what is there instead";
  EXPECT_TRUE(word.exchange(expected, doomed));
  EXPECT_EQ(word.view(), doomed);
}

}  // namespace
}  // namespace rhizome
