#include "cli/node_text.h"

#include <gtest/gtest.h>

namespace rhizome {
namespace {

NodeStats some_stats() {
  return NodeStats::parse(R"({"process":7,"tenant":"me","block_tokens":16,"keyspaces":2,
      "memory":{"capacity_bytes":1048576,"used_bytes":524288,"blocks":9},
      "disk":{"blocks":4,"alone":3,"capacity_bytes":4194304,"used_bytes":1048576},
      "index":{"runs":5,"bytes":2048},
      "engines":{"contexts":1,"prompts":3,"tokens_looked_up":200,"tokens_kept":40,"tokens_restored":150}})");
}

NodeSpan some_span() {
  NodeSpan span;
  span.stats = some_stats();
  span.before.values.resize(kCountersCount);
  span.now.values.resize(kCountersCount);
  const auto set = [&](Counter counter, uint64_t before, uint64_t now) {
    span.before.values[static_cast<uint32_t>(counter)] = before;
    span.now.values[static_cast<uint32_t>(counter)] = now;
  };
  set(Counter::kTokensLookedUp, 100, 300);
  set(Counter::kTokensRestoredSlab, 0, 50);
  set(Counter::kTokensKept, 20, 60);
  set(Counter::kTokensRestoredLive, 10, 60);
  set(Counter::kEvictions, 5, 0);  // its process has ended
  span.seconds = 2;
  return span;
}

TEST(NodeText, SaysWhatANodeHolds) {
  EXPECT_EQ(stats_lines(some_stats()),
            "node of process 7, tenant me, blocks of 16 tokens\n"
            "  memory    512KiB of 1MiB, 9 blocks (50 %)\n"
            "  disk      1MiB of 4MiB, 4 blocks, 3 of them not in memory\n"
            "  index     2 keyspaces, 5 runs, 2KiB\n"
            "  engines   1 contexts, 3 prompts of 200 tokens: 40 (20 %) kept in their slots, 150 (75 %) restored\n");
}

NodeStats with_keyspaces(uint64_t count) {
  NodeStats stats = some_stats();
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = "abc" + std::string(1, "0123456789abcdef"[i % 16]) + std::to_string(10000000 + i);
    stats["keyspace_list"].push_back({{"name", name},
                                      {"words", "engine, weights w"},
                                      {"number", i + 1},
                                      {"generation", 3},
                                      {"memory", {{"blocks", i}, {"bytes", 1024 * i}}},
                                      {"disk", {{"blocks", 2 * i}, {"bytes", 512 * i}, {"alone", i}}}});
  }
  return stats;
}

TEST(NodeText, SaysWhatKeyspacesHold) {
  const std::string text = stats_lines(with_keyspaces(3));
  EXPECT_NE(text.find("            abc010000000  0 blocks, 0B; engine, weights w\n"
                      "            abc110000001  1 block, 1KiB; disk 2 blocks, 512B, 1 of them not in memory; engine, "
                      "weights w\n"),
            std::string::npos)
      << text;
  NodeStats many = with_keyspaces(30);
  EXPECT_NE(stats_lines(many).find("            and 10 more with 245 blocks, 245KiB\n"), std::string::npos)
      << stats_lines(many);
  many["keyspaces_untold"] = {{"keyspaces", 5}, {"blocks", 1}, {"bytes", 1024}};
  EXPECT_NE(stats_lines(many).find("            and 15 more with 246 blocks, 246KiB\n"), std::string::npos);
}

TEST(NodeText, ChoosesAKeyspaceByHowItsNameBegins) {
  NodeStats stats = with_keyspaces(30);
  const auto chosen = choose_keyspace(stats, "abc1100000");
  EXPECT_FALSE(chosen) << "two begin like that";
  EXPECT_NE(chosen.error().find("2 keyspaces begin like that"), std::string::npos) << chosen.error();
  const auto found = choose_keyspace(stats, "abc110000001");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, (KeyspaceNumber{2, 3}));
  EXPECT_EQ(found->blocks, 2u);
  EXPECT_TRUE(choose_keyspace(stats, "abce"));
  EXPECT_NE(choose_keyspace(stats, "ffff").error().find("has no such keyspace"), std::string::npos);
  EXPECT_NE(choose_keyspace(NodeStats::object(), "ffff").error().find("has no such keyspace"), std::string::npos);
  // Others that are not told of may begin the same way.
  stats["keyspaces_untold"] = {{"keyspaces", 5}};
  EXPECT_NE(choose_keyspace(stats, "abce").error().find("give all digits, abce10000014"), std::string::npos);
  EXPECT_TRUE(choose_keyspace(stats, "abce10000014"));
  EXPECT_NE(choose_keyspace(stats, "ffff").error().find("does not tell of such a keyspace"), std::string::npos);
}

TEST(NodeText, SaysWhatAKilledNodeHasLeft) {
  NodeStats stats = some_stats();
  EXPECT_EQ(stats_lines(stats).find("adopted"), std::string::npos);
  stats["memory"]["adopted_bytes"] = 3 << 20;
  EXPECT_NE(stats_lines(stats).find("\n  adopted   3MiB of a killed node's memory"), std::string::npos);
}

TEST(NodeText, StandsWhatIsMissing) {
  const std::string text = stats_lines(NodeStats::object());
  EXPECT_NE(text.find("no tenant"), std::string::npos) << text;
  EXPECT_EQ(text.find("  disk"), std::string::npos) << text;
}

TEST(NodeText, ShowsRates) {
  const std::string screen = top_screen(some_span(), 74);
  EXPECT_NE(screen.find("  memory    [##########----------] 512KiB of 1MiB, 9 blocks\n"), std::string::npos) << screen;
  EXPECT_NE(screen.find("50 % of 100 tokens/s, kept 20 tokens/s\n"), std::string::npos) << screen;
  EXPECT_NE(screen.find("evicted 0 blocks/s"), std::string::npos) << screen;
  for (const std::string& line : {top_screen(some_span(), 20), top_screen(some_span(), 0)})
    EXPECT_EQ(line.find('['), std::string::npos) << line;
  EXPECT_EQ(top_line(some_span()),
            "memory 512KiB of 1MiB, 9 blocks; looked up 100 tokens/s, restored 50 tokens/s, computed 0 tokens/s, "
            "stored 0 blocks/s\n");
}

}  // namespace
}  // namespace rhizome
