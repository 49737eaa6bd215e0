#include "engine/llama/variants.h"

#include <utility>

#include "machine/units.h"
#include "telemetry/log.h"

namespace rhizome {
namespace {

// Salts come from requests: they must not grow the table for ever.
constexpr size_t kVariantsMax = 4096;

}  // namespace

void Variants::set_adapters(std::vector<AdapterUse> adapters, bool known) {
  now_.adapters = std::move(adapters);
  now_.known = known;
}

VariantId Variants::now(const std::string& salt) {
  if (!now_.known) return kNoVariant;
  now_.salt = salt;
  if (engine_.facts.plan.exact) {
    now_.threads = engine_.api.n_threads(engine_.context);
    now_.threads_batch = engine_.api.n_threads_batch(engine_.context);
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].variant == now_) return static_cast<VariantId>(i + 1);
  }
  if (entries_.size() >= kVariantsMax) {
    log_once("variants", "more than {} salts and adapters in one context: the newest are not cached", kVariantsMax);
    return kNoVariant;
  }
  entries_.push_back(Entry{now_, {}, false});
  return static_cast<VariantId>(entries_.size());
}

KeyspaceId Variants::keyspace(VariantId variant) {
  if (variant == kNoVariant) return {};
  Entry& entry = entries_[variant - 1];
  if (entry.keyspace != KeyspaceId{} || entry.refused) return entry.keyspace;
  const auto keyspace = make_keyspace(model_, engine_.facts, entry.variant);
  if (!keyspace) return {};  // the weights are still being hashed
  const uint64_t block_bytes = engine_.facts.shape.blob.payload_bytes(engine_.facts.block_tokens);
  const auto opened = engine_.client.open(*keyspace, engine_.facts.shape.blob.geometry(engine_.facts.block_tokens));
  if (!opened && opened.error().code == Code::kUnavailable) return {};  // the node is gone, and may come back
  if (!opened) {
    entry.refused = true;
    log_once(opened.error().reason, "{}: some prompts are not cached: {}", model_.name(), opened.error().reason);
    return {};
  }
  entry.keyspace = *opened;
  if (variant == 1) {
    // Attached, the memory is the node's, which says so itself.
    const uint64_t memory_bytes = engine_.counters.get(Counter::kMemoryCapacity);
    log_info("{}: blocks of {} tokens ({}){}, keyspace {}{}", model_.name(), engine_.facts.block_tokens,
             format_bytes(block_bytes), memory_bytes > 0 ? ", memory " + format_bytes(memory_bytes) : "",
             hex(keyspace->digest(), 6), engine_.facts.plan.exact ? ", exact" : "");
  }
  return entry.keyspace;
}

}  // namespace rhizome
