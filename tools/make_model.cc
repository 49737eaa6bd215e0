// Makes the small models that tests and benchmarks run on, from one real model:
//   make_model cut IN OUT LAYERS     the first LAYERS layers of IN: its tokenizer, a tenth of its cost, noise for text
//   make_model window IN OUT SEED    random weights with a sliding window (gemma3's shape), the tokenizer of IN
// The same input gives the same bytes, on every machine.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "ggml.h"
#include "gguf.h"

namespace {

[[noreturn]] void stop(const std::string& what) {
  std::fprintf(stderr, "make_model: %s\n", what.c_str());
  std::exit(1);
}

// A GGUF file, opened with its tensors' bytes or without.
struct Source {
  gguf_context* meta = nullptr;
  ggml_context* tensors = nullptr;
};

Source open_source(const char* path) {
  Source source;
  gguf_init_params params{};
  params.no_alloc = false;
  params.ctx = &source.tensors;
  source.meta = gguf_init_from_file(path, params);
  if (source.meta == nullptr) stop(std::string(path) + " is not a GGUF file that can be read");
  return source;
}

std::string string_of(const gguf_context* meta, const char* key) {
  const int64_t id = gguf_find_key(meta, key);
  if (id < 0) stop(std::string("no ") + key + " in the model");
  return gguf_get_val_str(meta, id);
}

void write(gguf_context* meta, const char* path) {
  if (!gguf_write_to_file(meta, path, false)) stop(std::string("cannot write ") + path);
}

void cut(const char* in, const char* out, uint32_t layers) {
  const Source source = open_source(in);
  const std::string key = string_of(source.meta, "general.architecture") + ".block_count";
  const int64_t id = gguf_find_key(source.meta, key.c_str());
  if (id < 0 || layers == 0 || layers > gguf_get_val_u32(source.meta, id)) stop("the model has not that many layers");

  gguf_context* meta = gguf_init_empty();
  gguf_set_kv(meta, source.meta);
  gguf_set_val_u32(meta, key.c_str(), layers);
  for (int64_t i = 0; i < gguf_get_n_tensors(source.meta); ++i) {
    const std::string_view name = gguf_get_tensor_name(source.meta, i);
    const bool in_layer = name.substr(0, 4) == "blk.";
    if (in_layer && std::strtoul(name.data() + 4, nullptr, 10) >= layers) continue;
    gguf_add_tensor(meta, ggml_get_tensor(source.tensors, name.data()));
  }
  write(meta, out);
  gguf_free(meta);
  gguf_free(source.meta);
  ggml_free(source.tensors);
}

// SplitMix64, and a sum of uniform numbers for a normal one: no library's generator, so that the bytes never change.
class Noise {
 public:
  Noise(uint64_t seed, std::string_view name) : state_(seed) {
    for (const char c : name)
      state_ = (state_ ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  }

  float normal() {
    float sum = 0;
    for (int i = 0; i < 12; ++i)
      sum += static_cast<float>(next() >> 40) * 0x1p-24F;
    return sum - 6;
  }

 private:
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

constexpr uint32_t kLayers = 4;
constexpr uint32_t kWindow = 96;  // not a multiple of 64: block and batch borders do not fall on the window's edge
constexpr uint32_t kWidth = 256;
constexpr uint32_t kHeads = 4;
constexpr uint32_t kHeadsKv = 2;
constexpr uint32_t kHeadWidth = 64;
constexpr uint32_t kFeedForward = 512;

void describe_window_model(gguf_context* meta) {
  const auto set = [meta](const char* key, uint32_t value) {
    gguf_set_val_u32(meta, (std::string("gemma3.") + key).c_str(), value);
  };
  gguf_set_val_str(meta, "general.architecture", "gemma3");
  gguf_set_val_str(meta, "general.name", "random weights, sliding window");
  set("context_length", 8192);
  set("block_count", kLayers);
  set("embedding_length", kWidth);
  set("feed_forward_length", kFeedForward);
  set("attention.head_count", kHeads);
  set("attention.head_count_kv", kHeadsKv);
  set("attention.key_length", kHeadWidth);
  set("attention.value_length", kHeadWidth);
  set("attention.sliding_window", kWindow);
  set("attention.sliding_window_pattern", 2);
  gguf_set_val_f32(meta, "gemma3.attention.layer_norm_rms_epsilon", 1e-6F);
  gguf_set_val_f32(meta, "gemma3.rope.freq_base", 10000.0F);
}

// True for tokens that are a whole word with its space in front ("\u0120" in the vocabulary).
bool is_word(std::string_view text) {
  if (text.size() < 4 || text.substr(0, 2) != "\xc4\xa0") return false;
  for (const char c : text.substr(2)) {
    if (c < 'a' || c > 'z') return false;
  }
  return true;
}

class WindowModel {
 public:
  WindowModel(const gguf_context* vocabulary, uint64_t seed) : vocabulary_(vocabulary), seed_(seed) {
    ggml_init_params params{};
    params.mem_size = 256U << 20U;
    tensors_ = ggml_init(params);
    tokens_ = gguf_find_key(vocabulary, "tokenizer.ggml.tokens");
    if (tokens_ < 0) stop("no tokenizer in the model");
    describe_window_model(meta_);
    for (int64_t i = 0; i < gguf_get_n_kv(vocabulary); ++i) {
      const std::string_view key = gguf_get_key(vocabulary, i);
      if (key.substr(0, 10) != "tokenizer.") drop_.emplace_back(key);
    }
  }
  WindowModel(const WindowModel&) = delete;
  WindowModel& operator=(const WindowModel&) = delete;
  ~WindowModel() {
    gguf_free(meta_);
    ggml_free(tensors_);
  }

  void save(const char* out) {
    copy_tokenizer();
    const auto words = static_cast<int64_t>(gguf_get_arr_n(vocabulary_, tokens_));
    add("token_embd", kWidth, words);
    add("output", kWidth, words);
    add("output_norm", kWidth);
    for (uint32_t i = 0; i < kLayers; ++i)
      add_layer("blk." + std::to_string(i) + ".");
    write(meta_, out);
  }

 private:
  void copy_tokenizer() {
    gguf_context* tokenizer = gguf_init_empty();
    gguf_set_kv(tokenizer, vocabulary_);
    for (const std::string& key : drop_)
      gguf_remove_key(tokenizer, key.c_str());
    gguf_set_kv(meta_, tokenizer);
    gguf_free(tokenizer);
  }

  void add_layer(const std::string& prefix) {
    add(prefix + "attn_norm", kWidth);
    add(prefix + "attn_q", kWidth, kHeads * kHeadWidth);
    add(prefix + "attn_k", kWidth, kHeadsKv * kHeadWidth);
    add(prefix + "attn_v", kWidth, kHeadsKv * kHeadWidth);
    add(prefix + "attn_output", kHeads * kHeadWidth, kWidth);
    add(prefix + "attn_q_norm", kHeadWidth);
    add(prefix + "attn_k_norm", kHeadWidth);
    add(prefix + "post_attention_norm", kWidth);
    add(prefix + "ffn_norm", kWidth);
    add(prefix + "ffn_gate", kWidth, kFeedForward);
    add(prefix + "ffn_up", kWidth, kFeedForward);
    add(prefix + "ffn_down", kFeedForward, kWidth);
    add(prefix + "post_ffw_norm", kWidth);
  }

  // A norm: around 1.
  void add(const std::string& name, int64_t width) {
    ggml_tensor* tensor = ggml_new_tensor_1d(tensors_, GGML_TYPE_F32, width);
    Noise noise(seed_, name);
    auto* values = static_cast<float*>(tensor->data);
    for (int64_t i = 0; i < width; ++i)
      values[i] = 1 + 0.08F * noise.normal();
    finish(tensor, name);
  }

  void add(const std::string& name, int64_t width, int64_t rows) {
    ggml_tensor* tensor = ggml_new_tensor_2d(tensors_, GGML_TYPE_F16, width, rows);
    Noise noise(seed_, name);
    std::vector<float> row(static_cast<size_t>(width));
    for (int64_t r = 0; r < rows; ++r) {
      const float scale = scale_of(name, r);
      for (float& x : row)
        x = scale * noise.normal();
      ggml_fp32_to_fp16_row(row.data(), static_cast<ggml_fp16_t*>(tensor->data) + r * width, width);
    }
    finish(tensor, name);
  }

  // Whole words are preferred in the output: what is generated then tokenizes back to the tokens that were generated,
  // as a trained model's text does, and a conversation can be followed from turn to turn.
  float scale_of(const std::string& name, int64_t row) const {
    if (name != "output") return 0.08F;
    return is_word(gguf_get_arr_str(vocabulary_, tokens_, static_cast<size_t>(row))) ? 0.08F : 0.02F;
  }

  void finish(ggml_tensor* tensor, const std::string& name) {
    ggml_set_name(tensor, (name + ".weight").c_str());
    gguf_add_tensor(meta_, tensor);
  }

  const gguf_context* vocabulary_;
  uint64_t seed_;
  int64_t tokens_ = -1;
  ggml_context* tensors_ = nullptr;
  gguf_context* meta_ = gguf_init_empty();
  std::vector<std::string> drop_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 5) stop("usage: make_model cut IN OUT LAYERS | make_model window IN OUT SEED");
  const std::string_view what = words[1];
  const uint64_t number = std::strtoull(words[4], nullptr, 10);
  if (what == "cut") {
    cut(words[2], words[3], static_cast<uint32_t>(number));
  } else if (what == "window") {
    const Source source = open_source(words[2]);
    WindowModel(source.meta, number).save(words[3]);
    gguf_free(source.meta);
    ggml_free(source.tensors);
  } else {
    stop("what is '" + std::string(what) + "'? cut or window");
  }
  return 0;
}
