#include "client/c/handles.h"

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "machine/thread.h"

namespace rhizome {
namespace {

std::atomic<int64_t> objects_alive{0};

class Counted final : public HandleObject {
 public:
  explicit Counted(uint64_t own_value) : value(own_value) { ++objects_alive; }
  ~Counted() override {
    value = 0;
    --objects_alive;
  }
  uint64_t value;
};

uint64_t value_in(HandleTable::Slot* slot) {
  return static_cast<const Counted&>(*HandleTable::object_of(*slot)).value;
}

TEST(Handles, StandForTheirObjectUntilTheyAreClosed) {
  HandleTable table;
  const uint64_t handle = table.add(HandleKind::kHit, std::make_unique<Counted>(7));
  ASSERT_NE(handle, 0u);
  HandleTable::Slot* const slot = table.hold(handle, HandleKind::kHit);
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(value_in(slot), 7u);
  EXPECT_TRUE(table.close(handle, HandleKind::kHit));
  EXPECT_EQ(table.hold(handle, HandleKind::kHit), nullptr);
  EXPECT_FALSE(table.close(handle, HandleKind::kHit)) << "once is enough";
  EXPECT_EQ(value_in(slot), 7u) << "it is held";
  EXPECT_EQ(objects_alive, 1);
  HandleTable::Slot* const again = table.hold_again(slot);
  table.let_go(*slot);
  EXPECT_EQ(value_in(again), 7u);
  table.let_go(*again);
  EXPECT_EQ(objects_alive, 0);
}

TEST(Handles, OfAnotherKindOrMadeUpAreRefused) {
  HandleTable table;
  const uint64_t handle = table.add(HandleKind::kHit, std::make_unique<Counted>(7));
  for (const HandleKind kind : {HandleKind::kClient, HandleKind::kKeyspace, HandleKind::kDraft}) {
    EXPECT_EQ(table.hold(handle, kind), nullptr);
    EXPECT_FALSE(table.close(handle, kind));
  }
  // Any bit that differs makes it another one.
  for (uint32_t bit = 0; bit < 64; ++bit) {
    for (uint8_t kind = 0; kind < 16; ++kind) {
      EXPECT_EQ(table.hold(handle ^ 1ull << bit, static_cast<HandleKind>(kind)), nullptr) << bit;
      EXPECT_FALSE(table.close(handle ^ 1ull << bit, static_cast<HandleKind>(kind))) << bit;
    }
  }
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t made_up = random();
    if (made_up == handle) continue;
    EXPECT_EQ(table.hold(made_up, static_cast<HandleKind>(made_up >> 28 & 0xf)), nullptr);
  }
  EXPECT_TRUE(table.close(handle, HandleKind::kHit));
}

TEST(Handles, APlaceThatIsUsedAgainHasAnotherHandle) {
  HandleTable table;
  const uint64_t first = table.add(HandleKind::kHit, std::make_unique<Counted>(1));
  ASSERT_TRUE(table.close(first, HandleKind::kHit));
  const uint64_t second = table.add(HandleKind::kHit, std::make_unique<Counted>(2));
  EXPECT_NE(first, second);
  EXPECT_EQ(first & 0xffff'ffff, second & 0xffff'ffff) << "the same place";
  EXPECT_EQ(table.hold(first, HandleKind::kHit), nullptr);
  EXPECT_TRUE(table.close(second, HandleKind::kHit));
}

TEST(Handles, ThereAreManyAtOnce) {
  HandleTable table;
  std::vector<uint64_t> handles;
  for (uint64_t i = 0; i < 10'000; ++i)
    handles.push_back(table.add(HandleKind::kDraft, std::make_unique<Counted>(i)));
  for (uint64_t i = 0; i < handles.size(); ++i) {
    HandleTable::Slot* const slot = table.hold(handles[i], HandleKind::kDraft);
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(value_in(slot), i);
    table.let_go(*slot);
    EXPECT_TRUE(table.close(handles[i], HandleKind::kDraft));
  }
  EXPECT_EQ(objects_alive, 0);
}

// Whoever holds an object has it whole, and it ends once, whoever is last.
TEST(Handles, ClosingBesideUses) {
  HandleTable table;
  constexpr int kRounds = 3000;
  std::atomic<uint64_t> handle{0};
  std::atomic<uint64_t> held{0};
  std::atomic<uint64_t> wrong{0};
  std::atomic<bool> has_ended{false};
  std::vector<Thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.push_back(std::move(*start_thread("holder", [&] {
      while (!has_ended) {
        HandleTable::Slot* const slot = table.hold(handle, HandleKind::kHit);
        if (slot == nullptr) continue;
        wrong += value_in(slot) != 5;
        ++held;
        table.let_go(*slot);
      }
    })));
  }
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t made = table.add(HandleKind::kHit, std::make_unique<Counted>(5));
    handle = made;
    for (const uint64_t before = held; round % 16 == 0 && held == before;)
      yield_thread();
    EXPECT_TRUE(table.close(made, HandleKind::kHit));
  }
  has_ended = true;
  threads.clear();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(objects_alive, 0);
}

}  // namespace
}  // namespace rhizome
