#include "engine/llama/probe.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/llama/sequence_table.h"

namespace rhizome {
namespace {

constexpr uint32_t kSequencesMax = 256;  // LLAMA_MAX_SEQ

const char* reason_to_pass_through(const LlamaApi& api, const llama_model* model, const llama_context_params& params) {
  if (api.model_is_recurrent(model) || api.model_is_hybrid(model)) {
    return "no_snapshot: the model keeps a recurrent state, which cannot be cut into blocks";
  }
  if (api.model_is_diffusion(model)) return "not_cacheable: a diffusion model";
  if (api.model_has_encoder(model) || !api.model_has_decoder(model)) return "not_cacheable: the model has an encoder";
  if (params.embeddings) return "not_cacheable: the context computes embeddings";
  if (params.ctx_type != LLAMA_CONTEXT_TYPE_DEFAULT || params.ctx_other != nullptr) {
    return "not_cacheable: the context drafts for another one";
  }
  if (params.attention_type == LLAMA_ATTENTION_TYPE_NON_CAUSAL) return "not_cacheable: attention is not causal";
  if (params.pooling_type > LLAMA_POOLING_TYPE_NONE) return "not_cacheable: the context pools embeddings";
  return nullptr;
}

// Decodes the probe's tokens into `sequence`. Token ids 0 and 1 exist in every vocabulary.
int32_t decode_probe(const LlamaApi& api, llama_context* context, llama_seq_id sequence) {
  std::array<llama_token, kProbeTokens> tokens{0, 1};
  std::array<llama_pos, kProbeTokens> positions{0, 1};
  std::array<int32_t, kProbeTokens> counts{1, 1};
  std::array<llama_seq_id*, kProbeTokens> sequences{&sequence, &sequence};
  std::array<int8_t, kProbeTokens> outputs{0, 0};
  llama_batch batch{};
  batch.n_tokens = kProbeTokens;
  batch.token = tokens.data();
  batch.pos = positions.data();
  batch.n_seq_id = counts.data();
  batch.seq_id = sequences.data();
  batch.logits = outputs.data();
  return api.decode(context, batch);
}

Result<BlobShape> probe_shape(const LlamaApi& api, llama_context* context, llama_seq_id sequence) {
  if (decode_probe(api, context, sequence) != 0) return fail(Code::kUnimplemented, "the probe could not be computed");
  std::vector<std::byte> blob(api.state_seq_get_size_ext(context, sequence, 0));
  auto* bytes = reinterpret_cast<uint8_t*>(blob.data());
  if (blob.empty() || api.state_seq_get_data_ext(context, bytes, blob.size(), sequence, 0) != blob.size()) {
    return fail(Code::kUnimplemented, "the engine gave no sequence state");
  }
  if (!api.memory_seq_rm(api.get_memory(context), sequence, 1, -1)) {
    return fail(Code::kUnimplemented, "rows of a sequence cannot be removed");
  }
  return discover_blob_shape(blob, kProbeTokens);
}

}  // namespace

ContextPlan plan_context(const LlamaApi& api, const llama_model* model, const llama_context_params& params,
                         bool exact) {
  ContextPlan plan;
  plan.params = params;
  plan.sequences_count = std::max<uint32_t>(params.n_seq_max, 1);
  if (const char* reason = reason_to_pass_through(api, model, params); reason != nullptr) {
    plan.why_not = reason;
    return plan;
  }
  plan.exact = exact;
  if (exact) {
    // One stream a sequence: a row's cell is then its position, and nothing a neighbour does moves it.
    // The full window cache keeps cells where they are, too.
    plan.params.kv_unified = false;
    plan.params.swa_full = true;
    plan.params.n_batch = std::max(params.n_batch, kExactUnit);  // tokens are held until there are so many
    plan.params.n_samplers = 0;
    plan.attach = true;
    return plan;
  }
  plan.unified = params.kv_unified || plan.sequences_count == 1;
  if (plan.unified) {
    if (plan.sequences_count >= kSequencesMax) {
      plan.why_not = "no unused sequence is left for the cache";
      return plan;
    }
    plan.params.kv_unified = true;
    plan.params.n_seq_max = plan.sequences_count + 1;
    if (params.n_outputs_max > 0) plan.params.n_outputs_max = params.n_outputs_max + 1;
    plan.scratch = static_cast<int32_t>(plan.sequences_count);
  }
  plan.attach = true;
  return plan;
}

Result<ContextShape> probe_context(const LlamaApi& api, llama_context* context, const ContextPlan& plan) {
  llama_memory_t memory = api.get_memory(context);
  if (memory == nullptr) return fail(Code::kUnimplemented, "the context has no cache");
  if (api.pooling_type(context) > LLAMA_POOLING_TYPE_NONE) {
    return fail(Code::kUnimplemented, "the context pools embeddings");
  }
  auto blob = probe_shape(api, context, std::max(plan.scratch, 0));
  api.memory_clear(memory, true);
  api.perf_context_reset(context);
  if (!blob) return fail(blob.error());

  ContextShape shape;
  shape.blob = std::move(*blob);
  shape.blob.kv_heads = static_cast<uint32_t>(std::max(api.model_n_head_kv(api.get_model(context)), 1));
  const uint32_t streams = plan.unified ? 1 : api.n_seq_max(context);
  if (shape.blob.streams != streams) return fail(Code::kUnimplemented, "the cache has an unexpected number of streams");
  const auto window = static_cast<uint32_t>(std::max(api.model_n_swa(api.get_model(context)), 0));
  shape.window = shape.blob.sections.size() == 2 ? window : 0;
  if (shape.blob.sections.size() == 2 && window == 0) {
    return fail(Code::kUnimplemented, "the cache has a second part that is not a sliding window");
  }
  shape.cells = api.n_ctx_seq(context);
  // llama-kv-cache-iswa.cpp makes room for the window of every sequence and one batch; with less room than
  // the full cache in any case.
  const uint32_t sequences = plan.unified ? plan.sequences_count + 1 : 1;
  shape.window_cells =
      plan.params.swa_full ? shape.cells : std::min(shape.cells, shape.window * sequences + api.n_ubatch(context));
  return shape;
}

}  // namespace rhizome
