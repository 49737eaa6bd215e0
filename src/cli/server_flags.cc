#include "cli/server_flags.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace rhizome {
namespace {

using Spellings = std::vector<std::string_view>;

// llama-server's default for -np, which it calls auto; with it comes a unified buffer.
constexpr int64_t kAutoSlots = 4;

const Spellings kContext = {"-c", "--ctx-size"};
const Spellings kSlots = {"-np", "--parallel"};
const Spellings kCacheRam = {"-cram", "--cache-ram"};
const Spellings kCheckpoints = {"-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"};
const Spellings kUnified = {"-kvu", "--kv-unified", "-no-kvu", "--no-kv-unified"};
const Spellings kModel = {"-m", "--model"};
const Spellings kOtherModels = {"-mu", "--model-url",   "-hf",          "-hfr",           "--hf-repo",
                                "-dr", "--docker-repo", "--models-dir", "--models-preset"};
constexpr std::array kOtherModelVariables = {"LLAMA_ARG_MODEL_URL", "LLAMA_ARG_HF_REPO", "LLAMA_ARG_DOCKER_REPO",
                                             "LLAMA_ARG_MODELS_DIR", "LLAMA_ARG_MODELS_PRESET"};
const Spellings kSayings = {"-h",  "--help",       "--usage",        "--version",        "--license",
                            "-cl", "--cache-list", "--list-devices", "--completion-bash"};

// llama-server takes --ctx_size for --ctx-size.
std::string canonical(std::string argument) {
  if (argument.starts_with("--")) std::replace(argument.begin(), argument.end(), '_', '-');
  return argument;
}

// The place of the last of them on the line; its size when there is none.
size_t place_of(const std::vector<std::string>& theirs, const Spellings& spellings) {
  for (size_t i = theirs.size(); i > 0; --i) {
    if (std::ranges::find(spellings, canonical(theirs[i - 1])) != spellings.end()) return i - 1;
  }
  return theirs.size();
}

bool is_given(const std::vector<std::string>& theirs, const Spellings& spellings, const std::string& variable,
              const Environment& environment) {
  return place_of(theirs, spellings) < theirs.size() || environment(variable).has_value();
}

std::optional<int64_t> whole_number(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  int64_t number = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (failed != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return number;
}

// Rows of one conversation lie alone in a buffer of their own, so n slots need n times the cells.
std::optional<std::string> make_exact(ServerCall& call, const std::vector<std::string>& theirs,
                                      const Environment& environment) {
  const size_t unified = place_of(theirs, kUnified);
  const bool off_on_line = unified < theirs.size() && canonical(theirs[unified]).find("no-") != std::string::npos;
  if (unified < theirs.size() && !off_on_line) {
    return theirs[unified] + " and --exact exclude each other: exact answers need a buffer for each slot";
  }
  if (unified == theirs.size() && environment("LLAMA_ARG_KV_UNIFIED")) call.flags.emplace_back("-no-kvu");

  const auto asked_slots = server_value(theirs, kSlots, "LLAMA_ARG_N_PARALLEL", environment);
  auto slots = whole_number(asked_slots);
  if (asked_slots && !slots) return std::nullopt;  // llama-server says what is wrong with it
  if (!slots || *slots < 0) {
    slots = kAutoSlots;
    const size_t place = place_of(theirs, kSlots);
    if (place + 1 < theirs.size()) {
      call.flags[place + 1] = std::to_string(*slots);
    } else {
      call.flags.insert(call.flags.end(), {"-np", std::to_string(*slots)});
    }
  }
  const auto asked_context = server_value(theirs, kContext, "LLAMA_ARG_CTX_SIZE", environment);
  const auto context = whole_number(asked_context);
  if (asked_context && !context) return std::nullopt;
  if (!context || *context <= 0) {
    call.notes.push_back("--exact without -c: the model's context is divided among " + std::to_string(*slots) +
                         " slots; give -c N for N tokens in each");
    return std::nullopt;
  }
  constexpr int64_t kMost = INT32_MAX;
  if (*slots > 0 && *context > kMost / *slots) {
    return "-c " + std::to_string(*context) + " in each of " + std::to_string(*slots) +
           " slots (--exact) is more than " + std::to_string(kMost) + " tokens";
  }
  const std::string all = std::to_string(*context * *slots);
  const size_t place = place_of(theirs, kContext);
  if (place < theirs.size()) {
    call.flags[place + 1] = all;
  } else {
    call.flags.insert(call.flags.end(), {"-c", all});
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> server_value(const std::vector<std::string>& theirs, const Spellings& spellings,
                                        const std::string& variable, const Environment& environment) {
  const size_t place = place_of(theirs, spellings);
  if (place == theirs.size()) return environment(variable);
  if (place + 1 == theirs.size()) return std::nullopt;
  return theirs[place + 1];
}

std::optional<std::string> server_model(const std::vector<std::string>& theirs, const Environment& environment) {
  return server_value(theirs, kModel, "LLAMA_ARG_MODEL", environment);
}

bool needs_no_model_file(const std::vector<std::string>& theirs, const Environment& environment) {
  if (place_of(theirs, kOtherModels) < theirs.size() || place_of(theirs, kSayings) < theirs.size()) return true;
  return std::ranges::any_of(kOtherModelVariables, [&](const char* name) { return environment(name).has_value(); });
}

OrComplaint<ServerCall> server_call(const CacheFlags& flags, const std::vector<std::string>& theirs,
                                    const Environment& environment) {
  ServerCall call{.flags = theirs, .notes = {}};
  if (flags.off) return call;
  if (flags.exact) {
    if (auto wrong = make_exact(call, theirs, environment)) return complain(*wrong);
  } else if (!is_given(theirs, kUnified, "LLAMA_ARG_KV_UNIFIED", environment)) {
    call.flags.emplace_back("-kvu");
  }
  // Its own copies of prompts and of windows would hold the same rows a second time.
  if (!is_given(theirs, kCacheRam, "LLAMA_ARG_CACHE_RAM", environment)) {
    call.flags.insert(call.flags.end(), {"--cache-ram", "0"});
  }
  if (!is_given(theirs, kCheckpoints, "LLAMA_ARG_CTX_CHECKPOINTS", environment)) {
    call.flags.insert(call.flags.end(), {"--ctx-checkpoints", "0"});
  }
  return call;
}

}  // namespace rhizome
