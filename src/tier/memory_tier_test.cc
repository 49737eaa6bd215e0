#include "tier/memory_tier.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tier/tier_contract_fixture.h"

namespace rhizome {
namespace {

struct MemoryMaker {
  static constexpr bool kIsReliable = true;
  static std::unique_ptr<Tier> make(const TierNeeds& needs) {
    return std::make_unique<MemoryTier>(
        MemoryTierOptions{.bytes_max = needs.bytes_max, .requests_max = needs.requests_max, .clock = needs.clock});
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Memory, TierContract, MemoryMaker);

class MemoryTierTest : public testing::Test {
 protected:
  static BlockKey key(uint32_t number) { return next_key(root_key({}), std::span(&number, 1)); }

  TierOutcome run(TierOperation operation, uint32_t number) {
    const TierRequest request{.tag = 1, .operation = operation, .key = key(number), .into = bytes_, .from = bytes_};
    EXPECT_EQ(tier_.submit(std::span(&request, 1)), 1u);
    TierCompletion completion;
    EXPECT_EQ(tier_.collect(std::span(&completion, 1), 0), 1u);
    return completion.outcome;
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>(100);
  MemoryTier tier_{{.bytes_max = 300}};
};

TEST_F(MemoryTierTest, ForgetsWhatWasReadLongestAgo) {
  for (const uint32_t number : {1, 2, 3})
    EXPECT_EQ(run(TierOperation::kWrite, number), TierOutcome::kDone);
  EXPECT_EQ(run(TierOperation::kRead, 1), TierOutcome::kDone);
  EXPECT_EQ(run(TierOperation::kFind, 2), TierOutcome::kDone) << "to be found is no use";
  EXPECT_EQ(run(TierOperation::kWrite, 4), TierOutcome::kDone);
  EXPECT_EQ(run(TierOperation::kFind, 2), TierOutcome::kMissing);
  EXPECT_EQ(run(TierOperation::kFind, 1), TierOutcome::kDone);
  EXPECT_EQ(tier_.usage().images, 3u);
  EXPECT_EQ(tier_.usage().bytes, 300u);
}

TEST_F(MemoryTierTest, WorksOnNoMoreThanIsCollected) {
  std::vector<TierRequest> requests;
  for (const uint64_t tag : {1, 2})
    requests.push_back({.tag = tag, .operation = TierOperation::kFind, .key = key(1)});
  EXPECT_EQ(tier_.submit(requests), 2u);
  TierCompletion completion;
  EXPECT_EQ(tier_.collect(std::span(&completion, 1), 0), 1u);
  EXPECT_EQ(completion.tag, 1u);
  EXPECT_TRUE(tier_.cancel(2));
  EXPECT_FALSE(tier_.cancel(2));
  EXPECT_EQ(tier_.collect(std::span(&completion, 1), 0), 1u);
  EXPECT_EQ(completion.outcome, TierOutcome::kCancelled);
}

TEST(TierOutcomeTest, EachHasAName) {
  std::set<std::string_view> names;
  for (int outcome = 0; outcome <= static_cast<int>(TierOutcome::kFailed); ++outcome)
    names.insert(tier_outcome_name(static_cast<TierOutcome>(outcome)));
  EXPECT_EQ(names.size(), 7u);
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace rhizome
