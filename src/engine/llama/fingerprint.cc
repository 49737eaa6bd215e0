#include "engine/llama/fingerprint.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "engine/llama/sequence_table.h"

namespace rhizome {
namespace {

template <class T>
void append(std::string& out, const T& value) {
  static_assert(std::is_arithmetic_v<T>);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string metadata(const LlamaApi& api, const llama_model* model, const std::string& key) {
  char text[128];
  return api.model_meta_val_str(model, key.c_str(), text, sizeof text) < 0 ? std::string() : std::string(text);
}

// LongRoPE models choose between two tables of factors by this (llama-model.cpp, get_rope_factors).
bool beyond_original_context(const LlamaApi& api, llama_context* context, const llama_context_params& params) {
  const llama_model* model = api.get_model(context);
  uint64_t original = params.yarn_orig_ctx;
  if (original == 0) {
    const std::string key = metadata(api, model, "general.architecture") + ".rope.scaling.original_context_length";
    original = std::strtoull(metadata(api, model, key).c_str(), nullptr, 10);
  }
  if (original == 0) original = static_cast<uint64_t>(api.model_n_ctx_train(model));
  return api.n_ctx_seq(context) > original;
}

std::string rope_encoding(const LlamaApi& api, llama_context* context, const llama_context_params& params) {
  std::string out;
  append(out, static_cast<int32_t>(params.rope_scaling_type));
  append(out, params.rope_freq_base);
  append(out, params.rope_freq_scale);
  append(out, params.yarn_ext_factor);
  append(out, params.yarn_attn_factor);
  append(out, params.yarn_beta_fast);
  append(out, params.yarn_beta_slow);
  append(out, params.yarn_orig_ctx);
  append(out, static_cast<uint8_t>(beyond_original_context(api, context, params)));
  return out;
}

std::string memory_class(const ContextShape& shape) {
  return shape.window == 0 ? "dense" : "window/" + std::to_string(shape.window);
}

std::string adapters_encoding(const std::vector<AdapterUse>& adapters) {
  std::string out;
  for (const AdapterUse& use : adapters) {
    out.append(reinterpret_cast<const char*>(use.content.data()), use.content.size());
    append(out, use.scale);
  }
  return out;
}

}  // namespace

ContextFacts gather_facts(const LlamaApi& api, llama_context* context, const ContextPlan& plan,
                          const ContextShape& shape, const std::string& tenant, uint32_t block_tokens) {
  ContextFacts facts;
  facts.plan = plan;
  facts.shape = shape;
  facts.tenant = tenant;
  facts.block_tokens = block_tokens;
  facts.rope = rope_encoding(api, context, plan.params);
  // llama.cpp reads this variable when it makes a context; it decides whether quantised K and V are rotated.
  const char* rotation = std::getenv("LLAMA_ATTN_ROT_DISABLE");
  facts.rotation_disabled = rotation != nullptr && std::atoi(rotation) != 0;
  if (plan.exact) {
    facts.numerics = std::string("exact-64/") + api.version() + "/";
    append(facts.numerics, static_cast<int32_t>(plan.params.flash_attn_type));
    append(facts.numerics, std::min(api.n_ubatch(context), kExactUnit));  // the engine cuts batches to this
    facts.numerics += api.print_system_info();
  }
  return facts;
}

Result<Keyspace> make_keyspace(const ModelIdentity& model, const ContextFacts& facts, const Variant& variant) {
  if (model.state() != ModelIdentity::State::kKnown) {
    return fail(Code::kFailedPrecondition, "the digest of the weights is not known");
  }
  if (!variant.known) return fail(Code::kFailedPrecondition, "an adapter in force is not known");
  KeyspaceBuilder builder;
  builder.set(KeyspaceTag::kEngine, "llama.cpp/seq-" + std::to_string(kLlamaStateSeqVersion));
  builder.set(KeyspaceTag::kWeights, model.digest());
  builder.set(KeyspaceTag::kOverrides, bytes_of(model.overrides()));
  builder.set(KeyspaceTag::kLayout, facts.shape.blob.layout(facts.block_tokens).encoding());
  builder.set(KeyspaceTag::kMemoryClass, memory_class(facts.shape));
  builder.set(KeyspaceTag::kRope, bytes_of(facts.rope));
  builder.set(KeyspaceTag::kRotation, facts.rotation_disabled ? "off" : "engine's choice");
  builder.set(KeyspaceTag::kAttention, variant.causal ? "causal" : "full");
  if (!variant.adapters.empty()) builder.set(KeyspaceTag::kAdapters, bytes_of(adapters_encoding(variant.adapters)));
  if (!variant.control_vector.empty()) builder.set(KeyspaceTag::kControlVector, bytes_of(variant.control_vector));
  if (!facts.tenant.empty()) builder.set(KeyspaceTag::kTenant, facts.tenant);
  if (!variant.salt.empty()) builder.set(KeyspaceTag::kSalt, variant.salt);
  if (!facts.numerics.empty()) {
    std::string numerics = facts.numerics;
    append(numerics, variant.threads);
    append(numerics, variant.threads_batch);
    builder.set(KeyspaceTag::kNumerics, bytes_of(numerics));
  }
  return builder.seal();
}

std::string control_vector_encoding(const float* data, size_t length, int32_t width, int32_t first, int32_t last) {
  std::string out;
  if (data == nullptr) return out;
  const Digest digest = sha256(std::as_bytes(std::span(data, length)));
  out.append(reinterpret_cast<const char*>(digest.data()), digest.size());
  append(out, width);
  append(out, first);
  append(out, last);
  return out;
}

}  // namespace rhizome
