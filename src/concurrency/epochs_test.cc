#include "concurrency/epochs.h"

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "machine/thread.h"

namespace rhizome {
namespace {

class EpochsTest : public testing::TestWithParam<Epochs::Fence> {
 protected:
  Epochs epochs_{GetParam()};
};

TEST_P(EpochsTest, WithoutSectionsTwoAdvancesPassAnEpoch) {
  const uint64_t now = epochs_.current();
  EXPECT_FALSE(epochs_.is_past(now));
  EXPECT_TRUE(epochs_.try_advance());
  EXPECT_FALSE(epochs_.is_past(now));
  EXPECT_TRUE(epochs_.try_advance());
  EXPECT_TRUE(epochs_.is_past(now));
}

TEST_P(EpochsTest, AnOpenSectionHoldsItsEpoch) {
  const uint64_t now = epochs_.current();
  {
    const Epochs::Section section(epochs_);
    EXPECT_TRUE(epochs_.try_advance()) << "it began in the current epoch";
    EXPECT_FALSE(epochs_.try_advance());
    EXPECT_FALSE(epochs_.is_past(now));
  }
  EXPECT_TRUE(epochs_.try_advance());
  EXPECT_TRUE(epochs_.is_past(now));
}

TEST_P(EpochsTest, WaitsForASectionOfAnotherThread) {
  std::atomic<int> stage{0};
  Thread reader = std::move(*start_thread("reader", [&] {
    const Epochs::Section section(epochs_);
    stage = 1;
    while (stage.load() != 2)
      yield_thread();
    stage = 3;
  }));
  while (stage.load() != 1)
    yield_thread();
  EXPECT_TRUE(epochs_.try_advance());
  EXPECT_FALSE(epochs_.try_advance());
  stage = 2;
  epochs_.wait_for_sections();
  EXPECT_EQ(stage.load(), 3);
}

// A cell is overwritten as soon as its epoch is past: a reader that finds a torn one was not protected.
TEST_P(EpochsTest, NothingIsUsedAgainUnderAReader) {
  struct Cell {
    std::array<uint64_t, 8> words{};
  };
  constexpr int kRounds = 3000;
  std::atomic<Cell*> published{new Cell()};
  std::atomic<bool> done{false};
  std::atomic<uint64_t> torn{0};
  // Outlives the readers.
  std::vector<std::pair<uint64_t, std::unique_ptr<Cell>>> retired;
  {
    std::vector<Thread> readers;
    for (int i = 0; i < 2; ++i) {
      readers.push_back(std::move(*start_thread("reader", [&] {
        while (!done.load(std::memory_order_relaxed)) {
          const Epochs::Section section(epochs_);
          const Cell* const cell = published.load(std::memory_order_acquire);
          for (const uint64_t word : cell->words)
            torn += word != cell->words[0];
        }
      })));
    }
    for (uint64_t round = 1; round <= kRounds; ++round) {
      std::unique_ptr<Cell> next = std::make_unique<Cell>();
      for (auto cell = retired.begin(); cell != retired.end(); ++cell) {
        if (!epochs_.is_past(cell->first)) continue;
        next = std::move(cell->second);
        retired.erase(cell);
        break;
      }
      next->words.fill(round);
      Cell* const old = published.exchange(next.release(), std::memory_order_acq_rel);
      retired.emplace_back(epochs_.current(), old);
      epochs_.try_advance();
    }
    done = true;
  }
  delete published.load();
  EXPECT_EQ(torn, 0u);
}

INSTANTIATE_TEST_SUITE_P(Both, EpochsTest, testing::Values(Epochs::Fence::kBestOffered, Epochs::Fence::kReadersOwn),
                         [](const auto& tested) {
                           return tested.param == Epochs::Fence::kReadersOwn ? "readers_own" : "best_offered";
                         });

}  // namespace
}  // namespace rhizome
