#include "engine/llama/single_flight.h"

#include <gtest/gtest.h>

#include "engine/llama/test_tokens.h"

namespace rhizome {
namespace {

constexpr VariantId kVariant = 1;
constexpr uint32_t kWorth = 8;

class SingleFlightTest : public testing::Test {
 protected:
  void wants(int64_t seq, std::vector<Token> prompt) {
    sequences_.at(seq).prompt = std::move(prompt);
    sequences_.at(seq).variant = kVariant;
    sequences_.at(seq).in_prompt = true;
  }

  bool should_wait(int64_t seq, uint32_t available = 0, uint32_t unit = 1, uint32_t worth = kWorth) {
    return flight_.should_wait(seq, sequences_.at(seq).prompt, kVariant, available, unit, worth);
  }

  SequenceTable sequences_{4};
  SingleFlight flight_{sequences_};
  const std::vector<Token> shared_ = random_tokens(1, 100);
};

TEST_F(SingleFlightTest, NobodyWaitsForNobody) {
  wants(0, shared_);
  EXPECT_FALSE(should_wait(0));
  flight_.claim(0);
  EXPECT_FALSE(should_wait(0)) << "not for itself either";
}

TEST_F(SingleFlightTest, WaitsForAClaimOfTheSamePrefixUntilItsBatch) {
  wants(0, join(shared_, random_tokens(2, 10)));
  wants(1, join(shared_, random_tokens(3, 10)));
  EXPECT_FALSE(should_wait(1));
  flight_.claim(0);
  EXPECT_TRUE(should_wait(1));
  flight_.begin_batch();
  EXPECT_FALSE(should_wait(1)) << "a claim must never outlive its batch";
}

TEST_F(SingleFlightTest, TakesOverWhenNoBatchCame) {
  for (int64_t seq = 0; seq < 3; ++seq)
    wants(seq, shared_);
  flight_.claim(0);
  EXPECT_TRUE(should_wait(1));
  EXPECT_TRUE(should_wait(2));
  // Sequence 0 took no part: nothing was computed, and everybody is asked again.
  EXPECT_FALSE(should_wait(1));
  flight_.claim(1);
  EXPECT_TRUE(should_wait(2)) << "for the one that took over";
  flight_.begin_batch();
  EXPECT_FALSE(should_wait(2));
}

TEST_F(SingleFlightTest, WaitsOnlyForMoreThanThereIsAlready) {
  wants(0, shared_);
  wants(1, shared_);
  const auto waits = [this](uint32_t available, uint32_t unit, uint32_t worth) {
    flight_.begin_batch();
    flight_.claim(0);
    return should_wait(1, available, unit, worth);
  };
  EXPECT_TRUE(waits(91, 1, kWorth));
  EXPECT_FALSE(waits(92, 1, kWorth)) << "eight tokens more are not worth a round of batches";
  EXPECT_TRUE(waits(95, 1, 0));
  EXPECT_FALSE(waits(100, 1, 0));
  // In units of 16 the owner gives 96 of the 100.
  EXPECT_TRUE(waits(95, 16, 0));
  EXPECT_FALSE(waits(96, 16, 0));
}

TEST_F(SingleFlightTest, DoesNotWaitForAnotherPromptOrRowsItMayNotHave) {
  wants(0, random_tokens(5, 100));
  wants(1, shared_);
  flight_.claim(0);
  EXPECT_FALSE(should_wait(1));

  const auto claimed_by_like = [this](auto change) {
    flight_.begin_batch();
    sequences_.reset(0);
    wants(0, shared_);
    change(sequences_.at(0));
    flight_.claim(0);
    return should_wait(1);
  };
  EXPECT_TRUE(claimed_by_like([](Sequence&) {}));
  EXPECT_FALSE(claimed_by_like([](Sequence& owner) { owner.variant = kVariant + 1; }));
  EXPECT_FALSE(claimed_by_like([](Sequence& owner) { owner.bypass = true; }));
  EXPECT_FALSE(claimed_by_like([](Sequence& owner) { owner.tainted = true; }));
}

TEST_F(SingleFlightTest, AnyOfSeveralOwnersWillDo) {
  wants(0, random_tokens(5, 100));
  wants(1, shared_);
  wants(2, shared_);
  flight_.claim(0);
  flight_.claim(1);
  EXPECT_TRUE(should_wait(2));
}

// The prompt of sequence 0 takes several batches. Sequence 1 is asked before it in the second round.
TEST_F(SingleFlightTest, WaitsOnceForAPromptThatIsStillBeingComputed) {
  wants(0, shared_);
  wants(1, shared_);
  flight_.begin_batch();
  sequences_.at(0).open_epoch = flight_.epoch();
  EXPECT_TRUE(should_wait(1));
  EXPECT_FALSE(should_wait(1)) << "no batch came between: the owner is gone, nobody waits for ever";
  flight_.begin_batch();
  EXPECT_FALSE(should_wait(1)) << "the owner took no part in the last batch";
  sequences_.at(0).open_epoch = flight_.epoch();
  EXPECT_TRUE(should_wait(1));
}

TEST_F(SingleFlightTest, DoesNotWaitForAPromptThatHasEnded) {
  wants(0, shared_);
  wants(1, shared_);
  flight_.begin_batch();
  sequences_.at(0).open_epoch = flight_.epoch();
  sequences_.at(0).in_prompt = false;
  EXPECT_FALSE(should_wait(1));
  sequences_.at(0).in_prompt = true;
  EXPECT_TRUE(should_wait(1));
}

TEST_F(SingleFlightTest, ARemovedOwnerIsNotWaitedFor) {
  wants(0, shared_);
  wants(1, shared_);
  flight_.begin_batch();
  sequences_.at(0).open_epoch = flight_.epoch();
  sequences_.reset(0);
  EXPECT_FALSE(should_wait(1));
  flight_.claim(0);
  EXPECT_FALSE(should_wait(1)) << "its prompt is forgotten with it";
}

}  // namespace
}  // namespace rhizome
