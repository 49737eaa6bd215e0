#include "serve/http/metrics_server.h"

#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include <fcntl.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "machine/files.h"
#include "machine/thread.h"
#include "serve/http/exposition.h"

namespace rhizome {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using SystemError = boost::system::error_code;
using Answer = http::response<http::string_body>;

// A scraper sends one short request. Whoever takes longer or sends more is cut off.
constexpr size_t kConnectionsLimit = 32;
constexpr auto kPatience = std::chrono::seconds(5);
constexpr auto kLastWords = std::chrono::seconds(1);
constexpr uint32_t kHeaderLimit = 8 * 1024;
constexpr uint64_t kBodyLimit = 1024;
// Out of file descriptors, accept fails at once, again and again.
constexpr auto kPauseAfterRefusal = std::chrono::milliseconds(100);

// Asio's sockets stay open over exec: a program that is started here would keep the port when this process has ended.
template <class Socket>
void keep_to_ourselves(Socket& socket) {
  static_cast<void>(::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC));
}

std::string error_body(Code code, std::string_view message) {
  std::string body = R"({"error":{"code":")";
  body += code_name(code);
  body += R"(","message":")";
  body += message;
  body += "\"}}\n";
  return body;
}

Answer answer_of(http::status status, unsigned version, std::string_view type, std::string body) {
  Answer answer(status, version);
  answer.set(http::field::content_type, beast::string_view(type.data(), type.size()));
  answer.set(http::field::cache_control, "no-store");
  // One request a connection: nothing idle ever holds a place.
  answer.keep_alive(false);
  answer.body() = std::move(body);
  answer.prepare_payload();
  return answer;
}

Answer refusal(http::status status, unsigned version, Code code, std::string_view message) {
  return answer_of(status, version, "application/json", error_body(code, message));
}

}  // namespace

// Everything but `trouble` and `port` belongs to the thread that runs `io`.
struct MetricsServer::Listener {
  struct Connection;

  explicit Listener(const Counters& shown) : counters(shown) {}

  SystemError open(uint16_t wanted);
  void accept();
  void accepted(SystemError failed, Tcp::socket socket);
  void stop();
  Answer answer(const http::request<http::string_body>& request) const;
  Answer health(unsigned version) const;

  const Counters& counters;
  asio::io_context io{1};
  Tcp::acceptor acceptor{io};
  asio::steady_timer pause{io};
  std::unordered_set<Connection*> open_now;
  bool stopping = false;
  std::atomic<const char*> trouble{nullptr};
  uint16_t port = 0;
  Thread thread;
};

// Does one thing at a time, and the handler that waits for its end owns it: a handler that is never
// called takes the connection with it.
struct MetricsServer::Listener::Connection {
  using Owner = std::unique_ptr<Connection>;

  Connection(Listener& owner, Tcp::socket socket) : listener(owner), stream(std::move(socket)) {
    listener.open_now.insert(this);
    parser.header_limit(kHeaderLimit);
    parser.body_limit(kBodyLimit);
  }
  ~Connection() {
    listener.open_now.erase(this);
    // A full house stops accepting; the first who leaves opens the door again.
    if (listener.open_now.size() + 1 == kConnectionsLimit && !listener.stopping) listener.accept();
  }

  void read(Owner self) {
    stream.expires_after(kPatience);
    http::async_read(stream, buffer, parser, [this, self = std::move(self)](SystemError failed, size_t) mutable {
      have_read(failed, std::move(self));
    });
  }

  void have_read(SystemError failed, Owner self) {
    if (!failed) return write(listener.answer(parser.get()), std::move(self));
    unread = true;
    const unsigned version = parser.get().version() == 10 ? 10 : 11;
    if (failed == http::error::body_limit) {
      return write(refusal(http::status::payload_too_large, version, Code::kResourceExhausted, "no body is taken here"),
                   std::move(self));
    }
    if (failed == http::error::header_limit || failed == http::error::buffer_overflow) {
      return write(refusal(http::status::request_header_fields_too_large, version, Code::kResourceExhausted,
                           "the request's head is longer than 8 KiB"),
                   std::move(self));
    }
    // What broke the protocol is answered; what went away, or was too slow, is not there to be answered.
    if (failed.category() == http::make_error_code(http::error::bad_method).category() &&
        failed != http::error::end_of_stream && failed != http::error::partial_message) {
      write(refusal(http::status::bad_request, version, Code::kInvalidArgument, "this is not an HTTP request"),
            std::move(self));
    }
  }

  void write(Answer what, Owner self) {
    response.emplace(std::move(what));
    stream.expires_after(kPatience);
    http::async_write(stream, *response, [this, self = std::move(self)](SystemError failed, size_t) mutable {
      SystemError ignored;
      stream.socket().shutdown(Tcp::socket::shutdown_send, ignored);
      if (failed || !unread) return;
      // Closing on unread bytes would reset the connection and take the refusal away from the peer.
      stream.expires_after(kLastWords);
      drain(std::move(self));
    });
  }

  void drain(Owner self) {
    stream.async_read_some(asio::buffer(scrap), [this, self = std::move(self)](SystemError failed, size_t) mutable {
      if (!failed) drain(std::move(self));
    });
  }

  Listener& listener;
  beast::tcp_stream stream;
  beast::flat_buffer buffer{kHeaderLimit + kBodyLimit};
  http::request_parser<http::string_body> parser;
  std::optional<Answer> response;
  bool unread = false;
  std::array<char, 4096> scrap;
};

SystemError MetricsServer::Listener::open(uint16_t wanted) {
  const Tcp::endpoint where(asio::ip::address_v4::loopback(), wanted);
  SystemError failed;
  if (acceptor.open(where.protocol(), failed)) return failed;
  keep_to_ourselves(acceptor);
  // Connections of an earlier server that linger in TIME_WAIT do not make the port taken.
  if (acceptor.set_option(asio::socket_base::reuse_address(true), failed)) return failed;
  if (acceptor.bind(where, failed)) return failed;
  if (acceptor.listen(kConnectionsLimit, failed)) return failed;
  port = acceptor.local_endpoint(failed).port();
  return failed;
}

void MetricsServer::Listener::accept() {
  acceptor.async_accept([this](SystemError failed, Tcp::socket socket) { accepted(failed, std::move(socket)); });
}

void MetricsServer::Listener::accepted(SystemError failed, Tcp::socket socket) {
  if (stopping || failed == asio::error::operation_aborted) return;
  if (failed) {
    pause.expires_after(kPauseAfterRefusal);
    pause.async_wait([this](SystemError cancelled) {
      if (!cancelled) accept();
    });
    return;
  }
  keep_to_ourselves(socket);
  auto connection = std::make_unique<Connection>(*this, std::move(socket));
  Connection& peer = *connection;
  peer.read(std::move(connection));
  if (open_now.size() < kConnectionsLimit) accept();
}

// Leaves `io` without work: its thread ends when the last handler has returned.
void MetricsServer::Listener::stop() {
  stopping = true;
  SystemError ignored;
  acceptor.close(ignored);
  pause.cancel();
  for (Connection* connection : open_now)
    connection->stream.close();
}

Answer MetricsServer::Listener::answer(const http::request<http::string_body>& request) const {
  const unsigned version = request.version();
  const std::string_view target(request.target().data(), request.target().size());
  const std::string_view path = target.substr(0, target.find('?'));
  if (path != "/metrics" && path != "/health") {
    return refusal(http::status::not_found, version, Code::kNotFound, "there is GET /metrics and GET /health");
  }
  if (request.method() != http::verb::get) {
    Answer refused =
        refusal(http::status::method_not_allowed, version, Code::kUnimplemented, "only GET is answered here");
    refused.set(http::field::allow, "GET");
    return refused;
  }
  if (path == "/health") return health(version);
  return answer_of(http::status::ok, version, "text/plain; version=0.0.4; charset=utf-8", exposition(counters));
}

Answer MetricsServer::Listener::health(unsigned version) const {
  const char* word = trouble.load(std::memory_order_relaxed);
  const http::status status = word == nullptr ? http::status::ok : http::status::service_unavailable;
  std::string body = R"({"status":")";
  body += word == nullptr ? "ok" : word;
  body += "\"}\n";
  return answer_of(status, version, "application/json", std::move(body));
}

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(uint16_t port, const Counters& counters) try {
  auto listener = std::make_unique<Listener>(counters);
  if (const SystemError failed = listener->open(port); failed) {
    if (failed == asio::error::address_in_use) return fail(Code::kAlreadyExists, "the port is in use");
    return fail(error_from_errno(failed.value(), "the port cannot be listened on"));
  }
  listener->accept();
  auto thread = start_thread("rhizome-http", [raw = listener.get()] { raw->io.run(); });
  if (!thread) return fail(thread.error());
  listener->thread = std::move(*thread);
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(listener)));
} catch (const std::exception&) {
  // Asio throws when the kernel refuses it an epoll instance.
  return fail(Code::kResourceExhausted, "no resources to listen with");
}

MetricsServer::MetricsServer(std::unique_ptr<Listener> listener) : listener_(std::move(listener)) {}

MetricsServer::~MetricsServer() {
  asio::post(listener_->io, [listener = listener_.get()] { listener->stop(); });
  listener_->thread.join();
}

uint16_t MetricsServer::port() const {
  return listener_->port;
}

void MetricsServer::set_trouble(const char* status) {
  listener_->trouble.store(status, std::memory_order_relaxed);
}

}  // namespace rhizome
