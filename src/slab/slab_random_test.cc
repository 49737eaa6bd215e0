#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/random.h"
#include "slab/slab.h"
#include "slab/slab_fixture.h"

namespace rhizome {
namespace {

constexpr uint32_t kTenants = 3;
constexpr uint64_t kSizes[] = {200, 1920, 24768, 24800, 100'000, 377'024};

// Every tenant fills its slots with bytes of its own, so that one which another tenant finds is seen.
int random_fill(std::mt19937_64& random, uint32_t tenant) {
  return static_cast<int>(tenant * 64 + 1 + random() % 63);
}

bool holds_only(std::span<const std::byte> bytes, uint32_t tenant) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](std::byte b) { return b == std::byte{0} || static_cast<uint32_t>(b) / 64 == tenant; });
}

struct Owned {
  SlotRef ref;
  uint64_t bytes = 0;
  int fill = 0;
  bool doomed = false;
  std::vector<Pinned> pins;
};

// R5: random operations against a model: no slot ever has two owners, no tenant sees another one's bytes, the budget is
// never exceeded.
class SlabRandom : public testing::Test {
 protected:
  void run(int operations) {
    for (int i = 0; i < operations && !HasFatalFailure(); ++i) {
      const uint64_t action = random_() % 100;
      if (action < 40) {
        reserve();
      } else if (action < 55) {
        pin();
      } else if (action < 68) {
        release();
      } else if (action < 84) {
        free();
      } else if (action < 93) {
        use_dead_names();
      } else if (action < 99) {
        empty_a_chunk();
      } else {
        slab_->trim();
      }
      check_usage();
    }
  }

  void reserve() {
    const uint32_t tenant = static_cast<uint32_t>(random_() % kTenants);
    Owned fresh;
    fresh.bytes = kSizes[random_() % std::size(kSizes)];
    Result<Reserved> reserved = slab_->reserve(fresh.bytes, tenant);
    if (!reserved) {
      ASSERT_EQ(reserved.error().code, Code::kResourceExhausted);
      return;
    }
    ASSERT_EQ(reserved->bytes().size(), fresh.bytes);
    ASSERT_TRUE(holds_only(reserved->bytes(), tenant)) << "another tenant's bytes";
    fresh.fill = random_fill(random_, tenant);
    std::memset(reserved->bytes().data(), fresh.fill, fresh.bytes);
    if (random_() % 8 == 0) return;  // given up, with its bytes in it
    fresh.ref = slab_->commit(std::move(*reserved), fresh.bytes);
    owned_.push_back(std::move(fresh));
  }

  void pin() {
    if (owned_.empty()) return;
    Owned& owned = owned_[random_() % owned_.size()];
    Result<Pinned> pinned = slab_->pin(owned.ref);
    ASSERT_EQ(pinned.has_value(), !owned.doomed);
    if (!pinned) return;
    ASSERT_EQ(pinned->bytes().size(), owned.bytes);
    ASSERT_EQ(pinned->checksum(), owned.bytes);
    ASSERT_TRUE(all_bytes_are(pinned->bytes(), owned.fill));
    if (random_() % 2 == 0) owned.pins.push_back(std::move(*pinned));
  }

  void release() {
    if (owned_.empty()) return;
    const size_t at = random_() % owned_.size();
    Owned& owned = owned_[at];
    if (owned.pins.empty()) return;
    ASSERT_TRUE(all_bytes_are(owned.pins.back().bytes(), owned.fill));
    owned.pins.pop_back();
    if (owned.doomed && owned.pins.empty()) bury(at);
  }

  void free() {
    if (owned_.empty()) return;
    const size_t at = random_() % owned_.size();
    Owned& owned = owned_[at];
    const uint32_t own_pins = static_cast<uint32_t>(random_() % 3);
    if (own_pins == 2) {
      ASSERT_EQ(slab_->free(owned.ref).has_value(), !owned.doomed);
    } else {
      const Result<FreeOutcome> outcome = slab_->free_if_unpinned(owned.ref, own_pins);
      ASSERT_EQ(outcome.has_value(), !owned.doomed);
      if (!outcome) return;
      ASSERT_EQ(*outcome == FreeOutcome::kFreed, owned.pins.size() <= own_pins);
      if (*outcome == FreeOutcome::kPinned) return;
    }
    owned.doomed = true;
    if (owned.pins.empty()) bury(at);
  }

  void use_dead_names() {
    if (dead_.empty()) return;
    const SlotRef name = dead_[random_() % dead_.size()];
    ASSERT_FALSE(slab_->free(name));
    ASSERT_FALSE(slab_->pin(name));
    ASSERT_FALSE(slab_->pins(name));
    ASSERT_FALSE(slab_->free_if_unpinned(name));
  }

  void empty_a_chunk() {
    const uint64_t bytes = kSizes[random_() % std::size(kSizes)];
    const std::optional<SpareChunk> spare = slab_->emptiest_chunk(bytes);
    if (!spare) return;
    uint64_t stored = 0;
    size_t held = 0;
    for (const Owned& owned : owned_) {
      if (owned.ref.chunk() != spare->chunk) continue;
      ASSERT_TRUE(!owned.doomed && owned.pins.empty()) << "a chunk that cannot be emptied";
      stored += owned.bytes;
      ++held;
    }
    ASSERT_EQ(spare->slots.size(), held);
    ASSERT_EQ(spare->stored_bytes, stored);
    for (const SlotRef ref : spare->slots) {
      const auto at = std::find_if(owned_.begin(), owned_.end(), [&](const Owned& owned) { return owned.ref == ref; });
      ASSERT_NE(at, owned_.end());
      ASSERT_EQ(*slab_->free_if_unpinned(ref), FreeOutcome::kFreed);
      bury(static_cast<size_t>(at - owned_.begin()));
    }
    ASSERT_TRUE(slab_->reserve(bytes)) << "an emptied chunk made no room";
  }

  void check_usage() {
    uint64_t bytes = 0;
    uint64_t pinned = 0;
    uint64_t doomed = 0;
    for (const Owned& owned : owned_) {
      bytes += owned.bytes;
      pinned += owned.pins.empty() ? 0 : owned.bytes;
      doomed += owned.doomed ? 1 : 0;
    }
    const SlabUsage usage = slab_->usage();
    ASSERT_EQ(usage.stored_bytes, bytes);
    ASSERT_EQ(usage.pinned_bytes, pinned);
    ASSERT_EQ(usage.doomed_slots, doomed);
    ASSERT_EQ(usage.committed_slots, owned_.size() - doomed);
    ASSERT_EQ(usage.reserved_slots, 0u);
    ASSERT_LE(usage.used_bytes, usage.budget_bytes);
  }

  void bury(size_t at) {
    dead_.push_back(owned_[at].ref);
    owned_.erase(owned_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  void free_everything() {
    for (Owned& owned : owned_) {
      EXPECT_EQ(slab_->free(owned.ref).has_value(), !owned.doomed);
      owned.pins.clear();
    }
    owned_.clear();
    expect_drained(*slab_);
  }

  const uint64_t seed_ = random_u64();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, testing::Message() << "seed " << seed_};
  std::mt19937_64 random_{seed_};
  std::unique_ptr<Slab> slab_ = make_slab(2 * kMiB, 100);
  std::vector<Owned> owned_;
  std::vector<SlotRef> dead_;
};

TEST_F(SlabRandom, OperationsAgainstAModel) {
  const uint64_t empty = slab_->usage().used_bytes;
  run(20'000);
  EXPECT_GT(slab_->usage().chunks_cut_again, 0u);
  EXPECT_GT(slab_->usage().cleared_bytes, 0u);
  free_everything();
  EXPECT_EQ(slab_->usage().used_bytes, empty) << "some of the budget did not come back";
}

TEST_F(SlabRandom, ShareableChunksBehaveTheSame) {
  slab_ = make_slab(2 * kMiB, 100, true);
  run(5'000);
  free_everything();
}

}  // namespace
}  // namespace rhizome
