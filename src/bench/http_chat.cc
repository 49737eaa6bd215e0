#include "bench/http_chat.h"

#include <chrono>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "bench/chat_json.h"
#include "machine/clock.h"

namespace rhizome::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

constexpr auto kPatience = std::chrono::seconds(900);  // one whole answer of a slow machine
constexpr std::string_view kEventPrefix = "data:";

// One request on one connection. Beast's time-outs work for asynchronous calls only, so each step is one, and is
// run to its end at once.
class Exchange {
 public:
  explicit Exchange(uint16_t port) : stream_(context_), port_(port) { parser_.body_limit(boost::none); }

  bool send(http::request<http::string_body>& request) {
    stream_.expires_after(kPatience);
    const tcp::endpoint server(asio::ip::address_v4::loopback(), port_);
    stream_.async_connect(server, [this](beast::error_code error) { error_ = error; });
    if (!run()) return false;
    request.set(http::field::host, "127.0.0.1");
    request.prepare_payload();
    http::async_write(stream_, request, [this](beast::error_code error, size_t) { error_ = error; });
    return run();
  }

  // Waits for some more of the answer. False when it is complete or failed.
  bool read_some() {
    if (parser_.is_done()) return false;
    http::async_read_some(stream_, buffer_, parser_, [this](beast::error_code error, size_t) { error_ = error; });
    return run();
  }

  bool failed() const { return static_cast<bool>(error_) && !parser_.is_done(); }
  std::string error() const { return error_.message(); }
  bool has_header() const { return parser_.is_header_done(); }
  int status() const { return static_cast<int>(parser_.get().result_int()); }
  const std::string& body() const { return parser_.get().body(); }

 private:
  bool run() {
    context_.restart();
    context_.run();
    return !error_;
  }

  asio::io_context context_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  beast::error_code error_;
  uint16_t port_;
};

double seconds_since(uint64_t start_ns) {
  return static_cast<double>(monotonic_now_ns() - start_ns) / 1e9;
}

// Reads the complete lines behind `read_to` and moves it.
void read_stream_lines(const std::string& body, size_t& read_to, uint64_t start_ns, ChatAnswer& answer) {
  for (size_t end = body.find('\n', read_to); end != std::string::npos; end = body.find('\n', read_to)) {
    std::string_view line(body.data() + read_to, end - read_to);
    read_to = end + 1;
    if (line.substr(0, kEventPrefix.size()) != kEventPrefix || line.find("[DONE]") != std::string_view::npos) continue;
    line.remove_prefix(kEventPrefix.size());
    if (read_stream_event(line, answer) && answer.first_token_s == 0) answer.first_token_s = seconds_since(start_ns);
  }
}

Result<std::string> body_of_answer(uint16_t port, http::request<http::string_body>& message) {
  Exchange exchange(port);
  if (!exchange.send(message)) return fail(Code::kUnavailable, "nobody answers on the port");
  while (exchange.read_some()) {
  }
  if (exchange.failed()) return fail(Code::kUnavailable, "the connection broke before the answer was complete");
  if (exchange.status() != 200) return fail(Code::kUnavailable, "the HTTP status is not 200");
  return exchange.body();
}

}  // namespace

ChatAnswer chat(uint16_t port, const ChatRequest& request) {
  ChatAnswer answer;
  http::request<http::string_body> message(http::verb::post, "/v1/chat/completions", 11);
  message.set(http::field::content_type, "application/json");
  message.body() = chat_request_body(request);
  Exchange exchange(port);
  const uint64_t start_ns = monotonic_now_ns();
  size_t read_to = 0;
  if (exchange.send(message)) {
    while (exchange.read_some()) {
      const bool streams = exchange.has_header() && exchange.status() == 200 && !request.with_log_probabilities;
      if (streams) read_stream_lines(exchange.body(), read_to, start_ns, answer);
    }
  }
  answer.total_s = seconds_since(start_ns);
  if (exchange.failed()) {
    answer.error = exchange.error();
    return answer;
  }
  answer.http_status = exchange.status();
  if (answer.http_status != 200) {
    answer.error = refusal_text(answer.http_status, exchange.body());
  } else if (request.with_log_probabilities) {
    read_whole_answer(exchange.body(), answer);
  } else {
    read_stream_lines(exchange.body(), read_to, start_ns, answer);
    if (answer.error.empty() && answer.prompt_tokens == 0) answer.error = "the stream ended without its token counts";
  }
  return answer;
}

Result<std::string> http_get(uint16_t port, const std::string& path) {
  http::request<http::string_body> message(http::verb::get, path, 11);
  return body_of_answer(port, message);
}

Result<std::string> http_post(uint16_t port, const std::string& path, const std::string& json) {
  http::request<http::string_body> message(http::verb::post, path, 11);
  message.set(http::field::content_type, "application/json");
  message.body() = json;
  return body_of_answer(port, message);
}

}  // namespace rhizome::bench
