#include "node/stats_text.h"

#include <cstdint>
#include <initializer_list>
#include <utility>

namespace rhizome {
namespace {

// JSON's own escapes for what a tenant's name may hold; what is not printable is none of its.
std::string quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c < ' ' ? '?' : c;
  }
  return quoted + "\"";
}

std::string numbers(std::initializer_list<std::pair<const char*, uint64_t>> fields) {
  std::string text = "{";
  for (const auto& [name, value] : fields) {
    text += (text.size() == 1 ? "" : ",") + quoted(name) + ":" + std::to_string(value);
  }
  return text + "}";
}

}  // namespace

std::string stats_text(const Store& store, std::string_view tenant) {
  const SlabUsage slab = store.slab_usage();
  const IndexUsage index = store.index_usage();
  const BlockCounts blocks = store.block_counts();
  return "{\"tenant\":" + quoted(tenant) + ",\"block_tokens\":" + std::to_string(store.block_tokens()) +
         ",\"keyspaces\":" + std::to_string(index.roots) + ",\"memory\":" +
         numbers({{"capacity_bytes", slab.budget_bytes},
                  {"used_bytes", slab.used_bytes},
                  {"stored_bytes", slab.stored_bytes},
                  {"pinned_bytes", slab.pinned_bytes},
                  {"blocks", blocks.resident}}) +
         ",\"disk\":" + numbers({{"blocks", blocks.copies}, {"alone", blocks.below}, {"queued", blocks.queued}}) +
         ",\"index\":" +
         numbers({{"blocks", index.blocks},
                  {"runs", index.runs},
                  {"bytes", index.bytes},
                  {"withheld_blocks", index.withheld_blocks}}) +
         "}";
}

}  // namespace rhizome
