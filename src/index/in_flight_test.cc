#include <atomic>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "index/index.h"
#include "machine/clock.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlock = 4;
constexpr uint64_t kSecond = 1'000'000'000;
const std::vector<Token> kPrompt{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};

class InFlightTest : public testing::Test {
 protected:
  InFlightTest() : index_({.block_tokens = kBlock, .clock = &clock_}) {
    const char name = 'a';
    root_ = *index_.open(std::as_bytes(std::span(&name, 1)));
  }

  // Stores the first `blocks` blocks.
  void store(size_t blocks) {
    std::vector<Location> locations(blocks, 7);
    std::vector<Location> canonical(blocks);
    Handle handle;
    Result<Inserted> inserted =
        index_.insert(root_, handle, std::span(kPrompt).first(blocks * kBlock), 0, locations, canonical);
    ASSERT_TRUE(inserted);
    EXPECT_TRUE(index_.release(std::move(inserted->handle)));
  }

  Reason reason(const std::vector<Token>& prompt) {
    std::vector<Location> out(prompt.size() / kBlock);
    Match match = index_.lookup(root_, prompt, out);
    const Explanation why = index_.explain(root_, prompt, match);
    EXPECT_TRUE(index_.release(std::move(match.handle)));
    return why.reason;
  }

  Result<Claim> announce(uint32_t first_block, uint64_t owner = 1) {
    return index_.announce(root_, kPrompt, first_block, owner, clock_.monotonic_ns() + kSecond);
  }

  ManualClock clock_{kSecond};
  Index index_;
  Root root_;
};

TEST_F(InFlightTest, ALookupSaysThatSomebodyComputesIt) {
  EXPECT_EQ(reason(kPrompt), Reason::kNeverStored);
  Result<Claim> claim = announce(0);
  ASSERT_TRUE(claim);
  EXPECT_EQ(reason(kPrompt), Reason::kInFlight);
  EXPECT_EQ(reason({1, 1, 1, 1, 9, 9, 9, 9}), Reason::kInFlight) << "its first block is";
  EXPECT_EQ(reason({9, 9, 9, 9}), Reason::kNeverStored);
  store(1);
  EXPECT_EQ(reason(kPrompt), Reason::kInFlight) << "what is committed is there, the rest is still to come";
  EXPECT_EQ(reason({1, 1, 1, 1, 9, 9, 9, 9}), Reason::kNeverStored);
  claim->withdraw();
  EXPECT_EQ(reason(kPrompt), Reason::kNeverStored);
}

TEST_F(InFlightTest, OneBlockHasOneOwner) {
  Result<Claim> claim = announce(0, 1);
  ASSERT_TRUE(claim);
  EXPECT_EQ(announce(0, 2).error().code, Code::kAlreadyExists);
  EXPECT_EQ(announce(2, 2).error().code, Code::kAlreadyExists);
  EXPECT_EQ(announce(3, 2).error().code, Code::kInvalidArgument);
  *claim = Claim();
  EXPECT_TRUE(announce(0, 2));
}

TEST_F(InFlightTest, ALateOwnerIsNoOwner) {
  Result<Claim> claim = announce(0);
  clock_.advance_ns(kSecond);
  EXPECT_EQ(reason(kPrompt), Reason::kNeverStored);
  EXPECT_EQ(index_.wait(root_, kPrompt, 0, clock_.monotonic_ns() + kSecond), WaitEnd::kNobody);
  EXPECT_TRUE(announce(0, 2));
}

TEST_F(InFlightTest, AnOwnerThatIsGoneHasNoClaims) {
  Result<Claim> claim = announce(0, 5);
  EXPECT_EQ(index_.owner_is_gone(6), 0u);
  EXPECT_EQ(reason(kPrompt), Reason::kInFlight);
  EXPECT_EQ(index_.owner_is_gone(5), 1u);
  EXPECT_EQ(reason(kPrompt), Reason::kNeverStored);
}

TEST_F(InFlightTest, AWaitEndsAtOnceWhenThereIsNothingToWaitFor) {
  EXPECT_EQ(index_.wait(root_, kPrompt, 0, clock_.monotonic_ns() + kSecond), WaitEnd::kNobody);
  Result<Claim> claim = announce(0);
  EXPECT_EQ(index_.wait(root_, kPrompt, 0, clock_.monotonic_ns()), WaitEnd::kTimeOut);
  store(2);
  EXPECT_EQ(index_.wait(root_, kPrompt, 0, clock_.monotonic_ns() + kSecond), WaitEnd::kMoreBlocks);
  EXPECT_EQ(index_.wait(root_, kPrompt, 2, clock_.monotonic_ns()), WaitEnd::kTimeOut);
}

TEST_F(InFlightTest, AWaiterWakesWhenTheOwnerGivesUp) {
  Result<Claim> claim = announce(0);
  std::atomic<bool> waits{false};
  WaitEnd end = WaitEnd::kTimeOut;
  {
    Thread waiter = std::move(*start_thread("waiter", [&] {
      waits = true;
      end = index_.wait(root_, kPrompt, 0, UINT64_MAX);
    }));
    while (!waits)
      yield_thread();
    claim->withdraw();
  }
  EXPECT_EQ(end, WaitEnd::kNobody);
}

// Block after block, each of which the waiter may miss by a hair: it must see every one. The claim's deadline is far
// off and so is the waiter's, so a lost wake-up would only be healed by the clock.
TEST_F(InFlightTest, NoWakeUpIsLost) {
  constexpr uint32_t kBlocks = 400;
  std::vector<Token> prompt;
  for (Token i = 0; i < kBlocks; ++i)
    prompt.insert(prompt.end(), kBlock, i);
  Result<Claim> claim = index_.announce(root_, prompt, 0, 1, UINT64_MAX);
  ASSERT_TRUE(claim);
  std::atomic<uint32_t> seen{0};
  {
    Thread waiter = std::move(*start_thread("waiter", [&] {
      while (seen < kBlocks && index_.wait(root_, prompt, seen, UINT64_MAX) == WaitEnd::kMoreBlocks)
        seen = index_.peek(root_, prompt);
    }));
    Handle handle;
    for (uint32_t i = 0; i < kBlocks; ++i) {
      const Location location = i;
      Location canonical = 0;
      Result<Inserted> inserted = index_.insert(root_, handle, std::span(prompt).first((i + 1) * kBlock), i,
                                                std::span(&location, 1), std::span(&canonical, 1));
      ASSERT_TRUE(inserted);
      handle = std::move(inserted->handle);
      while (seen <= i)
        yield_thread();
    }
    EXPECT_TRUE(index_.release(std::move(handle)));
  }
  EXPECT_EQ(seen, kBlocks);
}

}  // namespace
}  // namespace rhizome
