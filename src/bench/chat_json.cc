#include "bench/chat_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace rhizome::bench {
namespace {

using nlohmann::json;

constexpr size_t kRefusalLengthMax = 200;
constexpr int kRunnersUp = 4;

uint64_t count_in(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<uint64_t>() : 0;
}

void read_token_counts(const json& event, ChatAnswer& answer) {
  if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
    answer.prompt_tokens = count_in(*usage, "prompt_tokens");
    answer.generated_tokens = count_in(*usage, "completion_tokens");
    uint64_t cached = 0;
    if (const auto details = usage->find("prompt_tokens_details"); details != usage->end() && details->is_object()) {
      cached = count_in(*details, "cached_tokens");
    }
    answer.computed_tokens = answer.prompt_tokens - std::min(cached, answer.prompt_tokens);
  }
  if (const auto timings = event.find("timings"); timings != event.end() && timings->is_object()) {
    if (timings->contains("prompt_n")) answer.computed_tokens = count_in(*timings, "prompt_n");
  }
}

std::string content_of(const json& holder) {
  const auto content = holder.find("content");
  return content != holder.end() && content->is_string() ? content->get<std::string>() : std::string();
}

json parse(std::string_view text) {
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

void read_probabilities(const json& choice, ChatAnswer& answer) {
  const auto logprobs = choice.find("logprobs");
  if (logprobs == choice.end() || !logprobs->is_object() || !logprobs->contains("content")) return;
  for (const json& token : logprobs->at("content")) {
    TokenProbability read;
    if (token.contains("id") && token["id"].is_number()) read.id = token["id"].get<int32_t>();
    if (token.contains("logprob") && token["logprob"].is_number())
      read.log_probability = token["logprob"].get<double>();
    answer.probabilities.push_back(read);
  }
}

}  // namespace

std::string chat_request_body(const ChatRequest& request) {
  json messages = json::array();
  for (const Message& message : request.conversation) {
    messages.push_back({{"role", message.role}, {"content", message.content}});
  }
  json body = {
      {"model", "m"}, {"messages", std::move(messages)}, {"max_tokens", request.max_tokens}, {"temperature", 0}};
  if (request.with_log_probabilities) {
    body["logprobs"] = true;
    body["top_logprobs"] = 1 + kRunnersUp;
    body["return_tokens"] = true;
  } else {
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
  }
  if (request.ignore_end) body["ignore_eos"] = true;
  if (request.engine_slot) body["id_slot"] = *request.engine_slot;
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

bool read_stream_event(std::string_view event, ChatAnswer& answer) {
  const json parsed = parse(event);
  if (parsed.is_discarded() || !parsed.is_object()) {
    answer.error = "a stream event is no JSON object";
    return false;
  }
  if (const auto error = parsed.find("error"); error != parsed.end())
    answer.error = error->dump().substr(0, kRefusalLengthMax);
  read_token_counts(parsed, answer);
  bool carries_text = false;
  const auto choices = parsed.find("choices");
  if (choices == parsed.end() || !choices->is_array()) return false;
  for (const json& choice : *choices) {
    const auto delta = choice.find("delta");
    const std::string text = delta != choice.end() && delta->is_object() ? content_of(*delta) : std::string();
    const auto finish = choice.find("finish_reason");
    carries_text |= !text.empty() || (finish != choice.end() && finish->is_string());
    answer.text += text;
  }
  return carries_text;
}

void read_whole_answer(const std::string& body, ChatAnswer& answer) {
  const json parsed = parse(body);
  if (parsed.is_discarded() || !parsed.is_object() || !parsed.contains("choices") || !parsed["choices"].is_array() ||
      parsed["choices"].empty()) {
    answer.error = "the answer is no JSON object with choices";
    return;
  }
  read_token_counts(parsed, answer);
  const json& choice = parsed["choices"].front();
  if (const auto message = choice.find("message"); message != choice.end()) answer.text = content_of(*message);
  read_probabilities(choice, answer);
  answer.printed_probabilities = printed_value(body, "logprobs");
}

std::string refusal_text(int http_status, const std::string& body) {
  std::string text = body;
  if (const json parsed = parse(body); parsed.is_object() && parsed.contains("error")) {
    const json& error = parsed["error"];
    text = error.is_object() && error.contains("message") && error["message"].is_string()
               ? error["message"].get<std::string>()
               : error.dump();
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return "HTTP " + std::to_string(http_status) + " " + text.substr(0, kRefusalLengthMax);
}

std::string printed_value(std::string_view json_text, std::string_view key) {
  const std::string quoted = "\"" + std::string(key) + "\":";
  const size_t found = json_text.find(quoted);
  if (found == std::string_view::npos) return {};
  size_t begin = found + quoted.size();
  while (begin < json_text.size() && json_text[begin] == ' ')
    ++begin;
  if (begin == json_text.size() || (json_text[begin] != '{' && json_text[begin] != '[')) return {};
  int depth = 0;
  bool in_string = false;
  for (size_t at = begin; at < json_text.size(); ++at) {
    const char c = json_text[at];
    if (in_string) {
      if (c == '\\')
        ++at;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return std::string(json_text.substr(begin, at + 1 - begin));
    }
  }
  return {};
}

}  // namespace rhizome::bench
