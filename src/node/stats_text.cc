#include "node/stats_text.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "node/keyspace_words.h"

namespace rhizome {
namespace {

using Fields = std::initializer_list<std::pair<const char*, uint64_t>>;

// JSON's own escapes for what a tenant's name may hold; what is not printable is none of its.
std::string quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c < ' ' ? '?' : c;
  }
  return quoted + "\"";
}

std::string numbers(Fields fields) {
  std::string text = "{";
  for (const auto& [name, value] : fields) {
    text += (text.size() == 1 ? "" : ",") + quoted(name) + ":" + std::to_string(value);
  }
  return text + "}";
}

uint64_t bytes_of(const KeyspaceUsage& usage) {
  return usage.blocks.resident * usage.slot_bytes + usage.blocks.copies_bytes;
}

std::string keyspace_text(const KeyspaceUsage& usage) {
  const KeyspaceCounts& blocks = usage.blocks;
  return "{\"name\":" + quoted(keyspace_name(*usage.keyspace)) +
         ",\"words\":" + quoted(keyspace_words(*usage.keyspace)) + ",\"number\":" + std::to_string(usage.root.value) +
         ",\"generation\":" + std::to_string(usage.root.generation) +
         ",\"memory\":" + numbers({{"blocks", blocks.resident}, {"bytes", blocks.resident * usage.slot_bytes}}) +
         ",\"disk\":" + numbers({{"blocks", blocks.copies}, {"bytes", blocks.copies_bytes}, {"alone", blocks.below}}) +
         "}";
}

// Members of the whole object: those that hold most, and how much the rest is.
std::string keyspaces_text(const Store& store) {
  std::vector<KeyspaceUsage> usages = store.keyspace_usages();
  // Of two that hold as much, the one that was opened first.
  std::ranges::stable_sort(usages, std::ranges::greater(), bytes_of);
  const auto told = std::span(usages).first(std::min(usages.size(), kKeyspacesToldMax));
  std::string text = ",\"keyspace_list\":[";
  for (const KeyspaceUsage& usage : told)
    text += (text.back() == '[' ? "" : ",") + keyspace_text(usage);
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t disk_bytes = 0;
  for (const KeyspaceUsage& usage : std::span(usages).subspan(told.size())) {
    blocks += usage.blocks.resident;
    bytes += usage.blocks.resident * usage.slot_bytes;
    disk_bytes += usage.blocks.copies_bytes;
  }
  return text + "],\"keyspaces_untold\":" +
         numbers({{"keyspaces", usages.size() - told.size()},
                  {"blocks", blocks},
                  {"bytes", bytes},
                  {"disk_bytes", disk_bytes}});
}

}  // namespace

std::string stats_text(const Store& store, const Counters& counters, std::string_view tenant) {
  const SlabUsage slab = store.slab_usage();
  const IndexUsage index = store.index_usage();
  const BlockCounts blocks = store.block_counts();
  return "{\"tenant\":" + quoted(tenant) + ",\"block_tokens\":" + std::to_string(store.block_tokens()) +
         ",\"keyspaces\":" + std::to_string(index.roots) + ",\"memory\":" +
         numbers({{"capacity_bytes", slab.budget_bytes},
                  {"used_bytes", slab.used_bytes},
                  {"stored_bytes", slab.stored_bytes},
                  {"pinned_bytes", slab.pinned_bytes},
                  {"adopted_bytes", slab.adopted_bytes},
                  {"retired_bytes", counters.get(Counter::kMemoryRetired)},
                  {"blocks", blocks.resident}}) +
         ",\"clients\":" + numbers({{"attached", counters.get(Counter::kClientsAttached)}}) + ",\"disk\":" +
         numbers({{"capacity_bytes", counters.get(Counter::kTierCapacity)},
                  {"used_bytes", counters.get(Counter::kTierUsed)},
                  {"blocks", blocks.copies},
                  {"alone", blocks.below},
                  {"queued", blocks.queued}}) +
         ",\"index\":" +
         numbers({{"blocks", index.blocks},
                  {"runs", index.runs},
                  {"bytes", index.bytes},
                  {"withheld_blocks", index.withheld_blocks}}) +
         keyspaces_text(store) + "}";
}

}  // namespace rhizome
