#include "tier/fault_tier.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tier/memory_tier.h"
#include "tier/tier_contract_fixture.h"

namespace rhizome {
namespace {

std::unique_ptr<Tier> memory(const TierNeeds& needs) {
  return std::make_unique<MemoryTier>(
      MemoryTierOptions{.bytes_max = needs.bytes_max, .requests_max = needs.requests_max, .clock = needs.clock});
}

// Every fault that the contract allows.
struct FaultMaker {
  static constexpr bool kIsReliable = false;
  static std::unique_ptr<Tier> make(const TierNeeds& needs) {
    const TierFaults faults{.busy = 0.1, .fail = 0.1, .fail_after = 0.1, .forget = 0.1, .refuse = 0.1, .delay = 0.3};
    return std::make_unique<FaultTier>(memory(needs), faults, 11);
  }
};

struct QuietMaker {
  static constexpr bool kIsReliable = true;
  static std::unique_ptr<Tier> make(const TierNeeds& needs) {
    return std::make_unique<FaultTier>(memory(needs), TierFaults{}, 11);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Faults, TierContract, FaultMaker);
INSTANTIATE_TYPED_TEST_SUITE_P(NoFaults, TierContract, QuietMaker);

class FaultTierTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1000;

  TierCompletion run(FaultTier& tier, TierOperation operation) {
    const TierRequest request{.tag = 1, .operation = operation, .key = {}, .into = into_, .from = image_};
    EXPECT_EQ(tier.submit(std::span(&request, 1)), 1u);
    TierCompletion completion;
    EXPECT_EQ(tier.collect(std::span(&completion, 1), 0), 1u);
    return completion;
  }

  std::vector<std::byte> image_ = std::vector<std::byte>(kBytes, std::byte{0x5a});
  std::vector<std::byte> into_ = std::vector<std::byte>(kBytes);
};

// What breaks the contract is seen by whoever compares: else a suite that runs over it could not fail.
TEST_F(FaultTierTest, AFlippedBitShows) {
  FaultTier tier(memory({}), {.flip = 1}, 3);
  EXPECT_EQ(run(tier, TierOperation::kWrite).outcome, TierOutcome::kDone);
  EXPECT_EQ(run(tier, TierOperation::kRead).outcome, TierOutcome::kDone);
  EXPECT_NE(into_, image_);
  EXPECT_EQ(tier.counts().flipped, 1u);
  tier.set_faults({});
  EXPECT_EQ(run(tier, TierOperation::kRead).outcome, TierOutcome::kDone);
  EXPECT_EQ(into_, image_) << "what is kept is whole";
}

TEST_F(FaultTierTest, ATornWriteSaysThatItIsDone) {
  FaultTier tier(memory({}), {.tear = 1}, 3);
  const TierCompletion written = run(tier, TierOperation::kWrite);
  EXPECT_EQ(written.outcome, TierOutcome::kDone);
  EXPECT_EQ(written.bytes, kBytes);
  EXPECT_LT(run(tier, TierOperation::kRead).bytes, kBytes);
  EXPECT_EQ(tier.counts().torn, 1u);
}

TEST_F(FaultTierTest, ADelayedCompletionComesAFewCallsLater) {
  FaultTier tier(memory({}), {.delay = 1}, 3);
  const TierRequest request{.tag = 1, .operation = TierOperation::kWrite, .key = {}, .from = image_};
  ASSERT_EQ(tier.submit(std::span(&request, 1)), 1u);
  TierCompletion completion;
  EXPECT_EQ(tier.collect(std::span(&completion, 1), 0), 0u);
  EXPECT_EQ(tier.usage().requests, 1u);
  int calls = 1;
  while (tier.collect(std::span(&completion, 1), 0) == 0 && calls < 20)
    ++calls;
  EXPECT_EQ(completion.outcome, TierOutcome::kDone);
  EXPECT_EQ(tier.usage().requests, 0u);
  EXPECT_EQ(tier.counts().delayed, 1u);
}

TEST_F(FaultTierTest, ABusyTierTakesNothing) {
  FaultTier tier(memory({}), {.busy = 1}, 3);
  const TierRequest request{.tag = 1, .operation = TierOperation::kWrite, .key = {}, .from = image_};
  EXPECT_EQ(tier.submit(std::span(&request, 1)), 0u);
  EXPECT_EQ(tier.usage().requests, 0u);
  EXPECT_EQ(tier.counts().busy, 1u);
}

TEST_F(FaultTierTest, TheSameSeedMakesTheSameFaults) {
  std::vector<std::vector<TierOutcome>> runs;
  for (int again = 0; again < 2; ++again) {
    FaultTier tier(memory({}), {.fail = 0.3, .fail_after = 0.2, .forget = 0.2, .refuse = 0.2}, 42);
    std::vector<TierOutcome>& outcomes = runs.emplace_back();
    for (int i = 0; i < 200; ++i)
      outcomes.push_back(run(tier, i % 2 == 0 ? TierOperation::kWrite : TierOperation::kRead).outcome);
    EXPECT_GT(tier.counts().failed, 20u);
    EXPECT_GT(tier.counts().forgotten, 5u);
    EXPECT_GT(tier.counts().refused, 5u);
  }
  EXPECT_EQ(runs[0], runs[1]);
}

}  // namespace
}  // namespace rhizome
