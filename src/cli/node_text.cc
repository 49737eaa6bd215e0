#include "cli/node_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "machine/units.h"

namespace rhizome {
namespace {

constexpr size_t kNameWidth = 10;
constexpr size_t kBarMost = 40;
constexpr size_t kTextWidth = 44;  // beside a bar
constexpr size_t kKeyspacesShown = 20;

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
}

std::string percent(double value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.0f %%", value * 100);
  return text.data();
}

std::string named(const std::string& name, const std::string& text) {
  return "  " + name + std::string(name.size() < kNameWidth ? kNameWidth - name.size() : 1, ' ') + text + "\n";
}

std::string title(const NodeStats& stats) {
  const std::string tenant = stats.value("tenant", "");
  return "node of process " + std::to_string(stats.value("process", 0)) + ", " +
         (tenant.empty() ? "no tenant" : "tenant " + tenant) + ", blocks of " +
         std::to_string(stats.value("block_tokens", 0)) + " tokens\n";
}

std::string blocks_text(uint64_t blocks, uint64_t bytes) {
  return format_count(blocks, "block") + ", " + format_bytes(bytes);
}

std::string memory_text(const NodeStats& stats) {
  return format_bytes(number_of(stats, "memory", "used_bytes")) + " of " +
         format_bytes(number_of(stats, "memory", "capacity_bytes")) + ", " +
         format_count(number_of(stats, "memory", "blocks"), "block");
}

std::string disk_text(const NodeStats& stats) {
  return format_bytes(number_of(stats, "disk", "used_bytes")) + " of " +
         format_bytes(number_of(stats, "disk", "capacity_bytes")) + ", " +
         format_count(number_of(stats, "disk", "blocks"), "block");
}

// One line for each keyspace, those that hold most first.
std::string keyspaces_text(const NodeStats& stats) {
  std::string text;
  size_t shown = 0;
  uint64_t more = number_of(stats, "keyspaces_untold", "keyspaces");
  uint64_t blocks = number_of(stats, "keyspaces_untold", "blocks");
  uint64_t bytes = number_of(stats, "keyspaces_untold", "bytes");
  for (const NodeStats& one : stats.value("keyspace_list", NodeStats::array())) {
    if (!one.is_object()) continue;
    if (shown == kKeyspacesShown) {
      ++more;
      blocks += number_of(one, "memory", "blocks");
      bytes += number_of(one, "memory", "bytes");
      continue;
    }
    ++shown;
    std::string line = blocks_text(number_of(one, "memory", "blocks"), number_of(one, "memory", "bytes"));
    if (number_of(one, "disk", "blocks") > 0) {
      line += "; disk " + blocks_text(number_of(one, "disk", "blocks"), number_of(one, "disk", "bytes")) + ", " +
              std::to_string(number_of(one, "disk", "alone")) + " of them not in memory";
    }
    text += named("", one.value("name", "") + "  " + line + "; " + one.value("words", ""));
  }
  if (more > 0) text += named("", "and " + std::to_string(more) + " more with " + blocks_text(blocks, bytes));
  return text;
}

std::string bar(double filled, size_t width) {
  const size_t cells = std::min(kBarMost, width > kNameWidth + kTextWidth ? width - kNameWidth - kTextWidth : 0);
  if (cells < 4) return "";
  const auto full = static_cast<size_t>(std::lround(filled * static_cast<double>(cells)));
  return "[" + std::string(full, '#') + std::string(cells - full, '-') + "] ";
}

// What was added in a second, of counters.
class Rates {
 public:
  explicit Rates(const NodeSpan& span) : span_(span) {}

  double of(std::initializer_list<Counter> counters) const {
    double sum = 0;
    for (const Counter counter : counters) {
      // A page may have gone with its process in between.
      const uint64_t before = span_.before.get(counter);
      const uint64_t now = span_.now.get(counter);
      sum += now > before ? static_cast<double>(now - before) : 0;
    }
    return span_.seconds > 0 ? sum / span_.seconds : 0;
  }
  std::string text(std::initializer_list<Counter> counters, const char* unit) const {
    std::array<char, 64> text{};
    const double rate = of(counters);
    std::snprintf(text.data(), text.size(), "%.*f %s/s", rate > 0 && rate < 10 ? 1 : 0, rate, unit);
    return text.data();
  }
  std::string bytes_text(std::initializer_list<Counter> counters) const {
    return format_bytes(static_cast<uint64_t>(of(counters))) + "/s";
  }

 private:
  const NodeSpan& span_;
};

constexpr std::initializer_list<Counter> kRestored = {Counter::kTokensRestoredSlab, Counter::kTokensRestoredDisk,
                                                      Counter::kTokensRestoredLive};

}  // namespace

std::string stats_lines(const NodeStats& stats) {
  std::string text = title(stats);
  const double used = share(number_of(stats, "memory", "used_bytes"), number_of(stats, "memory", "capacity_bytes"));
  text += named("memory", memory_text(stats) + " (" + percent(used) + ")");
  if (number_of(stats, "disk", "capacity_bytes") > 0) {
    text += named(
        "disk", disk_text(stats) + ", " + std::to_string(number_of(stats, "disk", "alone")) + " of them not in memory");
  }
  text += named("index", std::to_string(stats.value("keyspaces", 0)) + " keyspaces, " +
                             std::to_string(number_of(stats, "index", "runs")) + " runs, " +
                             format_bytes(number_of(stats, "index", "bytes")));
  text += keyspaces_text(stats);
  if (const uint64_t adopted = number_of(stats, "memory", "adopted_bytes"); adopted > 0) {
    text += named("adopted", format_bytes(adopted) + " of a killed node's memory, which empties by and by");
  }
  const uint64_t looked_up = number_of(stats, "engines", "tokens_looked_up");
  const uint64_t kept = number_of(stats, "engines", "tokens_kept");
  const uint64_t restored = number_of(stats, "engines", "tokens_restored");
  text += named("engines", std::to_string(number_of(stats, "engines", "contexts")) + " contexts, " +
                               std::to_string(number_of(stats, "engines", "prompts")) + " prompts of " +
                               std::to_string(looked_up) + " tokens: " + std::to_string(kept) + " (" +
                               percent(share(kept, looked_up)) + ") kept in their slots, " + std::to_string(restored) +
                               " (" + percent(share(restored, looked_up)) + ") restored");
  return text;
}

std::string top_screen(const NodeSpan& span, size_t width) {
  const NodeStats& stats = span.stats;
  const Rates rates(span);
  std::string text = title(stats);
  const auto line = [&](const char* name, double filled, const std::string& words) {
    text += named(name, bar(filled, width) + words);
  };
  line("memory", share(number_of(stats, "memory", "used_bytes"), number_of(stats, "memory", "capacity_bytes")),
       memory_text(stats));
  if (number_of(stats, "disk", "capacity_bytes") > 0) {
    line("disk", share(number_of(stats, "disk", "used_bytes"), number_of(stats, "disk", "capacity_bytes")),
         disk_text(stats));
  }
  const double looked_up = rates.of({Counter::kTokensLookedUp});
  const double restored = rates.of(kRestored);
  const double found = looked_up > 0 ? std::min(1.0, restored / looked_up) : 0;
  line("restored", found,
       percent(found) + " of " + rates.text({Counter::kTokensLookedUp}, "tokens") + ", kept " +
           rates.text({Counter::kTokensKept}, "tokens"));
  text += named("prompts", rates.text({Counter::kLookups}, "") + ", " +
                               std::to_string(number_of(stats, "engines", "contexts")) + " contexts, " +
                               std::to_string(number_of(stats, "clients", "attached")) + " clients with this call");
  text += named("read", rates.text(kRestored, "tokens") + ", " + rates.bytes_text({Counter::kBytesRestored}));
  text += named("computed", rates.text({Counter::kTokensComputedPrompt}, "tokens") + ", generated " +
                                rates.text({Counter::kTokensComputedGenerated}, "tokens"));
  text += named("stored", rates.text({Counter::kBlocksExported}, "blocks") + ", " +
                              rates.bytes_text({Counter::kBytesExported}) + ", evicted " +
                              rates.text({Counter::kEvictions}, "blocks"));
  return text;
}

std::string top_line(const NodeSpan& span) {
  const Rates rates(span);
  return "memory " + memory_text(span.stats) + "; looked up " + rates.text({Counter::kTokensLookedUp}, "tokens") +
         ", restored " + rates.text(kRestored, "tokens") + ", computed " +
         rates.text({Counter::kTokensComputedPrompt}, "tokens") + ", stored " +
         rates.text({Counter::kBlocksExported}, "blocks") + "\n";
}

}  // namespace rhizome
