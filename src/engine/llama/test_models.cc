#include "engine/llama/test_models.h"

#include <cstdio>
#include <random>
#include <string_view>

#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>

#include "contract/check.h"
#include "machine/temporary_folder.h"

namespace rhizome {
namespace {

constexpr float kSpread = 0.1F;
constexpr float kAttentionSpread = 0.16F;  // strong enough for one early token to move the answer
constexpr float kNormSpread = 0.1F;        // around 1
constexpr float kOutputSpread = 0.3F;      // wide, so that the best token leads by more than another batch's noise

// Of the recurrent model.
constexpr uint32_t kStateWidth = 16;
constexpr uint32_t kStepRank = 16;
constexpr uint32_t kKernel = 4;

void load_engine() {
  static const bool kLoaded = [] {
    const auto quiet = [](ggml_log_level level, const char* text, void*) {
      if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
    };
    llama_log_set(quiet, nullptr);
    ggml_log_set(quiet, nullptr);
    ggml_backend_load_all_from_path(LLAMA_BACKEND_DIR);
    llama_backend_init();
    return true;
  }();
  RHIZOME_CHECK(kLoaded);
}

uint64_t seed_of(uint32_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL ^ seed;
  for (const char c : name)
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return hash;
}

// A GGUF file being put together: metadata under an architecture's prefix, and tensors of random numbers.
class Gguf {
 public:
  Gguf(const std::string& architecture, std::string prefix, uint32_t seed) : prefix_(std::move(prefix)), seed_(seed) {
    ggml_init_params params{};
    params.mem_size = size_t{32} << 20;
    tensors_ = ggml_init(params);
    gguf_set_val_str(gguf_, "general.architecture", architecture.c_str());
  }
  ~Gguf() {
    gguf_free(gguf_);
    ggml_free(tensors_);
  }
  Gguf(const Gguf&) = delete;
  Gguf& operator=(const Gguf&) = delete;

  void set(const char* key, uint32_t value) { gguf_set_val_u32(gguf_, (prefix_ + key).c_str(), value); }
  void set(const char* key, float value) { gguf_set_val_f32(gguf_, (prefix_ + key).c_str(), value); }
  void add(const std::string& name, int64_t columns, float spread) { add(name, columns, 1, spread, 1); }
  void add(const std::string& name, int64_t columns, int64_t rows, float spread, float mean = 0) {
    ggml_tensor* tensor = rows == 1 ? ggml_new_tensor_1d(tensors_, GGML_TYPE_F32, columns)
                                    : ggml_new_tensor_2d(tensors_, GGML_TYPE_F32, columns, rows);
    ggml_set_name(tensor, name.c_str());
    std::mt19937_64 generator(seed_of(seed_, name));
    std::normal_distribution<float> normal(mean, spread);
    auto* values = static_cast<float*>(tensor->data);
    for (int64_t i = 0; i < columns * rows; ++i)
      values[i] = normal(generator);
    gguf_add_tensor(gguf_, tensor);
  }
  void write(const std::string& path) const { RHIZOME_CHECK(gguf_write_to_file(gguf_, path.c_str(), false)); }
  gguf_context* get() { return gguf_; }

 private:
  std::string prefix_;
  uint32_t seed_;
  gguf_context* gguf_ = gguf_init_empty();
  ggml_context* tensors_ = nullptr;
};

void set_vocabulary(gguf_context* gguf, uint32_t count) {
  std::vector<std::string> texts;
  std::vector<const char*> pointers;
  for (uint32_t i = 0; i < count; ++i)
    texts.push_back("tok_" + std::to_string(i));
  for (const std::string& text : texts)
    pointers.push_back(text.c_str());
  const std::vector<float> scores(count, 0);
  gguf_set_val_str(gguf, "tokenizer.ggml.model", "test");
  gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pointers.data(), count);
  gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), count);
}

void describe(const RandomModel& shape, Gguf& file) {
  file.set("vocab_size", shape.vocabulary);
  file.set("context_length", 8192U);
  file.set("embedding_length", shape.width);
  file.set("block_count", shape.layers);
  file.set("feed_forward_length", 2 * shape.width);
  file.set("attention.head_count", shape.heads);
  file.set("attention.head_count_kv", shape.heads_kv);
  file.set("attention.layer_norm_rms_epsilon", 1e-5F);
  file.set("rope.freq_base", 10000.0F);
  if (shape.original_context > 0) file.set("rope.scaling.original_context_length", shape.original_context);
  if (shape.window > 0) {
    file.set("attention.sliding_window", shape.window);
    file.set("attention.sliding_window_pattern", 2U);
    file.set("attention.key_length", shape.width / shape.heads);
    file.set("attention.value_length", shape.width / shape.heads);
  }
  if (shape.architecture == "mamba") {
    file.set("ssm.conv_kernel", kKernel);
    file.set("ssm.inner_size", 2 * shape.width);
    file.set("ssm.state_size", kStateWidth);
    file.set("ssm.time_step_rank", kStepRank);
  }
  set_vocabulary(file.get(), shape.vocabulary);
}

void add_recurrent_layer(const RandomModel& shape, const std::string& prefix, Gguf& file) {
  const int64_t width = shape.width;
  file.add(prefix + "attn_norm.weight", width, kNormSpread);
  file.add(prefix + "ssm_in.weight", width, 4 * width, kSpread);
  file.add(prefix + "ssm_conv1d.weight", kKernel, 2 * width, kSpread);
  file.add(prefix + "ssm_conv1d.bias", 2 * width, 1, kSpread);
  file.add(prefix + "ssm_x.weight", 2 * width, kStepRank + 2 * kStateWidth, kSpread);
  file.add(prefix + "ssm_dt.weight", kStepRank, 2 * width, kSpread);
  file.add(prefix + "ssm_dt.bias", 2 * width, 1, kSpread);
  file.add(prefix + "ssm_a", kStateWidth, 2 * width, 0.1F, -1);
  file.add(prefix + "ssm_d", 2 * width, 1, kSpread);
  file.add(prefix + "ssm_out.weight", 2 * width, width, kSpread);
}

void add_layer(const RandomModel& shape, const std::string& prefix, Gguf& file) {
  const int64_t width = shape.width;
  const int64_t head = shape.width / shape.heads;
  file.add(prefix + "attn_norm.weight", width, kNormSpread);
  file.add(prefix + "attn_q.weight", width, width, kAttentionSpread);
  file.add(prefix + "attn_k.weight", width, head * shape.heads_kv, kAttentionSpread);
  file.add(prefix + "attn_v.weight", width, head * shape.heads_kv, kAttentionSpread);
  file.add(prefix + "attn_output.weight", width, width, kAttentionSpread);
  file.add(prefix + "ffn_norm.weight", width, kNormSpread);
  file.add(prefix + "ffn_gate.weight", width, 2 * width, kSpread);
  file.add(prefix + "ffn_up.weight", width, 2 * width, kSpread);
  file.add(prefix + "ffn_down.weight", 2 * width, width, kSpread);
  if (shape.architecture != "gemma3") return;
  file.add(prefix + "attn_q_norm.weight", head, 1, kNormSpread, 3);  // else normed keys all look alike
  file.add(prefix + "attn_k_norm.weight", head, kNormSpread);
  file.add(prefix + "post_attention_norm.weight", width, kNormSpread);
  file.add(prefix + "post_ffw_norm.weight", width, kNormSpread);
}

}  // namespace

void write_random_model(const std::string& path, const RandomModel& shape) {
  Gguf file(shape.architecture, shape.architecture + ".", shape.seed);
  describe(shape, file);
  // gemma3 scales its embeddings up: small ones, or the newest token would be all that an answer depends on.
  file.add("token_embd.weight", shape.width, shape.vocabulary, shape.architecture == "gemma3" ? 0.03F : 1.0F);
  file.add("output.weight", shape.width, shape.vocabulary, kOutputSpread);
  file.add("output_norm.weight", shape.width, kNormSpread);
  for (uint32_t i = 0; i < shape.layers; ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    shape.architecture == "mamba" ? add_recurrent_layer(shape, prefix, file) : add_layer(shape, prefix, file);
  }
  file.write(path);
}

ModelPtr make_random_model(const RandomModel& shape) {
  load_engine();
  const TemporaryFolder scratch;
  write_random_model(scratch.path("model.gguf"), shape);
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = 0;
  params.load_mode = LLAMA_LOAD_MODE_NONE;  // the file goes before the model
  ModelPtr model(llama_model_load_from_file(scratch.path("model.gguf").c_str(), params));
  RHIZOME_CHECK(model != nullptr);
  return model;
}

void write_random_lora(const std::string& path, const RandomModel& shape, uint32_t seed) {
  constexpr int64_t kRank = 4;
  Gguf file(shape.architecture, "adapter.", seed);
  gguf_set_val_str(file.get(), "general.type", "adapter");
  gguf_set_val_str(file.get(), "adapter.type", "lora");
  file.set("lora.alpha", 4.0F);
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string name = "blk." + std::to_string(layer) + ".attn_q.weight";
    file.add(name + ".lora_a", shape.width, kRank, 0.3F);
    file.add(name + ".lora_b", kRank, shape.width, 0.3F);
  }
  file.write(path);
}

llama_context_params one_thread_params(uint32_t cells, uint32_t sequences, bool unified) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = cells;
  params.n_seq_max = sequences;
  params.kv_unified = unified;
  params.n_batch = 2048;
  params.n_ubatch = 512;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.swa_full = false;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.no_perf = true;
  return params;
}

ContextPtr make_context(llama_model* model, const llama_context_params& params) {
  ContextPtr context(llama_init_from_model(model, params));
  RHIZOME_CHECK(context != nullptr);
  return context;
}

}  // namespace rhizome
