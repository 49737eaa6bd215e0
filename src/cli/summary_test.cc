#include "cli/summary.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace rhizome {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

std::unique_ptr<Counters> busy() {
  auto counters = Counters::local();
  counters->set(Counter::kLookups, 24);
  counters->set(Counter::kTokensLookedUp, 31'510);
  counters->set(Counter::kTokensRestoredSlab, 20'000);
  counters->set(Counter::kTokensRestoredLive, 4'000);
  counters->set(Counter::kTokensKept, 3'264);
  counters->set(Counter::kTokensComputedPrompt, 4'246);
  counters->set(Counter::kTokensComputedGenerated, 384);
  counters->set(Counter::kComputeTimePrompt, 4'246 * kSecond / 100);  // 10 ms each
  counters->set(Counter::kRestoreTime, kSecond / 2);
  counters->set(Counter::kExportTime, kSecond / 4);
  counters->set(Counter::kBytesExported, 64 << 20);
  counters->set(Counter::kBytesRestored, 512 << 20);
  counters->set(Counter::kBlocksExported, 1'265);
  counters->set(Counter::kEvictions, 12);
  counters->set(Counter::kStoppedDiverged, 6);
  counters->set(Counter::kStoppedNeverStored, 1);
  counters->set(Counter::kStoppedLastToken, 17);
  return counters;
}

TEST(SecondsSaved, AreRestoredTokensTimesAComputedOnesLessTheRestoring) {
  const auto counters = busy();
  EXPECT_NEAR(seconds_saved(*counters).value_or(0), 24'000 * 0.010 - 0.5, 1e-9);
}

TEST(SecondsSaved, CanBeALoss) {
  const auto counters = busy();
  counters->set(Counter::kRestoreTime, 300 * kSecond);
  EXPECT_NEAR(seconds_saved(*counters).value_or(0), 240.0 - 300.0, 1e-9);
}

TEST(SecondsSaved, AreUnknownWithoutAMeasure) {
  const auto counters = Counters::local();
  counters->set(Counter::kTokensRestoredSlab, 100);
  EXPECT_EQ(seconds_saved(*counters), std::nullopt);
}

TEST(SummaryText, IsOneAlignedBlock) {
  EXPECT_EQ(summary_text(*busy()),
            "rhizome: 24 prompts\n"
            "  looked up  31,510 tokens\n"
            "  restored   24,000 tokens (slab 20,000, live 4,000), 512MiB in 0.50 s\n"
            "  kept       3,264 tokens that were still in their engine slot\n"
            "  computed   4,246 prompt tokens in 42.5 s; generated 384\n"
            "  time saved 239.5 s (10.00 ms a computed prompt token)\n"
            "  stored     1,265 blocks, 64MiB in 0.25 s; evicted 12\n"
            "  stopped    last_token 17, diverged 6, never_stored 1\n");
}

TEST(SummaryText, OneBlockIsOne) {
  const auto counters = busy();
  counters->set(Counter::kBlocksExported, 1);
  counters->set(Counter::kTierCapacity, 1 << 20);
  counters->set(Counter::kBlocksWritten, 1);
  const std::string text = summary_text(*counters);
  EXPECT_NE(text.find("  stored     1 block, "), std::string::npos) << text;
  EXPECT_NE(text.find("  disk       wrote 1 block, "), std::string::npos) << text;
}

TEST(SummaryText, NamesFaultsOnlyWhenThereAreSome) {
  const auto counters = busy();
  counters->set(Counter::kChecksumFailures, 2);
  counters->set(Counter::kImportsFailed, 1);
  counters->set(Counter::kTokensComputedRebuilt, 300);
  counters->set(Counter::kBlocksRefused, 7);
  const std::string text = summary_text(*counters);
  EXPECT_NE(text.find("  faults     checksum failures 2, restores that failed 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  rebuilt    300 tokens after a fault\n"), std::string::npos) << text;
  EXPECT_NE(text.find("; evicted 12; refused 7\n"), std::string::npos) << text;
}

TEST(SummaryText, SaysThatNothingWasAsked) {
  const auto counters = Counters::local();
  EXPECT_EQ(summary_text(*counters), "rhizome: no prompt was looked up\n");
  counters->add(Counter::kContextsPassedThrough);
  EXPECT_NE(summary_text(*counters).find("left alone"), std::string::npos);
}

TEST(SummaryJson, IsOneObjectOnOneLine) {
  const std::string text = summary_json(*busy());
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto object = nlohmann::json::parse(text);
  EXPECT_EQ(object["lookups"], 24);
  EXPECT_EQ(object["tokens_restored"]["live"], 4'000);
  EXPECT_EQ(object["tokens_computed"]["prompt"], 4'246);
  EXPECT_NEAR(object["seconds_saved"].get<double>(), 239.5, 1e-6);
  EXPECT_EQ(object["stopped"]["diverged"], 6);
  EXPECT_FALSE(object["stopped"].contains("full"));
  EXPECT_TRUE(nlohmann::json::parse(summary_json(*Counters::local()))["seconds_saved"].is_null());
}

}  // namespace
}  // namespace rhizome
