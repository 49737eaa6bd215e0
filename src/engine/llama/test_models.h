// For tests: models with random weights, written as GGUF files, and contexts on them. They load in milliseconds, and
// their answers depend on every token before, which is all that these tests need. (llama_model_init_from_user would
// spare the file; the prebuilt library of v0.5.0 refuses it.)
//
// Thread-safety: one thread. ggml with more threads than idle cores crawls: contexts compute with one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/llama/llama_api.h"
#include "engine/llama/test_tokens.h"

namespace rhizome {

struct RandomModel {
  std::string architecture = "qwen2";
  uint32_t layers = 2;
  uint32_t width = 128;
  uint32_t heads = 2;  // head size 64: quantised K and V are rotated only when it is a multiple of 64
  uint32_t heads_kv = 1;
  uint32_t vocabulary = 256;
  uint32_t window = 0;            // gemma3: every second layer sees only so many tokens back
  uint32_t original_context = 0;  // LongRoPE models choose their factors by it
  uint32_t seed = 1;
};

inline RandomModel dense_model() {
  return {};
}
inline RandomModel window_model(uint32_t window) {
  RandomModel model;
  model.architecture = "gemma3";
  model.layers = 4;
  model.window = window;
  return model;
}

inline RandomModel recurrent_model() {
  RandomModel model;
  model.architecture = "mamba";
  return model;
}

struct FreeModel {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct FreeContext {
  void operator()(llama_context* context) const { llama_free(context); }
};
using ModelPtr = std::unique_ptr<llama_model, FreeModel>;
using ContextPtr = std::unique_ptr<llama_context, FreeContext>;

void write_random_model(const std::string& path, const RandomModel& shape);
// Loads the CPU back ends on its first call. Never null: a test without an engine ends the program.
ModelPtr make_random_model(const RandomModel& shape);

// A LoRA adapter for the attention of every layer, written as a GGUF file.
void write_random_lora(const std::string& path, const RandomModel& shape, uint32_t seed);

// One thread, and logits on request.
llama_context_params one_thread_params(uint32_t cells, uint32_t sequences, bool unified);
ContextPtr make_context(llama_model* model, const llama_context_params& params);

}  // namespace rhizome
