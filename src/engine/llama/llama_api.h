// The functions of llama.h that the connector calls, as a table. Inside the preloaded library the same names are
// the interposer's own, so there the table holds what comes behind it in the program (preload/next_api.h); a test
// that links libllama fills it from there, or puts a function of its own in front of one.
//
// Compiled against llama.cpp v0.5.0: structs of llama.h travel by value, so a table must never be
// filled from a library of another version (kLlamaVersion).
#pragma once

#include <llama.h>

namespace rhizome {

inline constexpr const char* kLlamaVersion = "0.5.0";
// Trees between two releases carry the older one's version with "-dev" behind it; ggml's tells them apart.
inline constexpr const char* kGgmlVersion = "0.25.1";
inline constexpr int kLlamaStateSeqVersion = 3;
static_assert(LLAMA_STATE_SEQ_VERSION == kLlamaStateSeqVersion,
              "the blob parser knows sequence state version 3: check it against this llama.h");

#define RHIZOME_LLAMA_FUNCTIONS(F)         \
  F(version)                               \
  F(model_load_from_file)                  \
  F(model_load_from_file_ptr)              \
  F(model_load_from_splits)                \
  F(model_free)                            \
  F(model_is_recurrent)                    \
  F(model_is_hybrid)                       \
  F(model_is_diffusion)                    \
  F(model_has_encoder)                     \
  F(model_has_decoder)                     \
  F(model_n_swa)                           \
  F(model_n_head_kv)                       \
  F(model_n_ctx_train)                     \
  F(model_meta_val_str)                    \
  F(model_get_vocab)                       \
  F(vocab_n_tokens)                        \
  F(adapter_lora_init)                     \
  F(adapter_lora_free)                     \
  F(adapter_get_alora_n_invocation_tokens) \
  F(set_adapters_lora)                     \
  F(set_adapter_cvec)                      \
  F(init_from_model)                       \
  F(free)                                  \
  F(get_model)                             \
  F(get_memory)                            \
  F(n_ctx)                                 \
  F(n_ctx_seq)                             \
  F(n_batch)                               \
  F(n_ubatch)                              \
  F(n_seq_max)                             \
  F(n_threads)                             \
  F(n_threads_batch)                       \
  F(pooling_type)                          \
  F(set_causal_attn)                       \
  F(set_embeddings)                        \
  F(set_sampler)                           \
  F(memory_clear)                          \
  F(memory_seq_rm)                         \
  F(memory_seq_cp)                         \
  F(memory_seq_keep)                       \
  F(memory_seq_add)                        \
  F(memory_seq_div)                        \
  F(memory_seq_pos_min)                    \
  F(memory_seq_pos_max)                    \
  F(state_get_size)                        \
  F(state_get_data)                        \
  F(state_set_data)                        \
  F(state_save_file)                       \
  F(state_load_file)                       \
  F(state_seq_get_size)                    \
  F(state_seq_get_data)                    \
  F(state_seq_save_file)                   \
  F(state_seq_get_size_ext)                \
  F(state_seq_get_data_ext)                \
  F(state_seq_set_data)                    \
  F(state_seq_set_data_ext)                \
  F(state_seq_load_file)                   \
  F(decode)                                \
  F(get_logits)                            \
  F(get_logits_ith)                        \
  F(get_embeddings_ith)                    \
  F(get_sampled_token_ith)                 \
  F(get_sampled_probs_ith)                 \
  F(get_sampled_probs_count_ith)           \
  F(get_sampled_logits_ith)                \
  F(get_sampled_logits_count_ith)          \
  F(get_sampled_candidates_ith)            \
  F(get_sampled_candidates_count_ith)      \
  F(perf_context_reset)                    \
  F(print_system_info)

struct LlamaApi {
#define RHIZOME_LLAMA_MEMBER(name) decltype(&::llama_##name) name = nullptr;  // NOLINT(bugprone-macro-parentheses)
  RHIZOME_LLAMA_FUNCTIONS(RHIZOME_LLAMA_MEMBER)
#undef RHIZOME_LLAMA_MEMBER
};

}  // namespace rhizome
