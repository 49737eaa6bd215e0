// The variants of a context: which adapters, control vector and salt its rows depend on, and the keyspace
// that each of them is stored under.
//
// Thread-safety: none; the connector's lock guards it.
#pragma once

#include <string>
#include <vector>

#include "client/client.h"
#include "engine/llama/engine_context.h"
#include "engine/llama/fingerprint.h"
#include "engine/llama/model_identity.h"
#include "engine/llama/sequence_table.h"

namespace rhizome {

class Variants {
 public:
  Variants(EngineContext& engine, const ModelIdentity& model) : engine_(engine), model_(model) {}

  // What is in force for all sequences from the next batch on.
  void set_adapters(std::vector<AdapterUse> adapters, bool known);
  void set_control_vector(std::string encoding) { now_.control_vector = std::move(encoding); }
  void set_causal(bool causal) { now_.causal = causal; }

  // The variant of rows that are computed now for a request with this salt. kNoVariant when something in force
  // is not known, or there are more variants than a context may have.
  VariantId now(const std::string& salt);

  // Zero while the weights are not known, for ever when the client has no room for the keyspace.
  KeyspaceId keyspace(VariantId variant);

 private:
  struct Entry {
    Variant variant;
    KeyspaceId keyspace;
    bool refused = false;
  };

  EngineContext& engine_;
  const ModelIdentity& model_;
  Variant now_;
  std::vector<Entry> entries_;  // VariantId is the index plus one
};

}  // namespace rhizome
