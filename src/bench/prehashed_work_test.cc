#include "bench/prehashed_work.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace rhizome::bench {
namespace {

Trace trace() {
  std::string wrong;
  const char* const text =
      "{\"input_length\": 1024, \"hash_ids\": [5, 6]}\n"
      "{\"input_length\": 1536, \"hash_ids\": [5, 6, 7]}\n"
      "{\"input_length\": 1024, \"hash_ids\": [6, 7]}\n"
      "{\"input_length\": 512, \"hash_ids\": [5]}\n";
  return *parse_trace(text, wrong);
}

TEST(PrehashedWork, ARequestKnowsWhatWasStoredBeforeIt) {
  const PrehashedWork work = prehash(trace(), 4, 256);
  ASSERT_EQ(work.requests.size(), 4u);
  EXPECT_EQ(work.looked_up, 16u);
  EXPECT_EQ(work.longest, 6u);
  EXPECT_EQ(work.stored(), 10u);
  EXPECT_EQ(work.requests[0].known, 0u);
  EXPECT_EQ(work.requests[1].known, 4u);
  EXPECT_EQ(work.requests[2].known, 0u);
  EXPECT_EQ(work.requests[3].known, 2u);
  EXPECT_EQ(work.new_names(work.requests[1]).size(), 2u);
  EXPECT_EQ(work.new_locations(work.requests[1])[0], 4u);
  EXPECT_EQ(work.new_names(work.requests[3]).size(), 0u);
}

TEST(PrehashedWork, HashesAreOfContentAndNamesOfThePath) {
  const PrehashedWork work = prehash(trace(), 4, 512);
  EXPECT_EQ(work.requests[1].hashes[1], work.requests[2].hashes[0]);
  EXPECT_NE(work.requests[1].numbers[1], work.requests[2].numbers[0]);
  const std::set<uint64_t> names(work.names.begin(), work.names.end());
  EXPECT_EQ(names.size(), work.names.size());
}

TEST(PrehashedWork, OnlyTheFirstRequests) {
  const PrehashedWork work = prehash(trace(), 1, 512);
  EXPECT_EQ(work.requests.size(), 1u);
  EXPECT_EQ(work.stored(), 2u);
}

}  // namespace
}  // namespace rhizome::bench
