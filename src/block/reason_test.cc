#include "block/reason.h"

#include <set>

#include <gtest/gtest.h>

namespace rhizome {
namespace {

TEST(Reason, HasTheWordsOfTheMetrics) {
  constexpr std::string_view kWords[] = {
      "full",    "last_token", "partial_block", "never_stored", "diverged",      "evicted", "in_flight", "load_failed",
      "corrupt", "keyspace",   "stale_epoch",   "no_snapshot",  "not_cacheable", "quota",   "bypass",    "off"};
  static_assert(std::size(kWords) == kReasonsCount);
  std::set<std::string_view> distinct;
  for (int i = 0; i < kReasonsCount; ++i) {
    EXPECT_EQ(reason_name(static_cast<Reason>(i)), kWords[i]);
    distinct.insert(kWords[i]);
  }
  EXPECT_EQ(distinct.size(), static_cast<size_t>(kReasonsCount));
  EXPECT_EQ(reason_name(static_cast<Reason>(kReasonsCount)), "unknown");
}

}  // namespace
}  // namespace rhizome
