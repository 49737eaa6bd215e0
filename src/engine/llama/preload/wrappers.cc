// The llama.h functions that this library stands in front of, and the hook that the bundled server calls. Each does
// what its namesake does; contexts that Rhizome is not attached to go straight through.
//
// Only these names are exported (preload/exports.map).
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llama/preload/next_api.h"
#include "engine/llama/preload/session.h"

using rhizome::Connector;
using rhizome::next_llama_api;
using rhizome::Session;

namespace {

// The engine's own functions call each other through the same names. What they call while a connector is at work
// must not come back to it.
thread_local int inside = 0;

class Inside {
 public:
  Inside() { ++inside; }
  ~Inside() { --inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

template <class Key>
Connector* connector_of(Key key) {
  if (inside > 0 || key == nullptr) return nullptr;
  Session* session = Session::get();
  return session == nullptr ? nullptr : session->connector_of(key);
}

// False: the rows that are to be read cannot be brought back into the engine's cache. A state without them would be
// taken for one with them, so there is none.
bool before_read(const llama_context* context, llama_seq_id seq) {
  Connector* connector = connector_of(context);
  if (connector == nullptr) return true;
  const Inside guard;
  return connector->before_read(seq);
}

Session* session_outside() {
  return inside > 0 ? nullptr : Session::get();
}

}  // namespace

extern "C" {

// ---- models, adapters, contexts

llama_model* llama_model_load_from_file(const char* path_model, llama_model_params params) {
  llama_model* model = next_llama_api().model_load_from_file(path_model, params);
  Session* session = session_outside();
  if (model != nullptr && session != nullptr) session->model_loaded(model, rhizome::split_files(path_model), params);
  return model;
}

llama_model* llama_load_model_from_file(const char* path_model, llama_model_params params) {
  return llama_model_load_from_file(path_model, params);
}

llama_model* llama_model_load_from_file_ptr(FILE* file, llama_model_params params) {
  llama_model* model = next_llama_api().model_load_from_file_ptr(file, params);
  Session* session = session_outside();
  if (model != nullptr && session != nullptr) session->model_loaded(model, {}, params);
  return model;
}

llama_model* llama_model_load_from_splits(const char** paths, size_t n_paths, llama_model_params params) {
  llama_model* model = next_llama_api().model_load_from_splits(paths, n_paths, params);
  Session* session = session_outside();
  if (model != nullptr && session != nullptr) session->model_loaded(model, {paths, paths + n_paths}, params);
  return model;
}

void llama_model_free(llama_model* model) {
  if (Session* session = session_outside(); session != nullptr) session->model_freed(model);
  next_llama_api().model_free(model);
}

void llama_free_model(llama_model* model) {
  llama_model_free(model);
}

llama_adapter_lora* llama_adapter_lora_init(llama_model* model, const char* path_lora) {
  llama_adapter_lora* adapter = next_llama_api().adapter_lora_init(model, path_lora);
  Session* session = session_outside();
  if (adapter != nullptr && session != nullptr) session->adapter_loaded(adapter, path_lora);
  return adapter;
}

void llama_adapter_lora_free(llama_adapter_lora* adapter) {
  if (Session* session = session_outside(); session != nullptr) session->adapter_freed(adapter);
  next_llama_api().adapter_lora_free(adapter);
}

int32_t llama_set_adapters_lora(llama_context* ctx, llama_adapter_lora** adapters, size_t n_adapters, float* scales) {
  const int32_t status = next_llama_api().set_adapters_lora(ctx, adapters, n_adapters, scales);
  if (Connector* connector = connector_of<const llama_context*>(ctx); connector != nullptr && status == 0) {
    std::vector<rhizome::AdapterUse> uses;
    const bool known = Session::get()->adapters_in_use(adapters, scales, n_adapters, uses);
    connector->set_adapters(std::move(uses), known);
  }
  return status;
}

int32_t llama_set_adapter_cvec(llama_context* ctx, const float* data, size_t len, int32_t n_embd, int32_t il_start,
                               int32_t il_end) {
  const int32_t status = next_llama_api().set_adapter_cvec(ctx, data, len, n_embd, il_start, il_end);
  if (Connector* connector = connector_of<const llama_context*>(ctx); connector != nullptr) {
    connector->set_control_vector(rhizome::control_vector_encoding(data, len, n_embd, il_start, il_end));
  }
  return status;
}

llama_context* llama_init_from_model(llama_model* model, llama_context_params params) {
  Session* session = session_outside();
  if (session == nullptr || model == nullptr) return next_llama_api().init_from_model(model, params);
  const Inside guard;
  return session->make_context(model, params);
}

llama_context* llama_new_context_with_model(llama_model* model, llama_context_params params) {
  return llama_init_from_model(model, params);
}

void llama_free(llama_context* ctx) {
  if (Session* session = session_outside(); session != nullptr && ctx != nullptr) session->context_freed(ctx);
  next_llama_api().free(ctx);
}

// The one sequence more is Rhizome's own.
uint32_t llama_n_seq_max(const llama_context* ctx) {
  if (const Connector* connector = connector_of(ctx)) return connector->sequences_count();
  return next_llama_api().n_seq_max(ctx);
}

void llama_set_causal_attn(llama_context* ctx, bool causal_attn) {
  next_llama_api().set_causal_attn(ctx, causal_attn);
  if (Connector* connector = connector_of<const llama_context*>(ctx)) connector->set_causal(causal_attn);
}

void llama_set_embeddings(llama_context* ctx, bool embeddings) {
  next_llama_api().set_embeddings(ctx, embeddings);
  if (Connector* connector = connector_of<const llama_context*>(ctx)) connector->set_embeddings(embeddings);
}

// In exact mode outputs are copied out of parts of a batch; a sampler inside the engine would see only the last part.
bool llama_set_sampler(llama_context* ctx, llama_seq_id seq_id, llama_sampler* smpl) {
  if (const Connector* connector = connector_of<const llama_context*>(ctx)) {
    if (connector->exact() && smpl != nullptr) return false;
  }
  return next_llama_api().set_sampler(ctx, seq_id, smpl);
}

// ---- memory

void llama_memory_clear(llama_memory_t mem, bool data) {
  if (Connector* connector = connector_of(mem)) {
    const Inside guard;
    return connector->clear(data);
  }
  next_llama_api().memory_clear(mem, data);
}

bool llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1) {
  if (Connector* connector = connector_of(mem)) {
    const Inside guard;
    return connector->remove(seq_id, p0, p1);
  }
  return next_llama_api().memory_seq_rm(mem, seq_id, p0, p1);
}

void llama_memory_seq_cp(llama_memory_t mem, llama_seq_id seq_id_src, llama_seq_id seq_id_dst, llama_pos p0,
                         llama_pos p1) {
  if (Connector* connector = connector_of(mem)) {
    const Inside guard;
    return connector->copy(seq_id_src, seq_id_dst, p0, p1);
  }
  next_llama_api().memory_seq_cp(mem, seq_id_src, seq_id_dst, p0, p1);
}

void llama_memory_seq_keep(llama_memory_t mem, llama_seq_id seq_id) {
  if (Connector* connector = connector_of(mem)) {
    const Inside guard;
    return connector->keep(seq_id);
  }
  next_llama_api().memory_seq_keep(mem, seq_id);
}

void llama_memory_seq_add(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1, llama_pos delta) {
  if (Connector* connector = connector_of(mem)) {
    const Inside guard;
    return connector->shift(seq_id, p0, p1, delta);
  }
  next_llama_api().memory_seq_add(mem, seq_id, p0, p1, delta);
}

void llama_memory_seq_div(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1, int d) {
  if (Connector* connector = connector_of(mem)) {
    const Inside guard;
    return connector->divide(seq_id, p0, p1, d);
  }
  next_llama_api().memory_seq_div(mem, seq_id, p0, p1, d);
}

llama_pos llama_memory_seq_pos_min(llama_memory_t mem, llama_seq_id seq_id) {
  if (Connector* connector = connector_of(mem)) {
    const Inside guard;
    return connector->position_min(seq_id);
  }
  return next_llama_api().memory_seq_pos_min(mem, seq_id);
}

llama_pos llama_memory_seq_pos_max(llama_memory_t mem, llama_seq_id seq_id) {
  if (Connector* connector = connector_of(mem)) {
    const Inside guard;
    return connector->position_max(seq_id);
  }
  return next_llama_api().memory_seq_pos_max(mem, seq_id);
}

// ---- states that the program itself reads

size_t llama_state_get_size(llama_context* ctx) {
  if (!before_read(ctx, -1)) return 0;
  return next_llama_api().state_get_size(ctx);
}

size_t llama_state_get_data(llama_context* ctx, uint8_t* dst, size_t size) {
  if (!before_read(ctx, -1)) return 0;
  return next_llama_api().state_get_data(ctx, dst, size);
}

bool llama_state_save_file(llama_context* ctx, const char* path_session, const llama_token* tokens,
                           size_t n_token_count) {
  if (!before_read(ctx, -1)) return false;
  return next_llama_api().state_save_file(ctx, path_session, tokens, n_token_count);
}

size_t llama_state_seq_get_size(llama_context* ctx, llama_seq_id seq_id) {
  if (!before_read(ctx, seq_id)) return 0;
  return next_llama_api().state_seq_get_size(ctx, seq_id);
}

size_t llama_state_seq_get_size_ext(llama_context* ctx, llama_seq_id seq_id, llama_state_seq_flags flags) {
  if (!before_read(ctx, seq_id)) return 0;
  return next_llama_api().state_seq_get_size_ext(ctx, seq_id, flags);
}

size_t llama_state_seq_get_data(llama_context* ctx, uint8_t* dst, size_t size, llama_seq_id seq_id) {
  if (!before_read(ctx, seq_id)) return 0;
  return next_llama_api().state_seq_get_data(ctx, dst, size, seq_id);
}

size_t llama_state_seq_get_data_ext(llama_context* ctx, uint8_t* dst, size_t size, llama_seq_id seq_id,
                                    llama_state_seq_flags flags) {
  if (!before_read(ctx, seq_id)) return 0;
  return next_llama_api().state_seq_get_data_ext(ctx, dst, size, seq_id, flags);
}

size_t llama_state_seq_save_file(llama_context* ctx, const char* filepath, llama_seq_id seq_id,
                                 const llama_token* tokens, size_t n_token_count) {
  if (!before_read(ctx, seq_id)) return 0;
  return next_llama_api().state_seq_save_file(ctx, filepath, seq_id, tokens, n_token_count);
}

// ---- states that the program itself restores: what is in them is not followed

size_t llama_state_set_data(llama_context* ctx, const uint8_t* src, size_t size) {
  if (Connector* connector = connector_of<const llama_context*>(ctx)) connector->replaced(-1);
  return next_llama_api().state_set_data(ctx, src, size);
}

bool llama_state_load_file(llama_context* ctx, const char* path_session, llama_token* tokens_out,
                           size_t n_token_capacity, size_t* n_token_count_out) {
  if (Connector* connector = connector_of<const llama_context*>(ctx)) connector->replaced(-1);
  return next_llama_api().state_load_file(ctx, path_session, tokens_out, n_token_capacity, n_token_count_out);
}

size_t llama_state_seq_set_data(llama_context* ctx, const uint8_t* src, size_t size, llama_seq_id dest_seq_id) {
  if (Connector* connector = connector_of<const llama_context*>(ctx)) connector->replaced(dest_seq_id);
  return next_llama_api().state_seq_set_data(ctx, src, size, dest_seq_id);
}

size_t llama_state_seq_set_data_ext(llama_context* ctx, const uint8_t* src, size_t size, llama_seq_id dest_seq_id,
                                    llama_state_seq_flags flags) {
  if (Connector* connector = connector_of<const llama_context*>(ctx)) connector->replaced(dest_seq_id);
  return next_llama_api().state_seq_set_data_ext(ctx, src, size, dest_seq_id, flags);
}

size_t llama_state_seq_load_file(llama_context* ctx, const char* filepath, llama_seq_id dest_seq_id,
                                 llama_token* tokens_out, size_t n_token_capacity, size_t* n_token_count_out) {
  // Without a place for tokens nothing is loaded, only counted.
  Connector* connector = connector_of<const llama_context*>(ctx);
  if (connector != nullptr && tokens_out != nullptr) connector->replaced(dest_seq_id);
  return next_llama_api().state_seq_load_file(ctx, filepath, dest_seq_id, tokens_out, n_token_capacity,
                                              n_token_count_out);
}

// ---- the forward pass and its outputs

int32_t llama_decode(llama_context* ctx, llama_batch batch) {
  if (Connector* connector = connector_of<const llama_context*>(ctx)) {
    const Inside guard;
    return connector->decode(batch);
  }
  return next_llama_api().decode(ctx, batch);
}

int32_t rhizome_restore_v1(llama_context* ctx, llama_seq_id seq, const llama_token* prompt, int32_t n_prompt,
                           int32_t n_have, const char* cache_salt, uint32_t flags) {
  Connector* connector = connector_of<const llama_context*>(ctx);
  constexpr uint32_t kIdle = 8;  // no request uses the slot while another one is served: may its rows go?
  const Inside guard;
  if (connector != nullptr && (flags & kIdle) != 0) return connector->set_idle(seq, n_have);
  if (connector == nullptr || prompt == nullptr || n_prompt < 0) return n_have;
  const std::span tokens(reinterpret_cast<const rhizome::Token*>(prompt), static_cast<size_t>(n_prompt));
  return connector->restore(seq, tokens, n_have, cache_salt == nullptr ? "" : cache_salt, flags);
}

float* llama_get_logits(llama_context* ctx) {
  if (Connector* connector = connector_of<const llama_context*>(ctx)) return connector->logits();
  return next_llama_api().get_logits(ctx);
}

float* llama_get_logits_ith(llama_context* ctx, int32_t i) {
  if (Connector* connector = connector_of<const llama_context*>(ctx)) return connector->logits_at(i);
  return next_llama_api().get_logits_ith(ctx, i);
}

#define RHIZOME_WRAP_OUTPUT(type, name)                                            \
  type llama_##name(llama_context* ctx, int32_t i) {                               \
    Connector* connector = connector_of<const llama_context*>(ctx);                \
    return next_llama_api().name(ctx, connector ? connector->output_index(i) : i); \
  }

RHIZOME_WRAP_OUTPUT(float*, get_embeddings_ith)
RHIZOME_WRAP_OUTPUT(llama_token, get_sampled_token_ith)
RHIZOME_WRAP_OUTPUT(float*, get_sampled_probs_ith)
RHIZOME_WRAP_OUTPUT(uint32_t, get_sampled_probs_count_ith)
RHIZOME_WRAP_OUTPUT(float*, get_sampled_logits_ith)
RHIZOME_WRAP_OUTPUT(uint32_t, get_sampled_logits_count_ith)
RHIZOME_WRAP_OUTPUT(llama_token*, get_sampled_candidates_ith)
RHIZOME_WRAP_OUTPUT(uint32_t, get_sampled_candidates_count_ith)

}  // extern "C"
