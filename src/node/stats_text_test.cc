#include "node/stats_text.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "attach/frame.h"
#include "node/keyspace_words.h"
#include "store/store_tier_fixture.h"

namespace rhizome {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

TEST(StatsText, KeyspacesByTier) {
  TieredUser user;
  const Root a = user.open(keyspace_named("a"));
  const Root b = user.open(keyspace_named("b"));
  user.put(a, chain(1, 2));
  user.put(b, chain(1, 5));
  user.settle();
  user.store->flush(user.clock.monotonic_ns() + kSecondNs);
  user.settle();
  ASSERT_EQ(user.store->block_counts().copies, 7u);
  const KeyspaceUsage of_b = user.store->keyspace_usages()[1];
  const std::string text = stats_text(*user.store, *user.counters, "a \"b\\");
  EXPECT_TRUE(text.starts_with(R"({"tenant":"a \"b\\","block_tokens":16,"keyspaces":2,"memory":{)")) << text;
  EXPECT_EQ(count(text, R"("disk":{"capacity_bytes":67108864,"used_bytes":)"), 1u) << text;
  const std::string first = R"("keyspace_list":[{"name":")" + keyspace_name(keyspace_named("b")) +
                            R"(","words":"engine, weights weights, dense","number":)" + std::to_string(b.value) +
                            R"(,"generation":)" + std::to_string(b.generation) + R"(,"memory":{"blocks":5,"bytes":)" +
                            std::to_string(5 * (3000 + identity_bytes(16))) + R"(},"disk":{"blocks":5,"bytes":)" +
                            std::to_string(of_b.blocks.copies_bytes) + R"(,"alone":0}},)";
  EXPECT_GT(of_b.blocks.copies_bytes, 5 * 1000u);
  EXPECT_EQ(count(text, first), 1u) << text << "\n" << first;
  EXPECT_TRUE(text.ends_with(R"(],"keyspaces_untold":{"keyspaces":0,"blocks":0,"bytes":0,"disk_bytes":0}})")) << text;
  ASSERT_TRUE(StoreTestAccess::demote_one(*user.store));
  EXPECT_EQ(count(stats_text(*user.store, *user.counters, ""), R"("alone":1})"), 1u);
}

TEST(StatsText, ManyKeyspacesFitAFrame) {
  StoreUser user(64 << 20);
  for (int opened = 0; opened < 400; ++opened) {
    const std::string longest(200, static_cast<char>('A' + opened % 26));
    const Root root = user.open(*complete_keyspace()
                                     .set(KeyspaceTag::kEngine, longest)
                                     .set(KeyspaceTag::kWeights, longest)
                                     .set(KeyspaceTag::kMemoryClass, longest)
                                     .set(KeyspaceTag::kTenant, std::to_string(opened))
                                     .seal());
    if (opened % 2 == 0) user.put(root, chain(1, 1));
  }
  const std::string text = stats_text(*user.store, *user.counters, std::string(kTenantBytesMax, '"'));
  EXPECT_LE(text.size(), kStatsBytesMax);
  EXPECT_EQ(count(text, R"("memory":{"blocks":1,)"), kKeyspacesToldMax) << "those that hold something";
  EXPECT_TRUE(text.ends_with(R"("keyspaces_untold":{"keyspaces":300,"blocks":100,"bytes":)" +
                             std::to_string(100 * (3000 + identity_bytes(16))) + R"(,"disk_bytes":0}})"))
      << text.substr(text.size() - 200);
}

}  // namespace
}  // namespace rhizome
