#include "attach/staging.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "machine/mapping.h"
#include "machine/thread.h"

namespace rhizome {
namespace {

constexpr uint64_t kBytes = 64 << 10;

StagingPiece piece_of(StagingArea& area, uint64_t bytes) {
  std::optional<StagingPiece> piece = area.take(bytes);
  EXPECT_TRUE(piece.has_value()) << bytes;
  return piece ? std::move(*piece) : StagingPiece();
}

TEST(StagingArea, TakesPiecesAndGivesThemBackInAnyOrder) {
  const Mapping memory = Mapping::anonymous(kBytes).value();
  StagingArea area(memory.bytes());
  StagingPiece first = piece_of(area, 1000);
  StagingPiece second = piece_of(area, 64);
  StagingPiece third = piece_of(area, 1);
  EXPECT_EQ(first.offset(), 0u);
  EXPECT_EQ(second.offset(), 1024u);
  EXPECT_EQ(third.offset(), 1088u);
  EXPECT_EQ(first.bytes().size(), 1000u);
  EXPECT_EQ(second.bytes().data(), memory.bytes().data() + 1024);
  EXPECT_EQ(area.free_bytes(), kBytes - 1152);
  second.give_back();
  second.give_back();
  EXPECT_TRUE(second.bytes().empty());
  // It does not fit the gap.
  EXPECT_EQ(piece_of(area, 65).offset(), 1152u);
  EXPECT_EQ(piece_of(area, 64).offset(), 1024u);
  first.give_back();
  third = StagingPiece();
  EXPECT_EQ(area.free_bytes(), kBytes);
  EXPECT_EQ(piece_of(area, kBytes).bytes().size(), kBytes);
}

TEST(StagingArea, IsBounded) {
  const Mapping memory = Mapping::anonymous(1 << 20).value();
  StagingArea area(memory.bytes().first(kBytes));
  EXPECT_FALSE(area.take(0).has_value());
  for (const uint64_t bytes : {kBytes + 1, UINT64_MAX - 63, UINT64_MAX})
    EXPECT_FALSE(area.take(bytes).has_value());
  std::optional<StagingPiece> all = area.take(kBytes - 64);
  ASSERT_TRUE(all.has_value());
  EXPECT_FALSE(area.take(65).has_value());
  EXPECT_TRUE(area.take(64).has_value());
  all.reset();

  StagingArea large(memory.bytes());
  std::vector<StagingPiece> pieces;
  while (auto piece = large.take(1))
    pieces.push_back(std::move(*piece));
  EXPECT_EQ(pieces.size(), StagingArea::kPiecesMax);
  EXPECT_GT(large.free_bytes(), 0u);
  pieces.pop_back();
  EXPECT_TRUE(large.take(1).has_value());

  StagingArea none(std::span<std::byte>{});
  EXPECT_FALSE(none.take(1).has_value());
}

// Against a model that marks each byte.
TEST(StagingArea, NeverGivesAByteTwice) {
  const char* const given = std::getenv("RHIZOME_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20'260'404;
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const Mapping memory = Mapping::anonymous(kBytes).value();
  StagingArea area(memory.bytes());
  std::vector<std::pair<StagingPiece, std::byte>> pieces;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      auto piece = area.take(1 + random() % (random() % 8 == 0 ? kBytes : 2000));
      if (!piece) continue;
      ASSERT_EQ(piece->offset() % StagingArea::kAlignment, 0u);
      const std::byte mark = static_cast<std::byte>(random());
      std::fill(piece->bytes().begin(), piece->bytes().end(), mark);
      pieces.emplace_back(std::move(*piece), mark);
    } else if (!pieces.empty()) {
      std::swap(pieces[random() % pieces.size()], pieces.back());
      const auto& [piece, mark] = pieces.back();
      ASSERT_TRUE(
          std::all_of(piece.bytes().begin(), piece.bytes().end(), [&](std::byte byte) { return byte == mark; }));
      pieces.pop_back();
    }
  }
  pieces.clear();
  EXPECT_EQ(area.free_bytes(), kBytes);
  EXPECT_TRUE(area.take(kBytes).has_value());
}

TEST(StagingArea, IsSharedByThreads) {
  const Mapping memory = Mapping::anonymous(kBytes).value();
  StagingArea area(memory.bytes());
  std::vector<Thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.push_back(start_thread("taker", [&area, i] {
                        for (int step = 0; step < 2000; ++step) {
                          const auto piece = area.take(static_cast<uint64_t>(1 + step % 9000));
                          if (!piece) continue;
                          const std::byte mark = static_cast<std::byte>(i);
                          std::fill(piece->bytes().begin(), piece->bytes().end(), mark);
                          EXPECT_EQ(std::count(piece->bytes().begin(), piece->bytes().end(), mark),
                                    static_cast<ptrdiff_t>(piece->bytes().size()));
                        }
                      }).value());
  }
  threads.clear();
  EXPECT_EQ(area.free_bytes(), kBytes);
}

TEST(StagingAreaDeathTest, AbortsWhenAPieceOutlivesIt) {
  const Mapping memory = Mapping::anonymous(kBytes).value();
  EXPECT_DEATH(
      {
        StagingPiece piece;
        StagingArea area(memory.bytes());
        piece = piece_of(area, 1);
      },
      "check failed");
  EXPECT_DEATH(StagingArea(memory.bytes().subspan(1)), "check failed");
}

TEST(StagingView, ShowsOnlyWhatLiesInside) {
  const Mapping memory = Mapping::anonymous(kBytes).value();
  const StagingView staging(memory.bytes());
  EXPECT_EQ(staging.view(64, 100).value().data(), memory.bytes().data() + 64);
  EXPECT_EQ(staging.view(0, kBytes).value().size(), kBytes);
  EXPECT_EQ(staging.view(kBytes, 0).value().size(), 0u);
  EXPECT_EQ(staging.view_parts(64, 3, 100).value().size(), 300u);
  const uint64_t wrong[][2] = {{0, kBytes + 1},
                               {1, kBytes},
                               {kBytes, 1},
                               {kBytes + 1, 0},
                               {UINT64_MAX, 1},
                               {1, UINT64_MAX},
                               {UINT64_MAX, 0},
                               {UINT64_MAX, UINT64_MAX},
                               {uint64_t{1} << 63, uint64_t{1} << 63}};
  for (const auto& [offset, bytes] : wrong)
    EXPECT_EQ(staging.view(offset, bytes).error().code, Code::kOutOfRange) << offset << " " << bytes;
  const uint64_t wrong_parts[][2] = {
      {uint64_t{1} << 32, uint64_t{1} << 32}, {(uint64_t{1} << 63) + 1, 2}, {UINT64_MAX, UINT64_MAX}, {kBytes, 2}};
  for (const auto& [count, part_bytes] : wrong_parts)
    EXPECT_EQ(staging.view_parts(0, count, part_bytes).error().code, Code::kOutOfRange) << count;
  EXPECT_EQ(StagingView().view(0, 1).error().code, Code::kOutOfRange);
  EXPECT_EQ(StagingView().view(0, 0).value().size(), 0u);
}

}  // namespace
}  // namespace rhizome
