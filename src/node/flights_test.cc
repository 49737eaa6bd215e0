#include "node/flights.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "machine/random.h"

namespace rhizome {
namespace {

constexpr uint32_t kBlockTokens = 4;
constexpr Root kRoot = {1, 1};
constexpr uint64_t kPatience = 100;

// A block for each letter.
std::vector<Token> prompt(const std::string& letters) {
  std::vector<Token> tokens;
  for (const char letter : letters)
    tokens.insert(tokens.end(), kBlockTokens, static_cast<Token>(letter));
  return tokens;
}

class FlightsTest : public testing::Test {
 protected:
  explicit FlightsTest(const FlightLimits& limits = {}) : flights_(kBlockTokens, limits) {
    for (uint64_t owner = 1; owner <= 4; ++owner)
      flights_.enter(owner, [this, owner] { ++stirred_[owner]; });
  }
  Flights::Announced announce(uint64_t owner, const std::string& letters, uint32_t first = 0) {
    const auto announced = flights_.announce(owner, kRoot, prompt(letters), first, kPatience, now_);
    EXPECT_TRUE(announced);
    return announced ? *announced : Flights::Announced{};
  }
  bool is_computed(const std::string& letters, uint32_t block) {
    return flights_.computed_until(kRoot, prompt(letters), block, now_).has_value();
  }
  void wait(uint64_t owner, const std::string& letters, uint32_t block) {
    EXPECT_TRUE(flights_.wait(owner, kRoot, prompt(letters), block, now_ + 1000, now_));
  }
  void commit(uint64_t owner, const std::string& letters) { flights_.committed(owner, kRoot, prompt(letters), now_); }

  Flights flights_;
  uint64_t now_ = 1000;
  uint32_t stirred_[5] = {};
};

TEST_F(FlightsTest, TheFirstComputesAndTheOthersWait) {
  const auto first = announce(1, "abcd");
  EXPECT_NE(first.claim, 0u);
  EXPECT_EQ(first.end, 4u);
  const auto second = announce(2, "abxy");
  EXPECT_EQ(second.claim, 0u);
  EXPECT_EQ(second.end, 2u) << "what they have in common";
  EXPECT_EQ(second.until_ns, now_ + kPatience);
  EXPECT_TRUE(is_computed("abxy", 1));
  EXPECT_FALSE(is_computed("abxy", 2));
  EXPECT_TRUE(flights_.is_computed_by_others(2, kRoot, prompt("abxy"), 1, now_));
  EXPECT_FALSE(flights_.is_computed_by_others(1, kRoot, prompt("abxy"), 1, now_)) << "he does it himself";
  EXPECT_FALSE(flights_.is_computed_by_others(2, kRoot, prompt("abxy"), 2, now_));
  EXPECT_NE(announce(2, "abxy", 2).claim, 0u) << "nobody computes that";
  EXPECT_NE(announce(3, "xb").claim, 0u);
  EXPECT_FALSE(flights_.computed_until({2, 1}, prompt("abcd"), 0, now_)) << "another keyspace";
  EXPECT_FALSE(flights_.computed_until({1, 2}, prompt("abcd"), 0, now_)) << "an older one";
}

TEST_F(FlightsTest, AClaimEndsWhereAnotherOneBegins) {
  EXPECT_EQ(announce(1, "abcdef", 4).end, 6u);
  const auto before = announce(2, "abcdef");
  EXPECT_NE(before.claim, 0u);
  EXPECT_EQ(before.end, 4u);
  EXPECT_EQ(announce(3, "abcdef", 5).claim, 0u);
  EXPECT_EQ(announce(3, "abcxyz", 3).end, 6u) << "no longer the same there";
}

TEST_F(FlightsTest, CommitsAreHeardOfPieceByPiece) {
  announce(1, "abcd");
  wait(2, "abcd", 0);
  wait(3, "abxy", 1);
  wait(4, "xxxx", 0);
  commit(1, "a");
  EXPECT_EQ(stirred_[2], 1u);
  EXPECT_EQ(stirred_[3], 0u) << "it waits for more than that";
  EXPECT_FALSE(is_computed("abcd", 0)) << "it is there";
  EXPECT_TRUE(is_computed("abcd", 1));
  commit(1, "ab");
  EXPECT_EQ(stirred_[2], 1u) << "once for each wait";
  EXPECT_EQ(stirred_[3], 1u);
  EXPECT_EQ(stirred_[4], 0u);
  commit(1, "abcd");
  EXPECT_EQ(flights_.claims_count(), 0u);
}

// Somebody else may have stored what an owner computes.
TEST_F(FlightsTest, OnlyTheOwnersCommitsMoveAClaim) {
  announce(1, "abcd");
  wait(3, "abcd", 1);
  commit(2, "abcd");
  EXPECT_EQ(flights_.claims_count(), 1u);
  EXPECT_EQ(stirred_[3], 1u) << "but the blocks are there";
}

TEST_F(FlightsTest, ProgressGivesPatienceAgain) {
  announce(1, "abcd");
  now_ += kPatience - 1;
  EXPECT_TRUE(is_computed("abcd", 1));
  commit(1, "ab");
  now_ += kPatience - 1;
  EXPECT_TRUE(is_computed("abcd", 3));
  now_ += 1;
  EXPECT_FALSE(is_computed("abcd", 3));
  EXPECT_EQ(flights_.claims_count(), 0u);
  EXPECT_NE(announce(2, "abcd", 2).claim, 0u) << "the next one takes over";
  // What was stored before is no progress.
  now_ += kPatience - 1;
  commit(2, "ab");
  now_ += 1;
  EXPECT_FALSE(is_computed("abcd", 2));
}

TEST_F(FlightsTest, WhoWaitsHearsOfTheEndOfAClaim) {
  const uint64_t claim = announce(1, "abcd").claim;
  wait(2, "abcd", 0);
  flights_.withdraw(2, claim);
  EXPECT_EQ(flights_.claims_count(), 1u) << "not his";
  flights_.withdraw(1, claim);
  EXPECT_EQ(stirred_[2], 1u);
  EXPECT_FALSE(is_computed("abcd", 0));
  flights_.withdraw(1, claim);
  announce(1, "abcd");
  announce(1, "efgh");
  wait(1, "zzzz", 0);
  wait(2, "abcd", 3);
  flights_.leave(1);
  EXPECT_EQ(stirred_[2], 2u);
  EXPECT_EQ(flights_.claims_count(), 0u);
  EXPECT_EQ(flights_.waits_count(), 0u);
  flights_.leave(1);
  EXPECT_EQ(flights_.announce(1, kRoot, prompt("a"), 0, kPatience, now_).error().code, Code::kNotFound);
}

TEST_F(FlightsTest, TheSameWaitTwiceIsOne) {
  announce(1, "abcd");
  wait(2, "abcd", 1);
  wait(2, "abxx", 1);
  EXPECT_EQ(flights_.waits_count(), 1u) << "for the same block";
  wait(2, "abcd", 2);
  EXPECT_EQ(flights_.waits_count(), 2u);
  now_ += 1000;
  wait(2, "zz", 0);
  EXPECT_EQ(flights_.waits_count(), 1u) << "those before are over";
}

TEST_F(FlightsTest, NothingIsRefused) {
  EXPECT_EQ(flights_.announce(1, kRoot, prompt("ab"), 2, kPatience, now_).error().code, Code::kInvalidArgument);
  EXPECT_EQ(flights_.announce(1, kRoot, {}, 0, kPatience, now_).error().code, Code::kInvalidArgument);
  EXPECT_EQ(flights_.wait(1, kRoot, prompt("ab"), 2, now_ + 1, now_).error().code, Code::kInvalidArgument);
  EXPECT_EQ(flights_.wait(9, kRoot, prompt("ab"), 0, now_ + 1, now_).error().code, Code::kNotFound);
}

class SmallFlightsTest : public FlightsTest {
 protected:
  SmallFlightsTest()
      : FlightsTest({.claims_max = 5,
                     .claims_of_owner_max = 3,
                     .waits_of_owner_max = 2,
                     .tokens_of_owner_max = 10 * kBlockTokens,
                     .patience_max_ns = 50}) {}

  Code announce_code(uint64_t owner, const std::string& letters) {
    const auto announced = flights_.announce(owner, kRoot, prompt(letters), 0, kPatience, now_);
    return announced ? Code::kOk : announced.error().code;
  }
};

TEST_F(SmallFlightsTest, EverythingIsBounded) {
  EXPECT_EQ(announce_code(1, "aaaaaaaaaaa"), Code::kResourceExhausted) << "eleven blocks";
  EXPECT_EQ(announce(1, "aaaaaaaaaa").until_ns, now_ + 50) << "and patience";
  EXPECT_EQ(announce_code(1, "b"), Code::kResourceExhausted);
  flights_.leave(1);
  for (const char* const letters : {"a", "b", "c"})
    EXPECT_EQ(announce_code(2, letters), Code::kOk);
  EXPECT_EQ(announce_code(2, "d"), Code::kResourceExhausted);
  EXPECT_EQ(announce_code(3, "d"), Code::kOk);
  EXPECT_EQ(announce_code(3, "e"), Code::kOk);
  EXPECT_EQ(announce_code(3, "f"), Code::kResourceExhausted) << "in all";
  wait(4, "a", 0);
  wait(4, "b", 0);
  EXPECT_EQ(flights_.wait(4, kRoot, prompt("c"), 0, now_ + 9, now_).error().code, Code::kResourceExhausted);
  now_ += 50;
  EXPECT_EQ(announce_code(3, "f"), Code::kOk) << "the others are late";
}

// Whatever happens, a claim covers what its owner said, no block has two owners, and all is gone with the owners.
TEST_F(FlightsTest, AtRandom) {
  const uint64_t seed = random_u64();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto letters = [&] {
    std::string chosen(1 + random() % 6, 'a');
    for (char& letter : chosen)
      letter = static_cast<char>('a' + random() % 2);
    return chosen;
  };
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t owner = 1 + random() % 4;
    const std::string chosen = letters();
    const auto blocks = static_cast<uint32_t>(chosen.size());
    const auto first = static_cast<uint32_t>(random() % blocks);
    switch (random() % 6) {
      case 0: {
        const bool was_computed = is_computed(chosen, first);
        const auto announced = flights_.announce(owner, kRoot, prompt(chosen), first, random() % kPatience, now_);
        if (announced) {
          EXPECT_EQ(announced->claim == 0, was_computed);
        }
        break;
      }
      case 1:
        commit(owner, chosen);
        break;
      case 2:
        flights_.withdraw(owner, random() % 50 + (round > 100 ? 50 : 0));
        break;
      case 3:
        static_cast<void>(flights_.wait(owner, kRoot, prompt(chosen), first, now_ + random() % 50, now_));
        break;
      case 4:
        if (random() % 8 == 0) {
          flights_.leave(owner);
          flights_.enter(owner, [this, owner] { ++stirred_[owner]; });
        }
        break;
      default:
        now_ += random() % 20;
        break;
    }
  }
  for (uint64_t owner = 1; owner <= 4; ++owner)
    flights_.leave(owner);
  EXPECT_EQ(flights_.claims_count() + flights_.waits_count(), 0u);
  EXPECT_GT(stirred_[1] + stirred_[2], 0u);
}

}  // namespace
}  // namespace rhizome
