// The tests that every tier has to pass (tier.h, rules 1 to 6). A tier's test file says
//
//   struct DiskMaker {
//     static std::unique_ptr<Tier> make(const TierNeeds& needs);
//     static constexpr bool kIsReliable = true;  // false: it may forget, refuse and fail now and then, for no reason
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Disk, TierContract, DiskMaker);
//
// and links rhizome_block's oracle, of which all images here are made.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "block/oracle.h"
#include "machine/clock.h"
#include "machine/thread.h"
#include "tier/tier.h"

namespace rhizome {

struct TierNeeds {
  uint64_t bytes_max = 8 << 20;
  size_t requests_max = 16;
  Clock* clock = nullptr;
};

inline constexpr uint64_t kTierWaitNs = 1'000'000'000;

template <class Maker>
class TierContract : public testing::Test {
 protected:
  static constexpr int kTriesMax = Maker::kIsReliable ? 1 : 200;

  void start(TierNeeds needs = {}) {
    needs.clock = &clock_;
    tier_ = Maker::make(needs);
  }

  static BlockKey key(uint32_t number) { return next_key(root_key({}), std::span(&number, 1)); }

  // Version `version` of the image under key(number).
  static std::vector<std::byte> image(uint32_t number, uint32_t version, size_t bytes) {
    std::vector<std::byte> out(bytes);
    const std::vector<Token> prefix{number, version, static_cast<Token>(bytes)};
    fill_oracle(out, {}, prefix);
    return out;
  }

  // Submits one and collects it, as often as a tier that is not reliable needs to do as it should.
  TierCompletion settle(TierRequest request, TierOutcome expected) {
    TierCompletion last;
    for (int tries = 0; tries < kTriesMax; ++tries) {
      request.tag = ++last_tag_;
      last = once(request);
      EXPECT_EQ(last.tag, request.tag);
      if (last.outcome == expected) break;
    }
    EXPECT_EQ(last.outcome, expected) << tier_outcome_name(last.outcome) << ": " << last.error.reason;
    return last;
  }

  TierCompletion once(const TierRequest& request) {
    while (tier_->submit(std::span(&request, 1)) == 0) {
    }
    return collect_one();
  }

  TierCompletion collect_one() {
    TierCompletion completion;
    const uint64_t end = monotonic_now_ns() + 10 * kTierWaitNs;
    while (tier_->collect(std::span(&completion, 1), kTierWaitNs) == 0 && monotonic_now_ns() < end) {
    }
    return completion;
  }

  void write(uint32_t number, const std::vector<std::byte>& bytes) {
    const TierCompletion done =
        settle({.operation = TierOperation::kWrite, .key = key(number), .from = bytes}, TierOutcome::kDone);
    EXPECT_EQ(done.bytes, bytes.size());
  }

  TierCompletion read(uint32_t number, std::span<std::byte> into, TierOutcome expected) {
    return settle({.operation = TierOperation::kRead, .key = key(number), .into = into}, expected);
  }

  ManualClock clock_{1'000};
  std::unique_ptr<Tier> tier_;
  uint64_t last_tag_ = 0;
};

TYPED_TEST_SUITE_P(TierContract);

TYPED_TEST_P(TierContract, WhatWasWrittenIsRead) {
  this->start();
  const std::vector<size_t> sizes{1, 83, 84, 4095, 4096, 4097, 100'001, 1 << 20};
  for (uint32_t i = 0; i < sizes.size(); ++i)
    this->write(i, this->image(i, 0, sizes[i]));
  for (uint32_t i = 0; i < sizes.size(); ++i) {
    std::vector<std::byte> into(sizes[i] + 5, std::byte{0xee});
    EXPECT_EQ(this->read(i, into, TierOutcome::kDone).bytes, sizes[i]);
    EXPECT_EQ(into[sizes[i]], std::byte{0xee}) << "nothing is written behind the image";
    into.resize(sizes[i]);
    EXPECT_EQ(into, this->image(i, 0, sizes[i]));
    const TierCompletion found =
        this->settle({.operation = TierOperation::kFind, .key = this->key(i)}, TierOutcome::kDone);
    EXPECT_EQ(found.bytes, sizes[i]);
  }
}

// A buffer as the tier wants it: the image may begin anywhere in it.
TYPED_TEST_P(TierContract, AReadThatNeedsNoCopySaysWhereTheImageIs) {
  this->start();
  const std::vector<size_t> sizes{1, 4095, 100'001, 1 << 20};
  for (uint32_t i = 0; i < sizes.size(); ++i)
    this->write(i, this->image(i, 0, sizes[i]));
  for (int round = 0; round < 2; ++round) {
    for (uint32_t i = 0; i < sizes.size(); ++i) {
      const uint64_t room = this->tier_->read_room_bytes(sizes[i]);
      ASSERT_GE(room, sizes[i]);
      std::vector<std::byte> memory(room + 4096);
      void* at = memory.data();
      size_t left = memory.size();
      const std::span<std::byte> into(static_cast<std::byte*>(std::align(4096, room, at, left)), room);
      const TierCompletion done = this->read(i, into, TierOutcome::kDone);
      ASSERT_EQ(done.bytes, sizes[i]);
      ASSERT_LE(done.offset + done.bytes, room);
      const std::vector<std::byte> expected = this->image(i, 0, sizes[i]);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), into.subspan(done.offset).begin()));
    }
    // What was only kept for writing goes to the device, in a tier that has one.
    this->write(100, this->image(100, 0, 1 << 20));
  }
}

TYPED_TEST_P(TierContract, NothingIsMissing) {
  this->start();
  std::vector<std::byte> into(100);
  this->read(1, into, TierOutcome::kMissing);
  this->settle({.operation = TierOperation::kFind, .key = this->key(1)}, TierOutcome::kMissing);
  this->settle({.operation = TierOperation::kRemove, .key = this->key(1)}, TierOutcome::kMissing);
}

TYPED_TEST_P(TierContract, ABufferThatIsTooSmallIsToldWhatItTakes) {
  this->start();
  this->write(1, this->image(1, 0, 5000));
  std::vector<std::byte> into(4999, std::byte{0xee});
  EXPECT_EQ(this->read(1, into, TierOutcome::kTooSmall).bytes, 5000u);
  EXPECT_EQ(this->read(1, {}, TierOutcome::kTooSmall).bytes, 5000u);
}

TYPED_TEST_P(TierContract, WhatIsRemovedIsMissing) {
  this->start();
  this->write(1, this->image(1, 0, 100));
  this->write(2, this->image(2, 0, 100));
  this->settle({.operation = TierOperation::kRemove, .key = this->key(1)}, TierOutcome::kDone);
  std::vector<std::byte> into(100);
  this->read(1, into, TierOutcome::kMissing);
  this->read(2, into, TierOutcome::kDone);
  EXPECT_EQ(into, this->image(2, 0, 100));
}

// What was found to be damaged is written again.
TYPED_TEST_P(TierContract, ALaterWriteReplaces) {
  this->start();
  for (const size_t bytes : {5000, 100, 9000}) {
    this->write(1, this->image(1, 0, bytes));
    std::vector<std::byte> into(9000);
    EXPECT_EQ(this->read(1, into, TierOutcome::kDone).bytes, bytes);
    into.resize(bytes);
    EXPECT_EQ(into, this->image(1, 0, bytes));
  }
}

TYPED_TEST_P(TierContract, AnEmptyImageAndOneThatCanNeverFitAreRefused) {
  this->start({.bytes_max = 4 << 20});
  this->settle({.operation = TierOperation::kWrite, .key = this->key(1), .from = {}}, TierOutcome::kRefused);
  const std::vector<std::byte> large((4 << 20) + 1);
  this->settle({.operation = TierOperation::kWrite, .key = this->key(1), .from = large}, TierOutcome::kRefused);
  this->settle({.operation = TierOperation::kFind, .key = this->key(1)}, TierOutcome::kMissing);
}

TYPED_TEST_P(TierContract, AFullQueueIsBusyAndEachRequestIsCollectedOnce) {
  this->start({.requests_max = 8});
  std::vector<TierRequest> requests;
  for (uint64_t tag = 1; tag <= 100; ++tag)
    requests.push_back({.tag = tag, .operation = TierOperation::kFind, .key = this->key(1)});
  std::multiset<uint64_t> collected;
  bool was_busy = false;
  for (size_t next = 0; next < requests.size();) {
    const size_t left = requests.size() - next;
    const size_t taken = this->tier_->submit(std::span(requests).subspan(next));
    ASSERT_LE(taken, 8u);
    ASSERT_LE(this->tier_->usage().requests, 8u);
    was_busy |= taken < left;
    next += taken;
    if (this->tier_->usage().requests > 0) collected.insert(this->collect_one().tag);
  }
  while (this->tier_->usage().requests > 0)
    collected.insert(this->collect_one().tag);
  EXPECT_TRUE(was_busy);
  ASSERT_EQ(collected.size(), 100u);
  for (uint64_t tag = 1; tag <= 100; ++tag)
    EXPECT_EQ(collected.count(tag), 1u);
}

TYPED_TEST_P(TierContract, NothingToCollectIsNoReasonToWait) {
  this->start();
  TierCompletion completion;
  const uint64_t before = monotonic_now_ns();
  EXPECT_EQ(this->tier_->collect(std::span(&completion, 1), 60 * kTierWaitNs), 0u);
  EXPECT_EQ(this->tier_->collect({}, 60 * kTierWaitNs), 0u);
  EXPECT_LT(monotonic_now_ns() - before, 30 * kTierWaitNs);
  EXPECT_EQ(this->tier_->submit({}), 0u);
}

TYPED_TEST_P(TierContract, PastItsDeadlineARequestIsNotBegun) {
  this->start();
  this->write(1, this->image(1, 0, 100));
  this->clock_.advance_ns(1000);
  std::vector<std::byte> into(100);
  const uint64_t past = this->clock_.monotonic_ns();
  this->settle({.operation = TierOperation::kRead, .key = this->key(1), .into = into, .deadline_ns = past},
               TierOutcome::kLate);
  const std::vector<std::byte> other = this->image(1, 1, 100);
  this->settle({.operation = TierOperation::kWrite, .key = this->key(1), .from = other, .deadline_ns = past},
               TierOutcome::kLate);
  this->settle({.operation = TierOperation::kRead, .key = this->key(1), .into = into, .deadline_ns = past + 1},
               TierOutcome::kDone);
  EXPECT_EQ(into, this->image(1, 0, 100));
}

TYPED_TEST_P(TierContract, WhatIsCancelledIsCollectedOnceToo) {
  this->start({.requests_max = 16});
  EXPECT_FALSE(this->tier_->cancel(77)) << "unknown";
  std::vector<TierRequest> requests;
  for (uint64_t tag = 1; tag <= 16; ++tag)
    requests.push_back({.tag = tag, .operation = TierOperation::kFind, .key = this->key(1)});
  size_t taken = 0;
  while (taken == 0)
    taken = this->tier_->submit(requests);
  std::set<uint64_t> cancelled;
  for (uint64_t tag = 16; tag >= 1; --tag) {
    if (this->tier_->cancel(tag)) cancelled.insert(tag);
  }
  for (TierRequest& request : requests)
    request.tag += 100;
  const size_t more = this->tier_->submit(requests);
  EXPECT_LE(taken + more, 16u) << "who does not collect is busy, too";
  for (size_t i = 0; i < taken + more; ++i) {
    const TierCompletion completion = this->collect_one();
    EXPECT_EQ(completion.outcome == TierOutcome::kCancelled, cancelled.erase(completion.tag) == 1);
  }
  EXPECT_TRUE(cancelled.empty());
  EXPECT_EQ(this->tier_->usage().requests, 0u);
}

TYPED_TEST_P(TierContract, ItKeepsNoMoreThanItsLimit) {
  constexpr uint64_t kLimit = 4 << 20;
  this->start({.bytes_max = kLimit});
  constexpr size_t kBytes = 100'000;
  for (uint32_t i = 0; i < 120; ++i) {
    this->write(i, this->image(i, 0, kBytes));
    ASSERT_LE(this->tier_->usage().bytes, kLimit);
  }
  uint32_t found = 0;
  std::vector<std::byte> into(kBytes);
  for (uint32_t i = 0; i < 120; ++i) {
    const TierCompletion done =
        this->once({.tag = ++this->last_tag_, .operation = TierOperation::kRead, .key = this->key(i), .into = into});
    if (done.outcome != TierOutcome::kDone) continue;
    ++found;
    EXPECT_EQ(into, this->image(i, 0, kBytes));
  }
  EXPECT_GT(found, 5u);
  EXPECT_LE(found, kLimit / kBytes);
}

// Two threads, one that submits and one that collects: whatever a read gets is one of the images that were written
// under its key, whole, and whoever waits for a completion is not left waiting.
TYPED_TEST_P(TierContract, OldOrNewNeverOther) {
  constexpr uint32_t kKeys = 12;
  constexpr uint64_t kRequests = 4000;
  constexpr size_t kBytesMax = 20'000;
  this->start({.bytes_max = 1 << 20, .requests_max = 16});
  struct Slot {
    TierRequest request;
    std::vector<std::byte> bytes;
    std::atomic<bool> is_free{true};
  };
  std::vector<Slot> slots(32);
  std::atomic<uint64_t> collected{0};
  std::atomic<uint64_t> done_reads{0};
  std::atomic<uint64_t> wrong{0};
  const uint64_t start = monotonic_now_ns();
  const auto check = [&](const Slot& slot, const TierCompletion& completion) {
    if (slot.request.operation != TierOperation::kRead || completion.outcome != TierOutcome::kDone) return;
    done_reads.fetch_add(1);
    uint32_t number = 0;
    while (!(this->key(number) == slot.request.key))
      ++number;
    bool known = false;
    // The version and the size of an image are told by its size.
    const uint32_t version = static_cast<uint32_t>(completion.bytes);
    if (completion.bytes <= kBytesMax) {
      const std::vector<std::byte> expected = this->image(number, version, completion.bytes);
      known = std::equal(expected.begin(), expected.end(), std::span(slot.bytes).subspan(completion.offset).begin());
    }
    if (!known) wrong.fetch_add(1);
  };
  Result<Thread> collector = start_thread("collector", [&] {
    std::vector<TierCompletion> out(8);
    while (collected.load() < kRequests) {
      const size_t count = this->tier_->collect(out, kTierWaitNs);
      for (const TierCompletion& completion : std::span(out).first(count)) {
        Slot& slot = slots[completion.tag % slots.size()];
        check(slot, completion);
        slot.is_free.store(true, std::memory_order_release);  // pairs with the acquire below
        collected.fetch_add(1);
      }
    }
  });
  ASSERT_TRUE(collector);
  std::mt19937_64 random(5);
  for (uint64_t tag = 1; tag <= kRequests; ++tag) {
    Slot& slot = slots[tag % slots.size()];
    while (!slot.is_free.load(std::memory_order_acquire))  // pairs with the release above
      yield_thread();
    const uint32_t number = static_cast<uint32_t>(random() % kKeys);
    const size_t bytes = 1 + random() % kBytesMax;
    slot.request = {.tag = tag, .operation = static_cast<TierOperation>(random() % 4), .key = this->key(number)};
    if (slot.request.operation == TierOperation::kWrite) {
      slot.bytes = this->image(number, static_cast<uint32_t>(bytes), bytes);
      slot.request.from = slot.bytes;
    } else {
      slot.bytes.assign(kBytesMax, std::byte{0});
      slot.request.into = slot.bytes;
    }
    slot.is_free.store(false);
    while (this->tier_->submit(std::span(&slot.request, 1)) == 0)
      yield_thread();
  }
  collector->join();
  EXPECT_EQ(wrong.load(), 0u);
  EXPECT_GT(done_reads.load(), kRequests / 20);
  EXPECT_LT(monotonic_now_ns() - start, kRequests / 100 * kTierWaitNs) << "it waited where there was something to do";
  EXPECT_EQ(this->tier_->usage().requests, 0u);
}

REGISTER_TYPED_TEST_SUITE_P(TierContract, WhatWasWrittenIsRead, AReadThatNeedsNoCopySaysWhereTheImageIs,
                            NothingIsMissing, ABufferThatIsTooSmallIsToldWhatItTakes, WhatIsRemovedIsMissing,
                            ALaterWriteReplaces, AnEmptyImageAndOneThatCanNeverFitAreRefused,
                            AFullQueueIsBusyAndEachRequestIsCollectedOnce, NothingToCollectIsNoReasonToWait,
                            PastItsDeadlineARequestIsNotBegun, WhatIsCancelledIsCollectedOnceToo,
                            ItKeepsNoMoreThanItsLimit, OldOrNewNeverOther);

}  // namespace rhizome
