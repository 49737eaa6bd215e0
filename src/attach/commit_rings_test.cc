#include "attach/commit_rings.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <variant>

#include <gtest/gtest.h>

#include "machine/mapping.h"

namespace rhizome {
namespace {

uint64_t seed_of_run() {
  const char* const given = std::getenv("RHIZOME_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20'260'911;
}

TEST(CommitRings, LieApartInTheirMemory) {
  constexpr uint32_t kRecords = 8;
  const Mapping memory = Mapping::anonymous(commit_rings_bytes(kRecords)).value();
  commit_rings_head(memory.bytes()).is_served.store(7);
  std::ranges::fill(submissions_of(memory.bytes(), kRecords), std::byte{1});
  std::ranges::fill(completions_of(memory.bytes(), kRecords), std::byte{2});
  EXPECT_EQ(commit_rings_head(memory.bytes()).is_served.load(), 7u);
  EXPECT_EQ(std::ranges::count(memory.bytes(), std::byte{1}), static_cast<ptrdiff_t>(ring_bytes(kRecords)));
  EXPECT_EQ(std::ranges::count(memory.bytes(), std::byte{2}), static_cast<ptrdiff_t>(ring_bytes(kRecords)));
}

TEST(CommitRings, TakeTheFramesOfACommit) {
  const CommitFrame commit{.keyspace = {UINT32_MAX, 3},
                           .tokens = {UINT64_MAX, UINT32_MAX},
                           .first_block = 5,
                           .blocks_count = UINT32_MAX,
                           .payloads_offset = UINT64_MAX};
  const CommittedFrame committed{.visible_count = 3, .stored_before_count = UINT32_MAX};
  const ErrorFrame refused{.code = Code::kResourceExhausted, .text = {}};
  for (const AnyFrame& frame : {AnyFrame(commit), AnyFrame(committed), AnyFrame(refused)}) {
    const auto record = record_of_frame(frame, UINT64_MAX - 1);
    ASSERT_TRUE(record) << frame.index();
    const auto recorded = frame_of_record(*record);
    ASSERT_TRUE(recorded) << frame.index();
    EXPECT_EQ(recorded->request, UINT64_MAX - 1);
    EXPECT_EQ(recorded->frame, frame);
  }
  EXPECT_FALSE(record_of_frame(HelloFrame{.tenant = std::string(60, 'x')}, 1));
}

TEST(CommitRings, DecodeAnyRecordOrRefuseIt) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE("RHIZOME_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const RingRecord sound = record_of_frame(CommitFrame{}, 1).value();
  size_t decoded = 0;
  for (int round = 0; round < 20'000; ++round) {
    RingRecord record = sound;
    for (uint64_t changes = random() % 4; changes > 0; --changes)
      record.bytes[random() % kRingRecordBytes] = static_cast<std::byte>(random());
    const auto recorded = frame_of_record(record);
    decoded += recorded.has_value();
    if (!recorded) continue;
    EXPECT_TRUE(record_of_frame(recorded->frame, recorded->request));
  }
  EXPECT_GT(decoded, 0u);
  RingRecord noise;
  noise.bytes.fill(std::byte{0xff});
  EXPECT_FALSE(frame_of_record(noise));
  EXPECT_FALSE(frame_of_record(RingRecord{}));
}

}  // namespace
}  // namespace rhizome
