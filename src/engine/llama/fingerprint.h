// The keyspace of rows in an llama.cpp context: everything but the tokens that their KV depends on.
// What is missing makes the rows not cacheable; nothing is left out to get a keyspace.
//
// Thread-safety: values and pure functions.
#pragma once

#include <string>
#include <vector>

#include "block/keyspace.h"
#include "contract/result.h"
#include "engine/llama/llama_api.h"
#include "engine/llama/model_identity.h"
#include "engine/llama/probe.h"

namespace rhizome {

// An adapter in force, in the order in which the engine applies them.
struct AdapterUse {
  Digest content{};
  float scale = 0;
  friend bool operator==(const AdapterUse&, const AdapterUse&) = default;
};

// What differs between the sequences of a context, or changes while it lives.
struct Variant {
  std::vector<AdapterUse> adapters;
  std::string control_vector;  // canonical bytes, empty: none
  bool causal = true;
  int32_t threads = 0;        // exact only
  int32_t threads_batch = 0;  // exact only
  std::string salt;
  bool known = true;  // false: something in force cannot be identified
  friend bool operator==(const Variant&, const Variant&) = default;
};

// What stays the same for a context.
struct ContextFacts {
  ContextPlan plan;
  ContextShape shape;
  std::string rope;      // canonical bytes of the settings that K depends on
  std::string numerics;  // exact only: version, CPU, flash attention
  bool rotation_disabled = false;
  std::string tenant;
  uint32_t block_tokens = 0;
};

ContextFacts gather_facts(const LlamaApi& api, llama_context* context, const ContextPlan& plan,
                          const ContextShape& shape, const std::string& tenant, uint32_t block_tokens);

// kFailedPrecondition while the weights or something of the variant are not known.
Result<Keyspace> make_keyspace(const ModelIdentity& model, const ContextFacts& facts, const Variant& variant);

// Canonical bytes of a control vector.
std::string control_vector_encoding(const float* data, size_t length, int32_t width, int32_t first, int32_t last);

}  // namespace rhizome
