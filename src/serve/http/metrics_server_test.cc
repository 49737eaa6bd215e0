#include "serve/http/metrics_server.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

namespace rhizome {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using SystemError = boost::system::error_code;

class Peer {
 public:
  explicit Peer(uint16_t port) { socket_.connect({asio::ip::address_v4::loopback(), port}); }

  void send(const std::string& text) {
    SystemError ignored;
    asio::write(socket_, asio::buffer(text), ignored);
  }
  void finish_sending() { socket_.shutdown(Tcp::socket::shutdown_send); }
  // Everything until the server closes.
  std::string rest() {
    std::string text;
    SystemError ended;
    asio::read(socket_, asio::dynamic_buffer(text), ended);
    return text;
  }

 private:
  asio::io_context io_;
  Tcp::socket socket_{io_};
};

std::string ask(uint16_t port, const std::string& request) {
  Peer peer(port);
  peer.send(request);
  return peer.rest();
}

std::string get(uint16_t port, const std::string& target) {
  return ask(port, "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

class MetricsServerTest : public testing::Test {
 protected:
  void SetUp() override {
    counters_ = Counters::local();
    auto started = MetricsServer::start(0, *counters_);
    ASSERT_TRUE(started) << started.error().reason;
    server_ = std::move(*started);
  }

  std::unique_ptr<Counters> counters_;
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, ShowsWhatTheCountersSayNow) {
  EXPECT_NE(get(server_->port(), "/metrics").find("\nrhizome_lookups_total 0\n"), std::string::npos);
  counters_->add(Counter::kLookups, 3);
  const std::string answer = get(server_->port(), "/metrics?x=1");
  EXPECT_EQ(answer.rfind("HTTP/1.1 200 OK\r\n", 0), 0U) << answer;
  EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), std::string::npos);
  EXPECT_NE(answer.find("\nrhizome_lookups_total 3\n"), std::string::npos);
}

TEST_F(MetricsServerTest, SaysOnHealthWhetherItCanServe) {
  std::string answer = get(server_->port(), "/health");
  EXPECT_EQ(answer.rfind("HTTP/1.1 200 OK\r\n", 0), 0U);
  EXPECT_NE(answer.find("{\"status\":\"ok\"}"), std::string::npos);
  server_->set_trouble("stopping");
  answer = get(server_->port(), "/health");
  EXPECT_EQ(answer.rfind("HTTP/1.1 503 Service Unavailable\r\n", 0), 0U);
  EXPECT_NE(answer.find("{\"status\":\"stopping\"}"), std::string::npos);
  server_->set_trouble(nullptr);
  EXPECT_EQ(get(server_->port(), "/health").rfind("HTTP/1.1 200 OK\r\n", 0), 0U);
}

TEST_F(MetricsServerTest, RefusesWhatItDoesNotServe) {
  struct Case {
    std::string request;
    std::string status;
    std::string holds;
  };
  const std::string long_line(16 * 1024, 'a');
  const std::vector<Case> cases = {
      {"GET /other HTTP/1.1\r\nHost: x\r\n\r\n", "404 Not Found", "\"code\":\"NOT_FOUND\""},
      {"GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n", "404 Not Found", ""},
      {"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi", "405 Method Not Allowed", "Allow: GET\r\n"},
      {"DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n", "405 Method Not Allowed", "Allow: GET\r\n"},
      {"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + long_line, "413 Payload Too Large",
       "RESOURCE_EXHAUSTED"},
      {"GET /metrics HTTP/1.1\r\nX: " + long_line + "\r\n\r\n", "431 Request Header Fields Too Large", ""},
      {"this is no request\r\n\r\n", "400 Bad Request", "INVALID_ARGUMENT"},
      {"GET /metrics HTTP/9.7\r\n\r\n", "400 Bad Request", ""},
  };
  for (const Case& row : cases) {
    const std::string answer = ask(server_->port(), row.request);
    EXPECT_EQ(answer.rfind("HTTP/1.1 " + row.status + "\r\n", 0), 0U) << row.request.substr(0, 80) << "\n" << answer;
    EXPECT_NE(answer.find(row.holds), std::string::npos) << answer;
  }
  EXPECT_EQ(get(server_->port(), "/health").rfind("HTTP/1.1 200 OK\r\n", 0), 0U);
}

TEST_F(MetricsServerTest, AnswersHttp10) {
  const std::string answer = ask(server_->port(), "GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(answer.rfind("HTTP/1.0 200 OK\r\n", 0), 0U) << answer;
}

TEST_F(MetricsServerTest, ClosesOnAPeerThatGoesAwayInTheMiddle) {
  Peer peer(server_->port());
  peer.send("GET /metr");
  peer.finish_sending();
  EXPECT_EQ(peer.rest(), "");
  EXPECT_EQ(get(server_->port(), "/health").rfind("HTTP/1.1 200 OK\r\n", 0), 0U);
}

// More peers than it has places, none of them saying anything: the next one waits for their time to
// run out and is then answered.
TEST_F(MetricsServerTest, SilentPeersLoseTheirPlaces) {
  std::vector<std::unique_ptr<Peer>> silent;
  for (int i = 0; i < 32; ++i)
    silent.push_back(std::make_unique<Peer>(server_->port()));
  EXPECT_EQ(get(server_->port(), "/health").rfind("HTTP/1.1 200 OK\r\n", 0), 0U);
  for (auto& peer : silent)
    EXPECT_EQ(peer->rest(), "");
}

TEST_F(MetricsServerTest, StopsWhilePeersAreConnected) {
  Peer silent(server_->port());
  Peer half(server_->port());
  half.send("GET /metrics HTTP/1.1\r\n");
  EXPECT_EQ(get(server_->port(), "/health").rfind("HTTP/1.1 200 OK\r\n", 0), 0U);
  server_.reset();
  EXPECT_EQ(silent.rest(), "");
  EXPECT_EQ(half.rest(), "");
}

TEST_F(MetricsServerTest, SaysThatAPortIsTaken) {
  const auto second = MetricsServer::start(server_->port(), *counters_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kAlreadyExists);
  const uint16_t port = server_->port();
  server_.reset();
  EXPECT_TRUE(MetricsServer::start(port, *counters_)) << "a port that was served on is free again at once";
}

}  // namespace
}  // namespace rhizome
