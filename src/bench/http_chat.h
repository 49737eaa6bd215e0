// One request to an OpenAI-compatible server on this machine. llama-server's own extras (`timings`, `id_slot`,
// token ids beside log-probabilities) are used.
//
// Thread-safety: the functions may be called from any thread; each call has a connection of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/workload.h"
#include "contract/result.h"

namespace rhizome::bench {

struct ChatRequest {
  Conversation conversation;
  uint32_t max_tokens = 16;
  std::optional<int> engine_slot;
  bool ignore_end = false;              // goes on behind the end of the answer, to exactly max_tokens
  bool with_log_probabilities = false;  // then the answer comes in one piece, without a time to its first token
};

struct TokenProbability {
  int32_t id = -1;
  double log_probability = 0;

  friend bool operator==(const TokenProbability&, const TokenProbability&) = default;
};

struct ChatAnswer {
  int http_status = 0;  // 0: nobody answered
  std::string error;    // one line; empty when the request was answered
  double first_token_s = 0;
  double total_s = 0;
  std::string text;
  uint64_t prompt_tokens = 0;
  uint64_t computed_tokens = 0;  // of the prompt, as the server says
  uint64_t generated_tokens = 0;
  std::vector<TokenProbability> probabilities;
  std::string printed_probabilities;  // the same as the server printed them, with the runners-up

  bool ok() const { return http_status == 200 && error.empty(); }
};

ChatAnswer chat(uint16_t port, const ChatRequest& request);

// The body that a GET brings, or a POST of JSON. kUnavailable when nobody answers or the status is not 200.
Result<std::string> http_get(uint16_t port, const std::string& path);
Result<std::string> http_post(uint16_t port, const std::string& path, const std::string& json);

}  // namespace rhizome::bench
