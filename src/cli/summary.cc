#include "cli/summary.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "machine/units.h"

namespace rhizome {
namespace {

constexpr std::string_view kStopped = "rhizome_lookup_stopped_total";

// 1234567 -> "1,234,567".
std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t at = text.size(); at > 3; at -= 3)
    text.insert(at - 3, ",");
  return text;
}

std::string blocks_text(uint64_t blocks) {
  return grouped(blocks) + (blocks == 1 ? " block" : " blocks");
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f s", seconds < 10 && seconds > -10 ? 2 : 1, seconds);
  return text;
}

double seconds_of(const Counters& counters, Counter counter) {
  return static_cast<double>(counters.get(counter)) / 1e9;
}

uint64_t restored(const Counters& counters) {
  return counters.get(Counter::kTokensRestoredSlab) + counters.get(Counter::kTokensRestoredDisk) +
         counters.get(Counter::kTokensRestoredLive);
}

// The reasons that occurred, the most frequent first.
std::vector<std::pair<std::string, uint64_t>> reasons_of(const Counters& counters) {
  std::vector<std::pair<std::string, uint64_t>> reasons;
  for (uint32_t i = 0; i < kCountersCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    const CounterInfo& described = counter_info(counter);
    const uint64_t count = counters.get(counter);
    if (described.name != kStopped || count == 0) continue;
    const size_t open = described.labels.find('"') + 1;
    reasons.emplace_back(described.labels.substr(open, described.labels.rfind('"') - open), count);
  }
  std::ranges::sort(reasons, [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return reasons;
}

std::string line(const char* name, const std::string& text) {
  char head[32];
  std::snprintf(head, sizeof head, "  %-11s", name);
  return head + text + "\n";
}

std::string saved_text(const Counters& counters) {
  const auto saved = seconds_saved(counters);
  if (!saved) return "unknown: no prompt token was computed to measure by";
  const double each = seconds_of(counters, Counter::kComputeTimePrompt) /
                      static_cast<double>(counters.get(Counter::kTokensComputedPrompt));
  char text[48];
  std::snprintf(text, sizeof text, " (%.2f ms a computed prompt token)", each * 1e3);
  return seconds_text(*saved) + text;
}

std::string stored_text(const Counters& counters) {
  std::string text = blocks_text(counters.get(Counter::kBlocksExported)) + ", " +
                     format_bytes(counters.get(Counter::kBytesExported)) + " in " +
                     seconds_text(seconds_of(counters, Counter::kExportTime)) + "; evicted " +
                     grouped(counters.get(Counter::kEvictions));
  if (const uint64_t refused = counters.get(Counter::kBlocksRefused)) text += "; refused " + grouped(refused);
  return text;
}

std::string disk_text(const Counters& counters) {
  std::string text = "wrote " + blocks_text(counters.get(Counter::kBlocksWritten)) + ", " +
                     format_bytes(counters.get(Counter::kBytesWrittenTier)) + "; read " +
                     grouped(counters.get(Counter::kPromotions)) + ", " +
                     format_bytes(counters.get(Counter::kBytesReadTier));
  if (const uint64_t failed = counters.get(Counter::kLoadsFailed)) text += "; loads that failed " + grouped(failed);
  if (const uint64_t failed = counters.get(Counter::kWritesFailed)) text += "; writes that failed " + grouped(failed);
  return text;
}

std::string faults_text(const Counters& counters) {
  std::string text;
  const auto add = [&](const char* name, Counter counter) {
    const uint64_t count = counters.get(counter);
    if (count == 0) return;
    if (!text.empty()) text += ", ";
    text += std::string(name) + " " + grouped(count);
  };
  add("checksum failures", Counter::kChecksumFailures);
  add("identity mismatches", Counter::kIdentityMismatches);
  add("checksum failures on disk", Counter::kChecksumFailuresTier);
  add("identity mismatches on disk", Counter::kIdentityMismatchesTier);
  add("restores that failed", Counter::kImportsFailed);
  return text;
}

}  // namespace

std::optional<double> seconds_saved(const Counters& counters) {
  const uint64_t computed = counters.get(Counter::kTokensComputedPrompt);
  if (computed == 0) return std::nullopt;
  const double each = seconds_of(counters, Counter::kComputeTimePrompt) / static_cast<double>(computed);
  return static_cast<double>(restored(counters)) * each - seconds_of(counters, Counter::kRestoreTime);
}

std::string summary_text(const Counters& counters) {
  const uint64_t lookups = counters.get(Counter::kLookups);
  if (lookups == 0) {
    return counters.get(Counter::kContextsPassedThrough) > 0
               ? "rhizome: no prompt was looked up; the engine was left alone, as said above\n"
               : "rhizome: no prompt was looked up\n";
  }
  const std::string disk =
      counters.get(Counter::kTierCapacity) == 0 ? "" : ", disk " + grouped(counters.get(Counter::kTokensRestoredDisk));
  std::string text = "rhizome: " + grouped(lookups) + (lookups == 1 ? " prompt\n" : " prompts\n");
  text += line("looked up", grouped(counters.get(Counter::kTokensLookedUp)) + " tokens");
  text += line("restored", grouped(restored(counters)) + " tokens (slab " +
                               grouped(counters.get(Counter::kTokensRestoredSlab)) + disk + ", live " +
                               grouped(counters.get(Counter::kTokensRestoredLive)) + "), " +
                               format_bytes(counters.get(Counter::kBytesRestored)) + " in " +
                               seconds_text(seconds_of(counters, Counter::kRestoreTime)));
  text += line("kept", grouped(counters.get(Counter::kTokensKept)) + " tokens that were still in their engine slot");
  text += line("computed", grouped(counters.get(Counter::kTokensComputedPrompt)) + " prompt tokens in " +
                               seconds_text(seconds_of(counters, Counter::kComputeTimePrompt)) + "; generated " +
                               grouped(counters.get(Counter::kTokensComputedGenerated)));
  if (const uint64_t rebuilt = counters.get(Counter::kTokensComputedRebuilt)) {
    text += line("rebuilt", grouped(rebuilt) + " tokens after a fault");
  }
  text += line("time saved", saved_text(counters));
  text += line("stored", stored_text(counters));
  if (counters.get(Counter::kTierCapacity) > 0) text += line("disk", disk_text(counters));
  std::string stopped;
  for (const auto& [reason, count] : reasons_of(counters)) {
    stopped += (stopped.empty() ? "" : ", ") + reason + " " + grouped(count);
  }
  text += line("stopped", stopped.empty() ? "-" : stopped);
  if (const std::string faults = faults_text(counters); !faults.empty()) text += line("faults", faults);
  return text;
}

std::string summary_json(const Counters& counters) {
  nlohmann::ordered_json stopped = nlohmann::ordered_json::object();
  for (const auto& [reason, count] : reasons_of(counters))
    stopped[reason] = count;
  const auto saved = seconds_saved(counters);
  const nlohmann::ordered_json summary = {
      {"lookups", counters.get(Counter::kLookups)},
      {"lookups_hit", counters.get(Counter::kLookupsHit)},
      {"tokens_looked_up", counters.get(Counter::kTokensLookedUp)},
      {"tokens_restored",
       {{"slab", counters.get(Counter::kTokensRestoredSlab)},
        {"disk", counters.get(Counter::kTokensRestoredDisk)},
        {"live", counters.get(Counter::kTokensRestoredLive)}}},
      {"tokens_kept", counters.get(Counter::kTokensKept)},
      {"tokens_computed",
       {{"prompt", counters.get(Counter::kTokensComputedPrompt)},
        {"generated", counters.get(Counter::kTokensComputedGenerated)},
        {"probe", counters.get(Counter::kTokensComputedProbe)},
        {"rebuilt", counters.get(Counter::kTokensComputedRebuilt)}}},
      {"seconds_saved", saved ? nlohmann::ordered_json(*saved) : nlohmann::ordered_json()},
      {"compute_seconds",
       {{"prompt", seconds_of(counters, Counter::kComputeTimePrompt)},
        {"generate", seconds_of(counters, Counter::kComputeTimeGenerate)}}},
      {"restore_seconds", seconds_of(counters, Counter::kRestoreTime)},
      {"export_seconds", seconds_of(counters, Counter::kExportTime)},
      {"bytes_restored", counters.get(Counter::kBytesRestored)},
      {"bytes_exported", counters.get(Counter::kBytesExported)},
      {"blocks_exported", counters.get(Counter::kBlocksExported)},
      {"blocks_refused", counters.get(Counter::kBlocksRefused)},
      {"evictions", counters.get(Counter::kEvictions)},
      {"disk",
       {{"blocks_written", counters.get(Counter::kBlocksWritten)},
        {"bytes_written", counters.get(Counter::kBytesWrittenTier)},
        {"blocks_read", counters.get(Counter::kPromotions)},
        {"bytes_read", counters.get(Counter::kBytesReadTier)},
        {"loads_failed", counters.get(Counter::kLoadsFailed)},
        {"writes_failed", counters.get(Counter::kWritesFailed)}}},
      {"stopped", stopped},
  };
  return summary.dump() + "\n";
}

}  // namespace rhizome
